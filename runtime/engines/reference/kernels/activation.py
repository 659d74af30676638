"""Activations, a chunk at a time: one pass over the tensor, with scratch that stays in a near cache."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

import runtime.engines.reference.kernels.single as single
from prograd_proto import TensorType
from runtime.engines.reference.kernels.chunks import BITS, blocks, choose, chunks, in_chunks, quotient, vectors
from runtime.engines.reference.kernels.pointwise import ONLY
from runtime.engines.reference.kernels.special import SINGLE_ERFC, SINGLE_ERFC_END, erfc_of
from runtime.kernel import Array, elementwise, kernel
from runtime.row_rules import along_other_axes, pointwise

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _rescaled(coefficients: tuple[float, ...], share: float) -> list[float]:
    return [c * share * sqrt(0.5) ** k for k, c in zip(reversed(range(len(coefficients))), coefficients, strict=True)]


SINGLE_TAIL = (_rescaled(SINGLE_ERFC[0], 0.5), _rescaled(SINGLE_ERFC[1], 1.0))
"""Coefficients of erfc(x / sqrt(2)) / 2 * exp(x * x / 2), a quotient of polynomials in x."""


def leaky_relu_scratch(x: TensorType, alpha: float) -> list[TensorType]:
    return vectors(x, x.dtype, *([] if _is_ordered(alpha, x.dtype) else [BITS[x.dtype], "bool"]))


@kernel(scratch=leaky_relu_scratch, in_place=ONLY, rows=pointwise)
def leaky_relu(x: Array, *, alpha: float, out: Array, scratch: list[Array]) -> None:
    if _is_ordered(alpha, x.dtype.name):
        larger = np.maximum if alpha <= 1 else np.minimum  # x is larger above 0 and smaller below, or the reverse
        for part, to, line in chunks([x, out], scratch):
            np.multiply(part, alpha, line)
            larger(part, line, out=to)
        return
    for part, to, line, bits, is_positive in chunks([x, out], scratch):
        np.multiply(part, alpha, line)
        np.greater(part, 0, is_positive)
        choose(is_positive, part, line, to, bits)


def _is_ordered(alpha: float, dtype: str) -> bool:
    """Return True if alpha is positive in a dtype: then the order of x and alpha * x determines the result.

    With alpha 0, infinity times alpha is NaN, which is neither.
    """
    return alpha >= float(np.finfo(dtype).smallest_subnormal)


def prelu_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, x.dtype, BITS[x.dtype], "bool")


@kernel(scratch=prelu_scratch, in_place=ONLY, rows=pointwise)
def prelu(x: Array, slope: Array, *, out: Array, scratch: list[Array]) -> None:
    if np.maximum.reduce(slope, axis=None, initial=0) <= 1 and np.count_nonzero(slope) == slope.size:
        for part, factor, to, below, *_ in blocks([x, slope], out, scratch):
            np.multiply(part, factor, below)  # the smaller above 0 and the larger below
            np.maximum(part, below, out=to)
        return
    for part, factor, to, below, bits, is_positive in blocks([x, slope], out, scratch):
        np.multiply(part, factor, below)
        np.greater(part, 0, is_positive)
        choose(is_positive, part, below, to, bits)


def elu_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, *[x.dtype] * 4, BITS[x.dtype], "bool")


@kernel(scratch=elu_scratch, in_place=ONLY, rows=pointwise)
def elu(x: Array, *, alpha: float, out: Array, scratch: list[Array]) -> None:
    take_elu(x, alpha, 1.0, 1.0, out, scratch)


@kernel(scratch=elu_scratch, in_place=ONLY, rows=pointwise)
def celu(x: Array, *, alpha: float, out: Array, scratch: list[Array]) -> None:
    take_elu(x, alpha, alpha, 1.0, out, scratch)


@kernel(scratch=elu_scratch, in_place=ONLY, rows=pointwise)
def selu(x: Array, *, out: Array, scratch: list[Array]) -> None:
    take_elu(x, SELU_SCALE * SELU_ALPHA, 1.0, SELU_SCALE, out, scratch)


def take_elu(x: Array, alpha: float, width: float, slope: float, out: Array, scratch: list[Array]) -> None:
    """Compute the line slope * x above 0, and the curve alpha * expm1(x / width) below."""
    for part, to, below, more, bend, power, bits, mask in chunks([x, out], scratch):
        np.minimum(part, 0, out=more)
        if width != 1:
            np.divide(more, width, more)
        if x.dtype == np.float32:
            single.expm1(more, below, bend, power)
        else:
            np.expm1(more, below)
        if alpha != 1:
            np.multiply(below, alpha, below)
        np.less_equal(part, 0, mask)
        np.multiply(part, slope, more)
        choose(mask, below, more, to, bits)


def gelu_scratch(x: TensorType, approximate: str) -> list[TensorType]:
    if approximate == "tanh":
        return vectors(x, x.dtype)
    exact = ["float32"] * 3 if x.dtype == "float32" else [*["float64"] * 6, "int64", "bool"]
    return vectors(x, *exact)


@kernel(scratch=gelu_scratch, in_place=ONLY, rows=pointwise)
def gelu(x: Array, *, approximate: str, out: Array, scratch: list[Array]) -> None:
    exact = single_gelu if x.dtype == np.float32 else double_gelu
    take = exact if approximate == "none" else gelu_by_tanh
    for parts in chunks([x, out], scratch):
        take(*parts)


def double_gelu(x: Array, out: Array, turned: Array, y: Array, *more: Array) -> None:
    np.multiply(x, -sqrt(0.5), turned)
    erfc_of(turned, y, *more)
    np.multiply(y, 0.5, y)
    np.multiply(x, y, out)


def single_gelu(x: Array, out: Array, size: Array, y: Array, part: Array) -> None:
    """Compute max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), whose second term is small and keeps its precision."""
    np.absolute(x, size)
    np.clip(size, 0, SINGLE_ERFC_END * sqrt(2), out=size)
    quotient(SINGLE_TAIL, size, y, part)
    np.multiply(y, size, y)
    np.multiply(size, size, size)
    np.multiply(size, -0.5, size)
    np.exp(size, size)
    np.multiply(y, size, y)
    np.maximum(x, 0, out=part)
    np.subtract(part, y, out)


def gelu_by_tanh(x: Array, out: Array, y: Array) -> None:
    """Compute GELU by the sigmoid of twice the argument, which is half of 1 + tanh and precise where small."""
    np.multiply(x, x, y)
    np.multiply(y, -2 * 0.044715 * sqrt(2 / pi), y)
    np.subtract(y, 2 * sqrt(2 / pi), y)
    np.multiply(y, x, y)
    np.exp(y, y)
    np.add(y, 1, y)
    np.divide(x, y, out)


@kernel(scratch=in_chunks(1), in_place=ONLY, rows=pointwise)
def silu(x: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, to, y in chunks([x, out], scratch):
        np.negative(part, y)
        np.exp(y, y)
        np.add(y, 1, y)
        np.divide(part, y, to)


@kernel(scratch=in_chunks(2), in_place=ONLY, rows=pointwise)
def mish(x: Array, *, out: Array, scratch: list[Array]) -> None:
    """Compute mish with tanh(softplus(x)) = p / (p + 2) for p = exp(x) * (exp(x) + 2).

    The quotient is 1 long before p is infinite.
    """
    for part, to, p, y in chunks([x, out], scratch):
        np.minimum(part, 30, out=y)
        np.exp(y, y)
        np.add(y, 2, p)
        np.multiply(p, y, p)
        np.add(p, 2, y)
        np.divide(p, y, y)
        np.multiply(part, y, to)


@kernel(scratch=in_chunks(3), in_place=ONLY, rows=pointwise)
def softplus(x: Array, *, beta: float, out: Array, scratch: list[Array]) -> None:
    for part, to, y, above, more in chunks([x, out], scratch):
        np.multiply(part, beta, y)
        np.absolute(y, y)
        np.negative(y, y)
        log1p_of_exp(y, above, more)
        if beta != 1:
            np.divide(y, beta, y)
        np.maximum(part, 0, out=above)
        np.add(above, y, to)


@kernel(scratch=in_chunks(3), in_place=ONLY, rows=pointwise)
def log_sigmoid(x: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, to, y, below, more in chunks([x, out], scratch):
        np.absolute(part, y)
        np.negative(y, y)
        log1p_of_exp(y, below, more)
        np.minimum(part, 0, out=below)
        np.subtract(below, y, to)


def log1p_of_exp(x: Array, part: Array, more: Array) -> None:
    """Compute log(1 + exp(x)) in place of x, which is at most 0."""
    np.exp(x, x)
    if x.dtype == np.float32:
        single.log1p(x, x, part, more)
    else:
        np.log1p(x, x)


@kernel(scratch=in_chunks(1), in_place=ONLY, rows=pointwise)
def softsign(x: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, to, y in chunks([x, out], scratch):
        np.absolute(part, y)
        np.add(y, 1, y)
        np.divide(part, y, to)


@kernel(in_place=ONLY, rows=pointwise)
def hard_sigmoid(x: Array, *, alpha: float, beta: float, out: Array) -> None:
    for part, to in chunks([x, out]):
        np.multiply(part, alpha, to)
        np.add(to, beta, to)
        np.clip(to, 0, 1, out=to)


@kernel(scratch=in_chunks(1), in_place=ONLY, rows=pointwise)
def hard_swish(x: Array, *, out: Array, scratch: list[Array]) -> None:
    for part, to, y in chunks([x, out], scratch):
        np.add(part, 3, y)
        np.clip(y, 0, 6, out=y)
        np.divide(y, 6, y)
        np.multiply(part, y, to)


@kernel(in_place=ONLY, rows=pointwise)
def hard_tanh(x: Array, *, min: float, max: float, out: Array) -> None:
    np.clip(x, min, max, out=out)


def relu6(x: Array, out: Array) -> None:
    np.clip(x, 0, 6, out=out)


elementwise("relu6", relu6, in_place=ONLY)


def threshold_scratch(x: TensorType) -> list[TensorType]:
    return vectors(x, BITS[x.dtype], "bool")


@kernel(scratch=threshold_scratch, in_place=ONLY, rows=pointwise)
def threshold_(x: Array, *, threshold: float, value: float, out: Array, scratch: list[Array]) -> None:
    instead = np.array(value, x.dtype)
    for part, to, bits, is_above in chunks([x, out], scratch):
        np.less_equal(part, threshold, is_above)
        np.logical_not(is_above, is_above)  # also where x is NaN
        choose(is_above, part, instead, to, bits)


@kernel(rows=along_other_axes)
def glu(x: Array, *, axis: int, out: Array) -> None:
    half = out.shape[axis]
    along = np.moveaxis(x, axis, 0)
    a, b, to = along[:half], along[half:], np.moveaxis(out, axis, 0)
    np.negative(b, to)
    np.exp(to, to)
    np.add(to, 1, to)
    np.divide(a, to, to)
