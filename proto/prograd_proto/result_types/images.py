"""Convolution and pooling of images, and extraction of their windows."""

from __future__ import annotations

import math

from prograd_proto.dtypes import FLOATS
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_with_halves
from prograd_proto.result_types.shapes import (
    factor_sum_dtype,
    require_dtype,
    require_equal_dtypes,
    require_float,
    show_shape,
    size_known,
)
from prograd_proto.result_types.windows import require_image, window_counts
from prograd_proto.tensor_types import Shape, TensorType


@rule_with_halves
def conv2d(
    x: TensorType,
    w: TensorType,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> TensorType:
    require_image(x)
    require(w.rank == 4, f"w has the axes [h, w, c / groups, o], not {w.rank} of them")
    return TensorType(factor_sum_dtype(x, w), convolved_shape(x.shape, w.shape, stride, padding, dilation, groups))


@rule_with_halves
def conv2d_input_gradient(
    dy: TensorType,
    w: TensorType,
    *,
    shape: Shape,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> TensorType:
    dtype = factor_sum_dtype(dy, w)
    _require_shape(dy, convolved_shape(shape, w.shape, stride, padding, dilation, groups))
    return TensorType(dtype, shape)


@rule_with_halves
def conv2d_filter_gradient(
    x: TensorType,
    dy: TensorType,
    *,
    shape: Shape,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> TensorType:
    dtype = factor_sum_dtype(x, dy)
    _require_shape(dy, convolved_shape(x.shape, shape, stride, padding, dilation, groups))
    return TensorType(dtype, shape)


@rule
def max_pool2d(
    x: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> TensorType:
    require_dtype(x, FLOATS | {"uint8"})
    return TensorType(x.dtype, _pooled(x.shape, window, stride, padding))


@rule
def max_pool2d_input_gradient(
    x: TensorType, dy: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> TensorType:
    require_equal_dtypes(x, dy)
    require_float(x)
    _require_shape(dy, _pooled(x.shape, window, stride, padding))
    return x


@rule
def max_pool2d_select(
    x: TensorType, z: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> TensorType:
    require(x == z, f"z is {z}, not {x} as x is")
    require_float(x)
    return TensorType(x.dtype, _pooled(x.shape, window, stride, padding))


@rule
def avg_pool2d(
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
) -> TensorType:
    require_float(x)
    return TensorType(x.dtype, _pooled(x.shape, window, stride, padding, count_include_pad))


@rule
def avg_pool2d_input_gradient(
    dy: TensorType,
    *,
    shape: Shape,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
) -> TensorType:
    require_float(dy)
    _require_shape(dy, _pooled(shape, window, stride, padding, count_include_pad))
    return TensorType(dy.dtype, shape)


@rule
def unfold(
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> TensorType:
    return TensorType(x.dtype, _unfolded(x.shape, window, stride, padding, dilation))


@rule
def fold(
    x: TensorType,
    *,
    shape: Shape,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> TensorType:
    expected = _unfolded(shape, window, stride, padding, dilation)
    require(x.shape == expected, f"x has the shape {show_shape(x.shape)}, not {show_shape(expected)}")
    require(x.dtype != "bool", "bool has no sums")
    return TensorType(x.dtype, shape)


def convolved_shape(
    x: Shape, w: Shape, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], groups: int
) -> Shape:
    """Return the shape of conv2d's result from those of images and filters."""
    require(len(x) == len(w) == 4, "images and filters have four axes")
    n, height, width, channels = x
    *window, depth, made = (size_known(extent, "an extent of the filter") for extent in w)
    channels = size_known(channels, "the number of channels")
    require(groups > 0, f"groups={groups} is not positive")
    require(channels == depth * groups, f"x has {channels} channels, w expects {depth * groups}")
    require(made % groups == 0, f"w makes {made} channels, which {groups} groups do not divide")
    return (
        n,
        *window_counts(height, width, window=tuple(window), stride=stride, padding=padding, dilation=dilation),
        made,
    )


def _pooled(
    x: Shape, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], counts_padding: bool = False
) -> Shape:
    require(len(x) == 4, f"an image has the axes [n, h, w, c], not {len(x)} of them")
    n, height, width, channels = x
    counts = window_counts(height, width, window=window, stride=stride, padding=padding)
    fits = max(padding[0::2]) < window[0] and max(padding[1::2]) < window[1]
    require(fits, f"padding {padding} is not smaller than the window {window}")
    some = counts_padding or (height != 0 and width != 0)
    require(some, f"the window {window} sees nothing but padding of an image of {height} x {width}")
    return n, *counts, channels


def _require_shape(dy: TensorType, shape: Shape) -> None:
    require(dy.shape == shape, f"dy has the shape {show_shape(dy.shape)}, not {show_shape(shape)}")


def _unfolded(
    x: Shape, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> Shape:
    require(len(x) == 4, f"an image has the axes [n, h, w, c], not {len(x)} of them")
    n, height, width, channels = x
    places = window_counts(height, width, window=window, stride=stride, padding=padding, dilation=dilation)
    return (n, *places, math.prod(window) * size_known(channels, "the number of channels"))
