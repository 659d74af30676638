"""Extraction of image windows, and its adjoint, the sum of windows into images.

Images are [n, h, w, c]; windows are described as in `registry/spellings.py`.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from registry.op import op
from registry.spellings import Edges, Pair
from registry.traits import example
from registry.value import Value

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
    ...


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
    ...


@fold.gradient
def fold_gradient(dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers) -> Value:
    return unfold(dy, window=window, stride=stride, padding=padding, dilation=dilation)
