"""Elementwise functions: mostly NumPy's own, called without any Python between."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import BITS, blocks, choose, vectors
from runtime.kernel import Array, elementwise, kernel
from runtime.row_rules import pointwise


def clip(x: Array, min: Array | None, max: Array | None, out: Array) -> None:
    if min is not None:
        np.maximum(x, min, out=out)
        x = out
    if max is not None:
        np.minimum(x, max, out=out)
    elif min is None:
        np.copyto(out, x)


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

elementwise("add", np.add, in_place=EITHER)
elementwise("sub", np.subtract, in_place=EITHER)
elementwise("mul", np.multiply, in_place=EITHER)
elementwise("div", np.divide, in_place=EITHER)
elementwise("pow", pow, in_place=EITHER)
elementwise("maximum", maximum, in_place=EITHER)
elementwise("minimum", minimum, in_place=EITHER)
elementwise("clip", clip, in_place=ONLY)

elementwise("equal", np.equal)
elementwise("not_equal", np.not_equal)
elementwise("less", np.less)
elementwise("less_equal", np.less_equal)
elementwise("greater", np.greater)
elementwise("greater_equal", np.greater_equal)

elementwise("logical_and", np.logical_and, in_place=EITHER)
elementwise("logical_or", np.logical_or, in_place=EITHER)
elementwise("logical_not", np.logical_not, in_place=ONLY)

elementwise("neg", np.negative, in_place=ONLY)
elementwise("abs", np.absolute, in_place=ONLY)
elementwise("sign", np.sign, in_place=ONLY)
elementwise("square", np.square, in_place=ONLY)
elementwise("sqrt", np.sqrt, in_place=ONLY)
elementwise("exp", np.exp, in_place=ONLY)
elementwise("log", np.log, in_place=ONLY)
elementwise("sin", np.sin, in_place=ONLY)
elementwise("cos", np.cos, in_place=ONLY)
elementwise("tanh", np.tanh, in_place=ONLY)
elementwise("relu", relu, in_place=ONLY)
elementwise("sigmoid", sigmoid, in_place=ONLY)


def where_scratch(condition: TensorType, out: TensorType) -> list[TensorType]:
    return [TensorType(MASK[out.dtype], condition.shape)]


@kernel(scratch=where_scratch, in_place=[(0, 1)], rows=pointwise)
def where(condition: Array, a: Array, b: Array, *, out: Array, scratch: list[Array]) -> None:
    [bits] = scratch
    choose(condition, a, b, out, bits.view(np.int16) if bits.dtype == np.float16 else bits)


def lerp_scratch(out: TensorType) -> list[TensorType]:
    return vectors(out, out.dtype, out.dtype, BITS[out.dtype], "bool")


@kernel(scratch=lerp_scratch, rows=pointwise)
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
