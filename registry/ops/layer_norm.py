"""Normalisation of each element of a batch by its own statistics: layer, group, instance, RMS and response.

Images and sequences have their channels last. As in `batch_norm`, the variance is the mean of squares. The statistics
are outputs because gradients need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import require_float, size_known
from registry.errors import require
from registry.op import op
from registry.ops.fill import count_like
from registry.ops.pointwise import pow, square
from registry.ops.pool import avg_pool2d
from registry.ops.reduce import broadcast_to, sum
from registry.ops.reduce import mean as mean_of
from registry.ops.shape import reshape
from registry.spelled import spelled
from registry.traits import example, follows
from registry.value import Value


@follows("x")
@op("y", "mean", "inverse_deviation")
def layer_norm(
    x: Value, scale: Value | None = None, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[TensorType, TensorType, TensorType]:
    """Return x normalised to mean 0 and deviation 1 over the axes from `axis` on, times scale, plus bias.

    scale and bias have the shape of these axes. The statistics keep the axes with extent 1, and inverse_deviation = 1 /
    sqrt(variance + epsilon). Ba, Kiros and Hinton, 2016.
    """
    ...


@layer_norm.gradient
def layer_norm_gradient(
    x: Value,
    scale: Value | None,
    bias: Value | None,
    mean: Value,
    inverse_deviation: Value,
    dy: Value | None,
    dmean: Value | None,
    dinverse_deviation: Value | None,
    *,
    axis: int,
) -> tuple[Value | None, Value | None, Value | None]:
    axis = axis % x.rank
    unit = (x - mean) * inverse_deviation
    last = tuple(range(axis, x.rank))
    to_unit = dy if dy is None or scale is None else dy * scale
    dx = _to_standardized(
        x,
        unit,
        inverse_deviation,
        to_unit,
        dmean,
        dinverse_deviation,
        lambda values: mean_of(values, axis=last, keepdims=True),
        lambda: count_like(x, last),
    )
    return dx, _to_last_axes(dy, unit, scale, axis), _to_last_axes(dy, None, bias, axis)


@follows("x")
@op("y", "inverse_root")
def rms_norm(
    x: Value, scale: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> tuple[TensorType, TensorType]:
    """Return x divided by its root mean square over the axes from `axis` on, times scale.

    scale has the shape of these axes; inverse_root = 1 / sqrt(mean square + epsilon) keeps them with extent 1.
    Zhang and Sennrich, 2019.
    """
    ...


@rms_norm.gradient
def rms_norm_gradient(
    x: Value,
    scale: Value | None,
    inverse_root: Value,
    dy: Value | None,
    dinverse_root: Value | None,
    *,
    axis: int,
) -> tuple[Value | None, Value | None]:
    axis = axis % x.rank
    last = tuple(range(axis, x.rank))
    unit = x * inverse_root
    dx = None
    if dy is not None:
        to_unit = dy if scale is None else dy * scale
        dx = inverse_root * (to_unit - unit * mean_of(to_unit * unit, axis=last, keepdims=True))
    if dinverse_root is not None:
        through = unit * (-inverse_root * inverse_root * dinverse_root / count_like(x, last))
        dx = through if dx is None else dx + through
    return dx, _to_last_axes(dy, unit, scale, axis)


@follows("x")
@example((2, 2), (2,), (2,), groups=1)
@op("y", "mean", "inverse_deviation")
def group_norm(
    x: Value, scale: Value | None = None, bias: Value | None = None, *, groups: int, epsilon: float = 1e-5
) -> tuple[TensorType, TensorType, TensorType]:
    """Return x [n, ..., c] with each group of adjacent channels normalised, times scale, plus bias.

    A group has mean 0 and deviation 1 in each element of the batch. The statistics are [n, 1, ..., groups, 1]; scale
    and bias are [c]. Wu and He, 2018.
    """
    ...


@group_norm.gradient
def group_norm_gradient(
    x: Value,
    scale: Value | None,
    bias: Value | None,
    mean: Value,
    inverse_deviation: Value,
    dy: Value | None,
    dmean: Value | None,
    dinverse_deviation: Value | None,
    *,
    groups: int,
) -> tuple[Value, Value | None, Value | None]:
    channels = size_known(x.shape[-1], "the number of channels")
    pixels = tuple(range(1, x.rank - 1))
    ones = (1,) * len(pixels)
    by_group = (x.shape[0], *ones, groups, channels // groups)

    def to_channels(of_groups: Value) -> Value:
        return reshape(broadcast_to(of_groups, shape=by_group), shape=(x.shape[0], *ones, channels))

    def average(values: Value) -> Value:
        """Add pixels before the channels of a group, so that loops are along all channels."""
        of_channels = mean_of(values, axis=pixels, keepdims=True) if pixels else values
        return to_channels(mean_of(reshape(of_channels, shape=by_group), axis=-1, keepdims=True))

    root, to_unit = to_channels(inverse_deviation), dy if dy is None or scale is None else dy * scale
    unit = (x - to_channels(mean)) * root
    dx = _to_standardized(
        x,
        unit,
        root,
        to_unit,
        None if dmean is None else to_channels(dmean),
        None if dinverse_deviation is None else to_channels(dinverse_deviation),
        average,
        lambda: count_like(x, pixels) * (channels // groups),
    )
    last = x.rank - 1
    return dx, _to_last_axes(dy, unit, scale, last), _to_last_axes(dy, None, bias, last)


@spelled
def instance_norm(x: Value, scale: Value | None = None, bias: Value | None = None, *, epsilon: float = 1e-5) -> Value:
    """Return x [n, ..., c] with each channel of each batch element normalised, times scale, plus bias.

    A channel has mean 0 and deviation 1 in each element of the batch. Ulyanov, Vedaldi and Lempitsky, 2016.
    """
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more, the first for a batch, the last for channels")
    y, _, _ = group_norm(x, scale, bias, groups=size_known(x.shape[-1], "the number of channels"), epsilon=epsilon)
    return y


@spelled
def local_response_norm(x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    """Return x [n, ..., c] divided by (bias + alpha / size * sum of squares) ** beta.

    The sum is over `size` channels around each channel. As in ONNX they are those from c - (size - 1) // 2 to c + size
    // 2. PyTorch uses the same channels for odd sizes, and the window one channel further to the left for even sizes.
    Krizhevsky, 2012.
    """
    require_float(x)
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more, the first for a batch, the last for channels")
    require(size > 0, f"size={size} is not positive")
    rows = [size_known(extent, "an extent beside the batch") for extent in x.shape[1:-1]]
    lines = reshape(square(x), shape=(x.shape[0], math.prod(rows), x.shape[-1], 1))
    around = (0, (size - 1) // 2, 0, size // 2)
    near = avg_pool2d(lines, window=(1, size), stride=(1, 1), padding=around, count_include_pad=True)
    return x / pow(reshape(near, shape=x.shape) * alpha + bias, beta)


def _to_standardized(
    x: Value,
    unit: Value,
    inverse_deviation: Value,
    dunit: Value | None,
    dmean: Value | None,
    dinverse_deviation: Value | None,
    average: Callable[[Value], Value],
    count_of: Callable[[], Value],
) -> Value:
    """Return the gradient of x from those of (x - mean) * inverse_deviation and of the statistics.

    `average` returns, for each element, the mean of the elements that share its statistics, `count_of` their number.
    """
    parts: list[Value] = []
    if dunit is not None:
        center, spread = average(dunit), average(dunit * unit)
        parts.append(inverse_deviation * (dunit - center - unit * spread))
    count = count_of()
    if dinverse_deviation is not None:
        parts.append(unit * (-inverse_deviation * inverse_deviation * dinverse_deviation / count))
    if dmean is not None:
        parts.append(broadcast_to(dmean / count, shape=x.shape))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _to_last_axes(dy: Value | None, unit: Value | None, parameter: Value | None, axis: int) -> Value | None:
    """Return the gradient of the scale of `unit`, or of a bias, over the axes of dy from `axis` on."""
    if dy is None or parameter is None:
        return None
    product = dy if unit is None else dy * unit
    return sum(product, axis=tuple(range(axis))) if axis else product
