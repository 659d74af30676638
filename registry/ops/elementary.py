"""Elementary functions: reciprocals, logarithms, trigonometry; floats only."""

from __future__ import annotations

from math import log as natural_logarithm

from prograd_proto import TensorType
from registry.op import op
from registry.ops.pointwise import equal, pointwise, where
from registry.ops.reduce import sum_to
from registry.traits import exact
from registry.value import Operand, Value

LN_2 = natural_logarithm(2)

rsqrt = pointwise(
    "rsqrt", "Return the reciprocal of the square root, 1 / sqrt(x).", lambda x, y, dy: dy * (y * y * y * -0.5)
)
reciprocal = exact(pointwise("reciprocal", "Return the reciprocal 1 / x.", lambda x, y, dy: dy * -(y * y)))

log1p = pointwise("log1p", "Return the natural logarithm of 1 + x, accurate near 0.", lambda x, y, dy: dy / (1.0 + x))
expm1 = pointwise("expm1", "Return exp(x) - 1, accurate near 0.", lambda x, y, dy: dy * (y + 1.0))
log2 = pointwise("log2", "Return the logarithm to base 2.", lambda x, y, dy: dy / (x * LN_2))
exp2 = pointwise("exp2", "Return 2 to the power of x.", lambda x, y, dy: dy * (y * LN_2))

tan = pointwise("tan", "Return the tangent of an angle in radians.", lambda x, y, dy: dy * (1.0 + y * y))
asin = pointwise("asin", "Return the angle in radians whose sine is x.", lambda x, y, dy: dy * rsqrt(1.0 - x * x))
acos = pointwise("acos", "Return the angle in radians whose cosine is x.", lambda x, y, dy: -dy * rsqrt(1.0 - x * x))
atan = pointwise("atan", "Return the angle in radians whose tangent is x.", lambda x, y, dy: dy / (1.0 + x * x))

sinh = pointwise("sinh", "Return the hyperbolic sine.", lambda x, y, dy: dy * cosh(x))
cosh = pointwise("cosh", "Return the hyperbolic cosine.", lambda x, y, dy: dy * sinh(x))
asinh = pointwise("asinh", "Return the number whose hyperbolic sine is x.", lambda x, y, dy: dy * rsqrt(x * x + 1.0))
acosh = pointwise(
    "acosh", "Return the number whose hyperbolic cosine is x.", lambda x, y, dy: dy * (rsqrt(x - 1.0) * rsqrt(x + 1.0))
)
atanh = pointwise("atanh", "Return the number whose hyperbolic tangent is x.", lambda x, y, dy: dy / (1.0 - x * x))


@op
def atan2(a: Operand, b: Operand) -> TensorType:
    """Return the angle in radians, from -pi to pi, of the point with abscissa b and ordinate a.

    The gradient at the origin is 0.
    """
    ...


@atan2.gradient
def atan2_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    square = a * a + b * b
    share = dy / where(equal(square, 0.0), 1.0, square)
    return sum_to(share * b, a), sum_to(-share * a, b)
