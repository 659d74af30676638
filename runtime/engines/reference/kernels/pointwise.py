"""Elementwise functions: mostly NumPy's own, called without any Python between."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from prograd_proto import ProgramError, TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES
from runtime.engines.reference.kernels.chunks import BITS, blocks, choose, vectors
from runtime.kernel import Array, Types, elementwise, kernel, require, types
from runtime.row_rules import pointwise

NUMERIC = FLOATS | INTEGERS


def of_one(among: Collection[str], result: str = "") -> Callable[..., Types]:
    """Return the rule of functions of one tensor with these dtypes; `result` is the result's dtype if it differs."""

    def rule(x: TensorType) -> Types:
        require(x.dtype in among, f"x is {x.dtype}, which this operator does not take")
        return types(TensorType(result or x.dtype, x.shape))

    return rule


def of_two(among: Collection[str], result: str = "") -> Callable[..., Types]:
    """Return the rule of functions of two tensors with these dtypes; `result` is the result's dtype if it differs."""

    def rule(a: TensorType, b: TensorType) -> Types:
        require(a.dtype == b.dtype, f"a is {a.dtype}, b is {b.dtype}")
        require(a.dtype in among, f"a is {a.dtype}, which this operator does not take")
        return types(TensorType(result or a.dtype, broadcast(a, b)))

    return rule


def broadcast(*operands: TensorType) -> tuple[int, ...]:
    """Return the common shape; raise ProgramError if there is none."""
    try:
        return np.broadcast_shapes(*(operand.static_shape for operand in operands))
    except ValueError:
        shown = " and ".join(str(operand) for operand in operands)
        raise ProgramError(f"{shown} do not broadcast") from None


def clip(x: Array, min: Array | None, max: Array | None, out: Array) -> None:
    if min is not None:
        np.maximum(x, min, out=out)
        x = out
    if max is not None:
        np.minimum(x, max, out=out)
    elif min is None:
        np.copyto(out, x)


def clip_rule(x: TensorType, min: TensorType | None = None, max: TensorType | None = None) -> Types:
    bounds = [bound for bound in (min, max) if bound is not None]
    require(x.dtype in NUMERIC, f"x is {x.dtype}, which this operator does not take")
    require(all(bound.dtype == x.dtype for bound in bounds), f"x is {x}, the bounds are {min} and {max}")
    return types(TensorType(x.dtype, broadcast(x, *bounds)))


def relu(x: Array, out: Array) -> None:
    np.maximum(x, ZERO[x.dtype.char], out=out)


def maximum(a: Array, b: Array, out: Array) -> None:
    np.maximum(a, b, out=out)  # NumPy has deprecated `out` by position for this one and the next


def minimum(a: Array, b: Array, out: Array) -> None:
    np.minimum(a, b, out=out)


def pow(a: Array, b: Array, out: Array) -> None:
    """Compute a ** b as IEEE 754 defines it; for 0.5 NumPy takes square roots: NaN of -inf and -0.0 of -0.0."""
    if b.size == 1 and b.item() == 0.5:
        np.add(a, 0.0, out)  # -0.0 becomes 0.0
        if np.fmin.reduce(out, axis=None, initial=0.0) == -np.inf:
            np.copyto(out, np.inf, where=np.isneginf(out))
        np.sqrt(out, out)
        return
    if b.size < out.size and np.equal(b, 0.5).any():
        b = np.array(np.broadcast_to(b, out.shape))  # NumPy reads its elements one by one
    np.power(a, b, out)


MASK = {
    "float32": "int32",
    "float64": "int64",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "uint8",
    "float16": "float16",
    "bfloat16": "float16",
}
"""An integer dtype of each dtype's width, except for 16 bits."""


def sigmoid(x: Array, out: Array) -> None:
    """Compute 1 / (1 + exp(-x)) with full relative precision at both ends; where exp is infinite, the result is 0."""
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, 1, out)
    np.divide(1, out, out)


ZERO = {code: np.zeros((), code) for code in "fd"}

EITHER = ((0, 0), (0, 1))
ONLY = ((0, 0),)

elementwise("add", np.add, of_two(NUMERIC), in_place=EITHER)
elementwise("sub", np.subtract, of_two(NUMERIC), in_place=EITHER)
elementwise("mul", np.multiply, of_two(NUMERIC), in_place=EITHER)
elementwise("div", np.divide, of_two(FLOATS), in_place=EITHER)
elementwise("pow", pow, of_two(FLOATS), in_place=EITHER)
elementwise("maximum", maximum, of_two(NUMERIC), in_place=EITHER)
elementwise("minimum", minimum, of_two(NUMERIC), in_place=EITHER)
elementwise("clip", clip, clip_rule, in_place=ONLY)

elementwise("equal", np.equal, of_two(ITEM_BYTES, "bool"))
elementwise("not_equal", np.not_equal, of_two(ITEM_BYTES, "bool"))
elementwise("less", np.less, of_two(ITEM_BYTES, "bool"))
elementwise("less_equal", np.less_equal, of_two(ITEM_BYTES, "bool"))
elementwise("greater", np.greater, of_two(ITEM_BYTES, "bool"))
elementwise("greater_equal", np.greater_equal, of_two(ITEM_BYTES, "bool"))

elementwise("logical_and", np.logical_and, of_two({"bool"}), in_place=EITHER)
elementwise("logical_or", np.logical_or, of_two({"bool"}), in_place=EITHER)
elementwise("logical_not", np.logical_not, of_one({"bool"}), in_place=ONLY)

elementwise("neg", np.negative, of_one(NUMERIC - {"uint8"}), in_place=ONLY)
elementwise("abs", np.absolute, of_one(NUMERIC), in_place=ONLY)
elementwise("sign", np.sign, of_one(NUMERIC), in_place=ONLY)
elementwise("square", np.square, of_one(NUMERIC), in_place=ONLY)
elementwise("sqrt", np.sqrt, of_one(FLOATS), in_place=ONLY)
elementwise("exp", np.exp, of_one(FLOATS), in_place=ONLY)
elementwise("log", np.log, of_one(FLOATS), in_place=ONLY)
elementwise("sin", np.sin, of_one(FLOATS), in_place=ONLY)
elementwise("cos", np.cos, of_one(FLOATS), in_place=ONLY)
elementwise("tanh", np.tanh, of_one(FLOATS), in_place=ONLY)
elementwise("relu", relu, of_one(FLOATS), in_place=ONLY)
elementwise("sigmoid", sigmoid, of_one(FLOATS), in_place=ONLY)


def where_rule(condition: TensorType, a: TensorType, b: TensorType) -> Types:
    require(condition.dtype == "bool", f"the condition is {condition.dtype}, not bool")
    require(a.dtype == b.dtype, f"a is {a.dtype}, b is {b.dtype}")
    mask = TensorType(MASK[a.dtype], condition.shape)
    return types(TensorType(a.dtype, broadcast(condition, a, b)), scratch=[mask])


@kernel(where_rule, in_place=[(0, 1)], halves=True, rows=pointwise)
def where(condition: Array, a: Array, b: Array, *, out: Array, scratch: list[Array]) -> None:
    """Select bits of a or b by a mask of ones: ten times faster than NumPy's masked copy."""
    [room] = scratch
    mask = room.view(np.int16) if room.dtype == np.float16 else room
    np.copyto(mask, condition.view("uint8"))
    np.negative(mask, mask)
    bits = out.view(mask.dtype)
    np.bitwise_xor(a.view(mask.dtype), b.view(mask.dtype), bits)
    np.bitwise_and(bits, mask, bits)
    np.bitwise_xor(bits, b.view(mask.dtype), bits)


def lerp_rule(a: TensorType, b: TensorType, weight: TensorType) -> Types:
    require(a.dtype == b.dtype == weight.dtype, f"a is {a.dtype}, b is {b.dtype}, weight is {weight.dtype}")
    require(a.dtype in FLOATS, f"a is {a.dtype}, which this operator does not take")
    y = TensorType(a.dtype, broadcast(a, b, weight))
    return types(y, scratch=vectors(y, y.dtype, y.dtype, BITS[y.dtype], "bool"))


@kernel(lerp_rule, rows=pointwise)
def lerp(a: Array, b: Array, weight: Array, *, out: Array, scratch: list[Array]) -> None:
    """Interpolate from the nearer end, a + weight * (b - a) or b - (1 - weight) * (b - a), so both ends are exact."""
    if weight.size == 1:
        share = weight.item()
        for start, end, to, step, *_ in blocks([a, b], out, scratch):
            np.subtract(end, start, step)
            np.multiply(step, share if share < 0.5 else share - 1, step)
            np.add(step, start if share < 0.5 else end, to)
        return
    for start, end, share, to, step, far, bits, is_far in blocks([a, b, weight], out, scratch):
        np.subtract(end, start, step)
        np.greater_equal(share, 0.5, is_far)
        np.subtract(1, share, far)
        np.multiply(step, far, far)
        np.subtract(end, far, far)
        np.multiply(step, share, step)
        np.add(step, start, step)
        choose(is_far, far, step, to, bits)
