"""Normalisation over the rows of a batch, the channels of a row, or groups of channels."""

from __future__ import annotations

from prograd import Value, constant, ops, zeros
from prograd.layers.asked import channels, layer, program_of


@layer
def batch_norm(x: Value, name: str, *, momentum: float = 0.9, epsilon: float = 1e-5, decay_scale: float = 1.0) -> Value:
    """Return x [..., c] with each channel normalised to mean 0 and deviation 1 over the batch, then scaled.

    Outside training, mean and variance are the running ones: running = momentum * running + (1 - momentum) * batch.
    Ioffe and Szegedy, 2015.

    Args:
        x: tensor of floats; its program declares the parameters `name.scale` and `name.bias`, and the buffers
            `name.mean` and `name.variance`, all [c], and updates the buffers.
        name: name of the layer.
        momentum: weight of the old running statistics at each step.
        epsilon: term added to the variance.
        decay_scale: factor of the weight decay of scale and bias.
    """
    program = program_of(f"batch_norm {name!r}", x)
    scale, bias = _scale_and_bias("batch_norm", name, x, decay_scale)
    mean = program.buffer(f"{name}.mean", scale.type.static_shape, zeros(), dtype=x.dtype)
    variance = program.buffer(f"{name}.variance", scale.type.static_shape, constant(1.0), dtype=x.dtype)
    y, new_mean, new_variance, *_ = ops.batch_norm(x, scale, bias, mean, variance, momentum=momentum, epsilon=epsilon)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    return y


@layer
def layer_norm(x: Value, name: str, *, epsilon: float = 1e-5, decay_scale: float = 1.0) -> Value:
    """Return x [..., c] normalised to mean 0 and deviation 1 over the channels, then scaled and shifted.

    Declares the parameters `name.scale` and `name.bias`, [c]; `epsilon` is added to the variance, `decay_scale`
    multiplies the weight decay of both. Ba, Kiros and Hinton, 2016.
    """
    scale, bias = _scale_and_bias("layer_norm", name, x, decay_scale)
    return ops.layer_norm(x, scale, bias, epsilon=epsilon)[0]


@layer
def group_norm(x: Value, name: str, groups: int, *, epsilon: float = 1e-5, decay_scale: float = 1.0) -> Value:
    """Return x [n, ..., c] with each group of adjacent channels of each row normalised, then scaled.

    A group gets mean 0 and deviation 1. Then each channel is scaled and shifted: the parameters `name.scale` and
    `name.bias` are [c]; `epsilon` is added to the variance, `decay_scale` multiplies the weight decay of both. Wu and
    He, 2018.
    """
    scale, bias = _scale_and_bias("group_norm", name, x, decay_scale)
    return ops.group_norm(x, scale, bias, groups=groups, epsilon=epsilon)[0]


def _scale_and_bias(layer: str, name: str, x: Value, decay_scale: float) -> tuple[Value, Value]:
    what = f"{layer} {name!r}"
    program, shape = program_of(what, x), (channels(what, x),)
    scale = program.parameter(f"{name}.scale", shape, constant(1.0), dtype=x.dtype, decay_scale=decay_scale)
    bias = program.parameter(f"{name}.bias", shape, zeros(), dtype=x.dtype, decay_scale=decay_scale)
    return scale, bias
