"""Softmax, and normalisations over a batch, over last axes, and over groups of channels."""

from __future__ import annotations

from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_of
from prograd_proto.result_types.shapes import normal_axis, require_float, size_known
from prograd_proto.tensor_types import TensorType


@rule_of("softmax", "log_softmax")
def softmax(x: TensorType, *, axis: int) -> TensorType:
    require_float(x)
    normal_axis(axis, x.rank)
    return x


@rule
def batch_norm(
    x: TensorType,
    scale: TensorType,
    bias: TensorType,
    running_mean: TensorType,
    running_variance: TensorType,
    *,
    momentum: float,
    epsilon: float,
) -> tuple[TensorType, TensorType, TensorType, TensorType, TensorType]:
    require_float(x)
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more, the last for channels")
    require(0 not in x.shape[:-1], "x has no elements to take the mean of")
    channel = TensorType(x.dtype, x.shape[-1:])
    for name, value in {
        "scale": scale,
        "bias": bias,
        "running_mean": running_mean,
        "running_variance": running_variance,
    }.items():
        require(value == channel, f"{name} is {value}, not {channel}")
    return x, channel, channel, channel, channel


@rule
def layer_norm(
    x: TensorType, scale: TensorType | None = None, bias: TensorType | None = None, *, axis: int, epsilon: float
) -> tuple[TensorType, TensorType, TensorType]:
    statistic = _of_last_axes(x, axis, scale=scale, bias=bias)
    return x, statistic, statistic


@rule
def rms_norm(
    x: TensorType, scale: TensorType | None = None, *, axis: int, epsilon: float
) -> tuple[TensorType, TensorType]:
    return x, _of_last_axes(x, axis, scale=scale)


@rule
def group_norm(
    x: TensorType, scale: TensorType | None = None, bias: TensorType | None = None, *, groups: int, epsilon: float
) -> tuple[TensorType, TensorType, TensorType]:
    require_float(x)
    require(x.rank >= 2, f"x has {x.rank} axes and needs two or more, the first for a batch, the last for channels")
    channels = size_known(x.shape[-1], "the number of channels")
    require(groups > 0 and channels % groups == 0, f"groups={groups} does not divide {channels} channels")
    _require_types(TensorType(x.dtype, (channels,)), scale=scale, bias=bias)
    statistic = TensorType(x.dtype, (x.shape[0], *(1,) * (x.rank - 2), groups, 1))
    return x, statistic, statistic


def _of_last_axes(x: TensorType, axis: int, **parameters: TensorType | None) -> TensorType:
    """Return the type of a statistic over the axes from `axis` on; the parameters must have their shape."""
    require_float(x)
    axis = normal_axis(axis, x.rank)
    _require_types(TensorType(x.dtype, x.shape[axis:]), **parameters)
    return TensorType(x.dtype, (*x.shape[:axis], *(1,) * (x.rank - axis)))


def _require_types(type: TensorType, **parameters: TensorType | None) -> None:
    for name, value in parameters.items():
        require(value is None or value == type, f"{name} is {'' if value is None else value}, not {type}")
