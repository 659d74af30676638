"""Windows of images side by side, and their sum back into images: one pass over the output positions for each tap."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.windows import Numbers, small_buffers, taps, window_counts
from runtime.kernel import Array, Types, kernel, require, types


def unfold_rule(
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Types:
    return types(unfolded(x, window, stride, padding, dilation))


@kernel(unfold_rule)
def unfold(x: Array, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, out: Array) -> None:
    out.fill(0)
    tap = out.reshape(*out.shape[:3], *window, x.shape[3])
    where = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    for i, j, inside, places in taps(x, out, **where):
        np.copyto(tap[..., i, j, :][places], x[inside])


def fold_rule(
    x: TensorType,
    *,
    shape: Shape,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Types:
    y = TensorType(x.dtype, shape)
    expected = unfolded(y, window, stride, padding, dilation)
    require(x == expected, f"x is {x}, not {expected}")
    require(x.dtype in FLOATS | INTEGERS, f"{x} has no sums")
    return types(y)


@kernel(fold_rule)
def fold(
    x: Array,
    *,
    shape: tuple[int, ...],
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    out: Array,
) -> None:
    out.fill(0)
    tap = x.reshape(*x.shape[:3], *window, out.shape[3])
    where = dict(window=window, stride=stride, padding=padding, dilation=dilation)
    with small_buffers():
        for i, j, inside, places in taps(out, x, **where):
            np.add(out[inside], tap[..., i, j, :][places], out[inside])


def unfolded(x: TensorType, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> TensorType:
    """Return the type of the windows of x side by side."""
    require(x.rank == 4, f"x is {x}; images have four axes")
    n, height, width, channels = x.static_shape
    places = window_counts(height, width, window=window, stride=stride, padding=padding, dilation=dilation)
    return TensorType(x.dtype, (n, *places, prod(window) * channels))
