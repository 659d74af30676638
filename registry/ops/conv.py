"""Convolution of images, and its two adjoints, each other's gradients.

Images are [n, h, w, c], filters [h, w, c / groups, o]. The filter is not flipped: the operation is a cross-correlation,
as in all neural networks. Each of the three operators is linear in both operands, and the gradient of one is the other
two. `registry/spellings.py` describes windows.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from registry.op import op
from registry.ops.copy import as_factor
from registry.spellings import Edges, Pair
from registry.traits import example, lowered
from registry.value import Value

Numbers = tuple[int, ...]


@lowered("x", "w")
@op
def conv2d(
    x: Value,
    w: Value,
    *,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> TensorType:
    """Return the convolution of x [n, h, w, c] with the filters w [h, w, c / groups, o].

    With `groups`, the first c / groups channels make the first o / groups results, and so on. The result of bfloat16
    operands is float32, as that of `matmul`.
    """
    ...


@conv2d.gradient
def conv2d_gradient(
    x: Value, w: Value, dy: Value, *, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> tuple[Value, Value]:
    window = dict(stride=stride, padding=padding, dilation=dilation)
    dy = as_factor(dy, x)
    dx = conv2d_input_gradient(dy, w, shape=x.shape, groups=groups, **window)
    dw = conv2d_filter_gradient(x, dy, shape=w.shape, groups=groups, **window)
    return dx, dw


@lowered("dy", "w")
@example((1, 2, 2, 1), (1, 1, 1, 1), shape=(1, 2, 2, 1))
@op("dx")
def conv2d_input_gradient(
    dy: Value,
    w: Value,
    *,
    shape: Shape,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> TensorType:
    """Return the gradient of conv2d for images of `shape`: dy spread by w, a transposed convolution."""
    ...


@conv2d_input_gradient.gradient
def conv2d_input_gradient_gradient(
    dy: Value, w: Value, ddx: Value, *, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> tuple[Value, Value]:
    window = dict(stride=stride, padding=padding, dilation=dilation)
    ddx = as_factor(ddx, dy)
    ddy = conv2d(ddx, w, groups=groups, **window)
    dw = conv2d_filter_gradient(ddx, dy, shape=w.shape, groups=groups, **window)
    return ddy, dw


@lowered("x", "dy")
@example((1, 2, 2, 1), (1, 2, 2, 1), shape=(1, 1, 1, 1))
@op("dw")
def conv2d_filter_gradient(
    x: Value,
    dy: Value,
    *,
    shape: Shape,
    stride: Pair = (1, 1),
    padding: Edges = (0, 0, 0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> TensorType:
    """Return the gradient of conv2d for filters of `shape`: sums of products of x and dy in each window."""
    ...


@conv2d_filter_gradient.gradient
def conv2d_filter_gradient_gradient(
    x: Value, dy: Value, ddw: Value, *, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int
) -> tuple[Value, Value]:
    window = dict(stride=stride, padding=padding, dilation=dilation)
    ddw = as_factor(ddw, x)
    dx = conv2d_input_gradient(dy, ddw, shape=x.shape, groups=groups, **window)
    ddy = conv2d(x, ddw, groups=groups, **window)
    return dx, ddy
