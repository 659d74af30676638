"""Extraction of image windows, and its adjoint, the sum of windows into images.

Images are [n, h, w, c]; windows are described as in `registry/windows.py`.
"""

from __future__ import annotations

import math

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.shapes import show_shape, size_known
from registry.spellings import Edges, Pair, as_tuple
from registry.traits import example
from registry.value import Value
from registry.windows import four_edges, window_counts

Numbers = tuple[int, ...]


@example((1, 2, 2, 1), window=(1, 1))
@op
def unfold(
    x: Value,
    *,
    window: Pair,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> TensorType:
    """Return the elements of each window as [n, rows, columns, window height * window width * c].

    The last axis has the order of a filter [h, w, c], so conv2d is a matrix product with it. Padding is zeros.
    """
    return TensorType(x.dtype, _unfolded(x.shape, window, stride, padding, dilation))


@unfold.written
def unfold_written(*, padding: Numbers) -> dict[str, Numbers]:
    return {"padding": four_edges(padding)}


@unfold.gradient
def unfold_gradient(
    x: Value, dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> Value:
    return fold(dy, shape=x.shape, window=window, stride=stride, padding=padding, dilation=dilation)


@example((1, 2, 2, 1), shape=(1, 2, 2, 1), window=(1, 1))
@op
def fold(
    x: Value,
    *,
    shape: Shape,
    window: Pair,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
) -> TensorType:
    """Return images of `shape` that sum the elements of all windows: the adjoint of unfold."""
    expected = _unfolded(shape, window, stride, padding, dilation)
    require(x.shape == expected, f"x has the shape {show_shape(x.shape)}, not {show_shape(expected)}")
    require(x.dtype != "bool", "bool has no sums")
    return TensorType(x.dtype, shape)


@fold.written
def fold_written(*, padding: Numbers) -> dict[str, Numbers]:
    return {"padding": four_edges(padding)}


@fold.gradient
def fold_gradient(dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> Value:
    return unfold(dy, window=window, stride=stride, padding=padding, dilation=dilation)


def _unfolded(x: Shape, window: Pair, stride: Pair, padding: Edges, dilation: Pair) -> Shape:
    require(len(x) == 4, f"an image has the axes [n, h, w, c], not {len(x)} of them")
    n, height, width, channels = x
    places = window_counts(height, width, window=window, stride=stride, padding=padding, dilation=dilation)
    return (n, *places, math.prod(as_tuple(window)) * size_known(channels, "the number of channels"))
