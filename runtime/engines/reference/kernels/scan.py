"""Running sums and products, and linear recurrences."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.sums import accumulate_wide
from runtime.engines.reference.kernels.windows import BUFFER
from runtime.kernel import Array, kernel
from runtime.row_rules import along_other_axes

SHORT = 64
"""Number of elements up to which float32 sums are computed in float32; longer ones use float64."""


@kernel(rows=along_other_axes)
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool, out: Array) -> None:
    accumulate(np.add, x, axis, exclusive, reverse, out)


@kernel(rows=along_other_axes)
def cumprod(x: Array, *, axis: int, exclusive: bool, reverse: bool, out: Array) -> None:
    accumulate(np.multiply, x, axis, exclusive, reverse, out)


def accumulate(ufunc: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool, out: Array) -> None:
    """Accumulate the ufunc over all elements up to each index."""
    if x.dtype == np.float32 and x.shape[axis] > SHORT and x.size:
        x, out = steps_in_middle(x, axis, reverse), steps_in_middle(out, axis, reverse)
        if exclusive:
            out[:, :1] = ufunc.identity
            x, out = x[:, :-1], out[:, 1:]
        accumulate_wide(ufunc, x, out)
        return
    x, out = first_axis(x, axis, reverse), first_axis(out, axis, reverse)
    if exclusive:
        out[:1] = ufunc.identity
        x, out = x[:-1], out[1:]
    np.copyto(out, x)  # NumPy would copy another dtype itself
    if len(out):
        ufunc.accumulate(out, 0, out.dtype, out)


def linear_scan_scratch(a: TensorType) -> list[TensorType]:
    return [a, a, a]


@kernel(scratch=linear_scan_scratch, in_place=[(0, 1)])
def linear_scan(a: Array, b: Array, *, axis: int, reverse: bool, out: Array, scratch: list[Array]) -> None:
    """Compute the recurrence in passes, each of which doubles the number of preceding elements that a result covers.

    Each element keeps the factor and sum of its steps. Products of factors may overflow, and then infinities and NaN
    spread differently than from one step to the next. So a result that is not finite is recomputed step by step.
    """
    np.copyto(scratch[0], a)
    np.copyto(scratch[2], b)
    factor, part, y = (first_axis(array, axis, reverse) for array in scratch)
    np.multiply(factor[:1], 0, part[:1])  # NaN if the first factor is not finite
    np.add(y[:1], part[:1], y[:1])
    double_spans(factor, part, y)
    if np.isfinite(np.add.reduce(scratch[2], axis=None)):
        np.copyto(out, scratch[2])
    else:
        step_by_step(*(first_axis(array, axis, reverse) for array in (a, b, scratch[1], out)))


def step_by_step(a: Array, b: Array, part: Array, y: Array) -> None:
    """Compute the recurrence along the first axis; y may be b."""
    np.multiply(a[:1], 0, part[:1])
    np.add(part[:1], b[:1], y[:1])
    for i in range(1, len(y)):
        here = slice(i, i + 1)
        np.multiply(a[here], y[i - 1 : i], part[here])
        np.add(part[here], b[here], y[here])


def double_spans(factor: Array, part: Array, y: Array) -> None:
    """Compute the recurrence along the first axis of y, which is b at first; the factors are overwritten."""
    span = 1
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        while span < len(y):
            np.multiply(factor[span:], y[:-span], part[span:])
            np.add(y[span:], part[span:], y[span:])
            np.multiply(factor[span:], factor[:-span], part[span:])
            np.copyto(factor[span:], part[span:])
            span *= 2


def first_axis(x: Array, axis: int, reverse: bool) -> Array:
    """Return a view with that axis first, from its end if `reverse`."""
    x = np.moveaxis(x, axis, 0)
    return x[::-1] if reverse else x


def steps_in_middle(x: Array, axis: int, reverse: bool) -> Array:
    """Return a view with the axes before that one merged as the first and those after it as the last.

    The middle axis starts from its end if `reverse`.
    """
    axis %= x.ndim
    x = x.reshape(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    return x[:, ::-1] if reverse else x
