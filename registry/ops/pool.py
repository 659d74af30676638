"""Maximum and mean pooling of images, and the operators that their gradients need.

Images are [n, h, w, c]. `registry/spellings.py` describes windows. Every edge's padding is smaller than the window, so
a window never lies in the padding alone. An image without elements is refused.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from registry.op import op
from registry.spellings import Edges, Pair
from registry.traits import example, follows
from registry.value import Value

Numbers = tuple[int, ...]


@follows("x")
@example((1, 2, 2, 1), window=(1, 1), stride=(1, 1))
@op
def max_pool2d(x: Value, *, window: Pair, stride: Pair, padding: Edges = (0, 0, 0, 0)) -> TensorType:
    """Return the maximum of x [n, h, w, c], floats or uint8, in each window; padding never wins.

    The gradient goes to the first of equal maxima, in row-major order.
    """
    ...


@max_pool2d.gradient
def max_pool2d_gradient(x: Value, dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers) -> Value:
    return max_pool2d_input_gradient(x, dy, window=window, stride=stride, padding=padding)


@follows("x", "dy")
@example((1, 2, 2, 1), (1, 2, 2, 1), window=(1, 1), stride=(1, 1))
@op("dx", no_gradient=("x",))
def max_pool2d_input_gradient(
    x: Value, dy: Value, *, window: Pair, stride: Pair, padding: Edges = (0, 0, 0, 0)
) -> TensorType:
    """Return the gradient of max_pool2d: each element of dy added at the maximum of its window."""
    ...


@max_pool2d_input_gradient.gradient
def max_pool2d_input_gradient_gradient(
    x: Value, ddx: Value, *, window: Numbers, stride: Numbers, padding: Numbers
) -> tuple[None, Value]:
    return None, max_pool2d_select(x, ddx, window=window, stride=stride, padding=padding)


@example((1, 2, 2, 1), (1, 2, 2, 1), window=(1, 1), stride=(1, 1))
@op(no_gradient=("x",))
def max_pool2d_select(x: Value, z: Value, *, window: Pair, stride: Pair, padding: Edges = (0, 0, 0, 0)) -> TensorType:
    """Return the elements of z at the maxima of x: the adjoint of max_pool2d_input_gradient."""
    ...


@max_pool2d_select.gradient
def max_pool2d_select_gradient(
    x: Value, dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers
) -> tuple[None, Value]:
    return None, max_pool2d_input_gradient(x, dy, window=window, stride=stride, padding=padding)


@follows("x")
@example((1, 2, 2, 1), window=(1, 1), stride=(1, 1))
@op
def avg_pool2d(
    x: Value,
    *,
    window: Pair,
    stride: Pair,
    padding: Edges = (0, 0, 0, 0),
    count_include_pad: bool = False,
) -> TensorType:
    """Return the mean of x [n, h, w, c] in each window.

    Padding counts as zeros with `count_include_pad`; otherwise the mean is over the elements that are not padding.
    """
    ...


@avg_pool2d.gradient
def avg_pool2d_gradient(
    x: Value, dy: Value, *, window: Numbers, stride: Numbers, padding: Numbers, count_include_pad: bool
) -> Value:
    return avg_pool2d_input_gradient(
        dy, shape=x.shape, window=window, stride=stride, padding=padding, count_include_pad=count_include_pad
    )


@follows("dy")
@example((1, 2, 2, 1), window=(1, 1), stride=(1, 1), shape=(1, 2, 2, 1))
@op("dx")
def avg_pool2d_input_gradient(
    dy: Value,
    *,
    shape: Shape,
    window: Pair,
    stride: Pair,
    padding: Edges = (0, 0, 0, 0),
    count_include_pad: bool = False,
) -> TensorType:
    """Return the gradient of avg_pool2d for images of `shape`: dy spread evenly over each window."""
    ...


@avg_pool2d_input_gradient.gradient
def avg_pool2d_input_gradient_gradient(
    ddx: Value, *, window: Numbers, stride: Numbers, padding: Numbers, count_include_pad: bool
) -> Value:
    return avg_pool2d(ddx, window=window, stride=stride, padding=padding, count_include_pad=count_include_pad)
