"""Convolution: along the time of signals [n, w, c], over images [n, h, w, c], through volumes [n, d, h, w, c]."""

from __future__ import annotations

from typing import Literal

from prograd import Program, Value, constant, ops, zeros
from prograd.layers.asked import Initial, channels, layer, refuse

Padding = Literal["same", "none"]


@layer
def conv(
    program: Program,
    name: str,
    x: Value,
    size: int,
    *,
    window: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    padding: Padding = "same",
    bias: bool = True,
    initial: Initial = None,
    bias_decay: float = 1.0,
) -> Value:
    """Return the convolution of x [n, ..., c] with `size` filters: [n, ..., size].

    Args:
        program: declares the parameters `name.w` [window, ..., c / groups, size] and `name.b` [size].
        name: name of the layer.
        x: signals, images or volumes of floats, channels last.
        size: the number of filters and of output channels.
        window: the extent of a filter along each axis.
        stride: stride of the window along each axis.
        dilation: dilation of the window along each axis.
        groups: number of groups into which the channels are split; c groups make the convolution depthwise.
        padding: "same" adds zeros so that a stride of 1 keeps the extents, "none" adds none.
        bias: False leaves b out.
        initial: initial value of w; Glorot's uniform values by default.
        bias_decay: factor of the weight decay of b.
    """
    what = f"conv {name!r}"
    shape, edges = _filter(program, what, x, window, groups, size), _edges(program, what, padding, window, dilation)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    if not bias:
        return _slide(x, w, stride, dilation, groups, edges)
    b = program.parameter(f"{name}.b", (size,), zeros(), dtype=x.dtype, decay_scale=bias_decay)
    return _slide(x, w, stride, dilation, groups, edges) + b


@layer
def conv_norm(
    program: Program,
    name: str,
    x: Value,
    size: int,
    *,
    window: int = 3,
    stride: int = 1,
    initial: Initial = None,
    decay: float = 1.0,
) -> Value:
    """Return a convolution of x without bias, padded as "same", followed by batch normalisation.

    Declares `name.w`, and `name.scale`, `name.bias`, `name.mean` and `name.variance` of the normalisation; `decay`
    multiplies the weight decay of scale and bias. Other arguments are those of `conv`.
    """
    what = f"conv_norm {name!r}"
    shape = _filter(program, what, x, window, 1, size)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    scale = program.parameter(f"{name}.scale", (size,), constant(1.0), dtype=x.dtype, decay_scale=decay)
    bias = program.parameter(f"{name}.bias", (size,), zeros(), dtype=x.dtype, decay_scale=decay)
    mean = program.buffer(f"{name}.mean", (size,), zeros(), dtype=x.dtype)
    variance = program.buffer(f"{name}.variance", (size,), constant(1.0), dtype=x.dtype)

    y = _slide(x, w, stride, 1, 1, _edges(program, what, "same", window, 1))
    y, new_mean, new_variance, *_ = ops.batch_norm(y, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


def _filter(program: Program, what: str, x: Value, window: int, groups: int, size: int) -> tuple[int, ...]:
    """Return the shape of the weights."""
    count = channels(program, what, x, rank=3)
    if groups < 1 or count % groups:
        refuse(program, f"{what}: groups={groups} does not divide {count} channels")
    return *(window,) * (x.rank - 2), count // groups, size


def _edges(program: Program, what: str, padding: Padding, window: int, dilation: int) -> tuple[int, int]:
    """Return the number of zeros before and after every axis."""
    if padding not in ("same", "none"):
        refuse(program, f"{what}: padding={padding!r} is neither 'same' nor 'none'")
    more = dilation * (window - 1) if padding == "same" else 0
    return more // 2, more - more // 2


def _slide(x: Value, w: Value, stride: int, dilation: int, groups: int, edges: tuple[int, int]) -> Value:
    axes = x.rank - 2
    padding = (edges[0],) * axes + (edges[1],) * axes
    return ops.conv(x, w, stride=(stride,) * axes, dilation=(dilation,) * axes, padding=padding, groups=groups)
