"""Normalisation over the rows of a batch, the channels of a row, or groups of channels."""

from __future__ import annotations

from prograd import Program, Value, constant, ops, zeros
from prograd.layers.asked import channels, layer


@layer
def batch_norm(
    program: Program, name: str, x: Value, *, momentum: float = 0.9, epsilon: float = 1e-5, decay: float = 1.0
) -> Value:
    """Return x [..., c] with each channel normalised to mean 0 and deviation 1 over the batch, then scaled.

    Outside training, mean and variance are the running ones: running = momentum * running + (1 - momentum) * batch.
    Ioffe and Szegedy, 2015.

    Args:
        program: declares the parameters `name.scale` and `name.bias`, and the buffers `name.mean` and `name.variance`,
            all [c], and updates the buffers.
        name: name of the layer.
        x: tensor of floats.
        momentum: weight of the old running statistics at each step.
        epsilon: term added to the variance.
        decay: factor of the weight decay of scale and bias.
    """
    scale, bias = _scale_and_bias(program, "batch_norm", name, x, decay)
    mean = program.buffer(f"{name}.mean", scale.type.static_shape, zeros(), dtype=x.dtype)
    variance = program.buffer(f"{name}.variance", scale.type.static_shape, constant(1.0), dtype=x.dtype)
    y, new_mean, new_variance, *_ = ops.batch_norm(x, scale, bias, mean, variance, momentum=momentum, epsilon=epsilon)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


@layer
def layer_norm(program: Program, name: str, x: Value, *, epsilon: float = 1e-5, decay: float = 1.0) -> Value:
    """Return x [..., c] normalised to mean 0 and deviation 1 over the channels, then scaled and shifted.

    Declares the parameters `name.scale` and `name.bias`, [c]; `epsilon` is added to the variance, `decay` multiplies
    the weight decay of both. Ba, Kiros and Hinton, 2016.
    """
    scale, bias = _scale_and_bias(program, "layer_norm", name, x, decay)
    return ops.layer_norm(x, scale, bias, epsilon=epsilon)[0]


@layer
def group_norm(
    program: Program, name: str, x: Value, groups: int, *, epsilon: float = 1e-5, decay: float = 1.0
) -> Value:
    """Return x [n, ..., c] with each group of adjacent channels of each row normalised, then scaled.

    A group gets mean 0 and deviation 1. Then each channel is scaled and shifted: the parameters `name.scale` and
    `name.bias` are [c]; `epsilon` is added to the variance, `decay` multiplies the weight decay of both. Wu and He,
    2018.
    """
    scale, bias = _scale_and_bias(program, "group_norm", name, x, decay)
    return ops.group_norm(x, scale, bias, groups=groups, epsilon=epsilon)[0]


def _scale_and_bias(program: Program, layer: str, name: str, x: Value, decay: float) -> tuple[Value, Value]:
    shape = (channels(program, f"{layer} {name!r}", x),)
    scale = program.parameter(f"{name}.scale", shape, constant(1.0), dtype=x.dtype, decay_scale=decay)
    bias = program.parameter(f"{name}.bias", shape, zeros(), dtype=x.dtype, decay_scale=decay)
    return scale, bias
