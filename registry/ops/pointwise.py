"""Elementwise ops with NumPy's broadcasting: arithmetic, comparisons, functions, choice.

Operand dtypes are equal; a Python number takes the dtype of the other operand. `div`, `pow` and the functions of
analysis take floats only, because a quotient of integers is no integer: cast first. Integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable

from prograd_proto import TensorType
from registry.op import Op, op
from registry.ops.reduce import sum_to
from registry.traits import exact, exact_for_integers, idempotent, identity_operand, identity_operands, involution
from registry.value import Operand, Value


@identity_operands(0, -0.0, either=True)
@exact
@op
def add(a: Operand, b: Operand) -> TensorType:
    """Return the sum a + b."""
    ...


@add.gradient
def add_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(dy, b)


@identity_operand(0)
@exact
@op
def sub(a: Operand, b: Operand) -> TensorType:
    """Return the difference a - b."""
    ...


@sub.gradient
def sub_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(-dy, b)


@identity_operand(1, either=True)
@exact
@op
def mul(a: Operand, b: Operand) -> TensorType:
    """Return the product a * b."""
    ...


@mul.gradient
def mul_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy * b, a), sum_to(dy * a, b)


@identity_operand(1)
@exact
@op
def div(a: Operand, b: Operand) -> TensorType:
    """Return the quotient a / b, floats only."""
    ...


@div.gradient
def div_gradient(a: Value, b: Value, y: Value, dy: Value) -> tuple[Value, Value]:
    da = dy / b
    return sum_to(da, a), sum_to(-da * y, b)


@op
def pow(a: Operand, b: Operand) -> TensorType:
    """Return the power a ** b, floats only.

    The gradient for a is 0 where a and b are 0, for b it is 0 where a is 0 and b is not negative.
    """
    ...


@pow.gradient
def pow_gradient(a: Value, b: Value, y: Value, dy: Value) -> tuple[Value, Value]:
    # Where b * a**(b - 1) would be 0 * inf, or y * log(a) 0 * -inf, one factor is replaced and not the product:
    # no NaN arises that a later `where` would have to hide, at any order.
    zero = equal(a, 0.0)
    da = b * a ** where(zero & equal(b, 0.0), 1.0, b - 1.0)
    db = y * log(where(zero & (b >= 0.0), 1.0, a))
    return sum_to(dy * da, a), sum_to(dy * db, b)


@exact_for_integers
@op
def maximum(a: Operand, b: Operand) -> TensorType:
    """Return the larger of a and b; NaN wins. Equal ones halve the gradient; a NaN passes all of it to both."""
    ...


@maximum.gradient
def maximum_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    da, db = _divided(dy, a < b, a > b, equal(a, b))
    return sum_to(da, a), sum_to(db, b)


@exact_for_integers
@op
def minimum(a: Operand, b: Operand) -> TensorType:
    """Return the smaller of a and b; NaN wins. Equal ones halve the gradient; a NaN passes all of it to both."""
    ...


@minimum.gradient
def minimum_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    da, db = _divided(dy, a > b, a < b, equal(a, b))
    return sum_to(da, a), sum_to(db, b)


@exact_for_integers
@op
def clip(x: Operand, min: Operand | None = None, max: Operand | None = None) -> TensorType:
    """Return minimum(maximum(x, min), max); a bound that is None does not apply.

    The gradient goes to x within and on the bounds, and to the bound beyond it. NaN wins.
    """
    ...


@clip.gradient
def clip_gradient(
    x: Value, min: Value | None, max: Value | None, dy: Value
) -> tuple[Value, Value | None, Value | None]:
    dx, dmin, dmax = dy, None, None
    if max is not None:
        is_above = x > max if min is None else (x > max) | (min > max)
        dx, dmax = where(is_above, 0.0, dx), sum_to(where(is_above, dy, 0.0), max)
    if min is not None:
        is_below = x < min if max is None else (x < min) & (min <= max)
        dx, dmin = where(is_below, 0.0, dx), sum_to(where(is_below, dy, 0.0), min)
    return sum_to(dx, x), dmin, dmax


@op
def lerp(a: Operand, b: Operand, weight: Operand) -> TensorType:
    """Return a + weight * (b - a), the interpolation from a at weight 0 to b at weight 1; floats only."""
    ...


@lerp.gradient
def lerp_gradient(a: Value, b: Value, weight: Value, dy: Value) -> tuple[Value, Value, Value]:
    to_b = dy * weight
    return sum_to(dy - to_b, a), sum_to(to_b, b), sum_to(dy * (b - a), weight)


@exact
@op(differentiable=False)
def equal(a: Operand, b: Operand) -> TensorType:
    """Return True where a == b."""
    ...


@exact
@op(differentiable=False)
def not_equal(a: Operand, b: Operand) -> TensorType:
    """Return True where a != b."""
    ...


@exact
@op(differentiable=False)
def less(a: Operand, b: Operand) -> TensorType:
    """Return True where a < b."""
    ...


@exact
@op(differentiable=False)
def less_equal(a: Operand, b: Operand) -> TensorType:
    """Return True where a <= b."""
    ...


@exact
@op(differentiable=False)
def greater(a: Operand, b: Operand) -> TensorType:
    """Return True where a > b."""
    ...


@exact
@op(differentiable=False)
def greater_equal(a: Operand, b: Operand) -> TensorType:
    """Return True where a >= b."""
    ...


@identity_operand(1, either=True)
@exact
@op(differentiable=False)
def logical_and(a: Operand, b: Operand) -> TensorType:
    """Return True where both operands are true; bool only."""
    ...


@identity_operand(0, either=True)
@exact
@op(differentiable=False)
def logical_or(a: Operand, b: Operand) -> TensorType:
    """Return True where either operand is true; bool only."""
    ...


@involution
@exact
@op(differentiable=False)
def logical_not(x: Value) -> TensorType:
    """Return True where x is false; bool only."""
    ...


@exact
@op
def where(condition: Value, a: Operand, b: Operand) -> TensorType:
    """Return a where the condition holds and b elsewhere; no gradient flows to the element not chosen."""
    ...


@where.gradient
def where_gradient(condition: Value, a: Value, b: Value, dy: Value) -> tuple[None, Value, Value]:
    return None, sum_to(where(condition, dy, 0.0), a), sum_to(where(condition, 0.0, dy), b)


def pointwise(
    name: str,
    doc: str,
    rule: Callable[[Value, Value, Value], Value],
) -> Op[[Value], Value]:
    """Declare a function of one tensor; `rule` returns dx from x, y and dy."""

    def infer(x: Value) -> TensorType: ...

    infer.__name__, infer.__doc__, infer.__module__ = name, doc, rule.__module__
    function = op(infer)
    function.gradient(rule)
    return function


neg = involution(exact(pointwise("neg", "Return -x; not for uint8.", lambda x, y, dy: -dy)))
abs = idempotent(
    exact(pointwise("abs", "Return the absolute value; the gradient is 0 at 0.", lambda x, y, dy: dy * sign(x)))
)
square = exact(pointwise("square", "Return x * x.", lambda x, y, dy: dy * (x * 2.0)))
sqrt = exact(pointwise("sqrt", "Return the square root; the gradient is infinite at 0.", lambda x, y, dy: dy * 0.5 / y))
exp = pointwise("exp", "Return e to the power of x.", lambda x, y, dy: dy * y)
log = pointwise("log", "Return the natural logarithm.", lambda x, y, dy: dy / x)
sin = pointwise("sin", "Return the sine of an angle in radians.", lambda x, y, dy: dy * cos(x))
cos = pointwise("cos", "Return the cosine of an angle in radians.", lambda x, y, dy: -dy * sin(x))
tanh = pointwise("tanh", "Return the hyperbolic tangent.", lambda x, y, dy: dy * (1.0 - y * y))
sigmoid = pointwise("sigmoid", "Return the logistic function 1 / (1 + exp(-x)).", lambda x, y, dy: dy * (y * (1.0 - y)))
relu = pointwise(
    "relu",
    "Return the larger of x and 0; the gradient is 0 at 0, and flows through NaN.",
    lambda x, y, dy: where(not_equal(y, 0.0), dy, 0.0),
)


@exact_for_integers
@op(no_gradient=("x",))
def sign(x: Value) -> TensorType:
    """Return 1, 0 or -1 by the sign of x; the gradient is 0 everywhere."""
    ...


def _divided(dy: Value, not_a: Value, not_b: Value, tie: Value) -> tuple[Value, Value]:
    """Return the share of dy for an operand: 0 if the other was chosen, half at a tie, else all."""
    half = dy * 0.5
    return where(not_a, 0.0, where(tie, half, dy)), where(not_b, 0.0, where(tie, half, dy))
