"""Convolution: along the time of signals [n, w, c], over images [n, h, w, c], through volumes [n, d, h, w, c]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from prograd import Value, constant, ops, zeros
from prograd.layers.asked import Initial, channels, layer, program_of, refuse

Padding = Literal["same", "none"]

Numbers = int | tuple[int, ...]
"""A number for each axis, or one for all."""


@layer
def conv(
    x: Value,
    name: str,
    size: int,
    *,
    window: Numbers = 3,
    stride: Numbers = 1,
    dilation: Numbers = 1,
    groups: int = 1,
    padding: Padding = "same",
    bias: bool = True,
    initial: Initial = None,
    bias_decay_scale: float = 1.0,
) -> Value:
    """Return the convolution of x [n, ..., c] with `size` filters: [n, ..., size].

    Args:
        x: signals, images or volumes of floats, channels last; its program declares the parameters `name.w`
            [window, ..., c / groups, size] and `name.b` [size].
        name: name of the layer.
        size: the number of filters and of output channels.
        window: extents of a filter: a number for each axis, or one for all, as for stride and dilation.
        stride: strides of the window.
        dilation: dilations of the window.
        groups: number of groups into which the channels are split; c groups make the convolution depthwise.
        padding: "same" adds zeros so that a stride of 1 keeps the extents, "none" adds none.
        bias: False leaves b out.
        initial: initial value of w; Glorot's uniform values by default.
        bias_decay_scale: factor of the weight decay of b.
    """
    what = f"conv {name!r}"
    program = program_of(what, x)
    shape, slide = _filter(what, x, window, groups, size), _slide(what, x, window, stride, dilation, groups, padding)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    if not bias:
        return slide(w)
    b = program.parameter(f"{name}.b", (size,), zeros(), dtype=x.dtype, decay_scale=bias_decay_scale)
    return slide(w) + b


@layer
def conv_norm(
    x: Value,
    name: str,
    size: int,
    *,
    window: Numbers = 3,
    stride: Numbers = 1,
    initial: Initial = None,
    norm_decay_scale: float = 1.0,
) -> Value:
    """Return a convolution of x without bias, padded as "same", followed by batch normalisation.

    Declares `name.w`, and `name.scale`, `name.bias`, `name.mean` and `name.variance` of the normalisation;
    `norm_decay_scale` multiplies the weight decay of scale and bias. Other arguments are those of `conv`.
    """
    what = f"conv_norm {name!r}"
    program, shape = program_of(what, x), _filter(what, x, window, 1, size)
    w = program.parameter(f"{name}.w", shape, initial, dtype=x.dtype)
    scale = program.parameter(f"{name}.scale", (size,), constant(1.0), dtype=x.dtype, decay_scale=norm_decay_scale)
    bias = program.parameter(f"{name}.bias", (size,), zeros(), dtype=x.dtype, decay_scale=norm_decay_scale)
    mean = program.buffer(f"{name}.mean", (size,), zeros(), dtype=x.dtype)
    variance = program.buffer(f"{name}.variance", (size,), constant(1.0), dtype=x.dtype)

    y = _slide(what, x, window, stride, 1, 1, "same")(w)
    y, new_mean, new_variance, *_ = ops.batch_norm(y, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


def _filter(what: str, x: Value, window: Numbers, groups: int, size: int) -> tuple[int, ...]:
    """Return the shape of the weights."""
    count = channels(what, x, rank=3)
    if groups < 1 or count % groups:
        refuse(x, f"{what}: groups={groups} does not divide {count} channels")
    return *_each(what, x, "window", window), count // groups, size


def _slide(
    what: str, x: Value, window: Numbers, stride: Numbers, dilation: Numbers, groups: int, padding: Padding
) -> Callable[[Value], Value]:
    """Return the convolution of x as a function of its weights."""
    if padding not in ("same", "none"):
        refuse(x, f"{what}: padding={padding!r} is neither 'same' nor 'none'")
    dilation, stride = _each(what, x, "dilation", dilation), _each(what, x, "stride", stride)
    spans = [d * (w - 1) for d, w in zip(dilation, _each(what, x, "window", window), strict=True)]
    more = spans if padding == "same" else [0] * len(spans)
    edges = (*(n // 2 for n in more), *(n - n // 2 for n in more))
    return lambda w: ops.conv(x, w, stride=stride, dilation=dilation, padding=edges, groups=groups)


def _each(what: str, x: Value, name: str, numbers: Numbers) -> tuple[int, ...]:
    """Return a number for each axis between rows and channels."""
    axes = x.rank - 2
    if isinstance(numbers, int):
        return (numbers,) * axes
    if len(numbers) != axes:
        refuse(x, f"{what}: {name}={numbers} has {len(numbers)} numbers, and x has {axes} such axes: {x.type}")
    return tuple(numbers)
