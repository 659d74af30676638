"""Initial values of states, each an op that the runtime runs once."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import Any

from prograd_proto import TensorType
from registry import Block, Value, ops
from registry.ops.fill import full

Initialiser = Callable[[Block, TensorType], Value]
"""Appends to a block one op whose result is the initial value; the type is static."""


def constant(value: float) -> Initialiser:
    """Every element is `value`."""
    return lambda block, type: full.on(block)(shape=type.shape, value=value, dtype=_dtype(type))


def zeros() -> Initialiser:
    """Every element is 0."""
    return constant(0.0)


def uniform(low: float = -0.05, high: float = 0.05) -> Initialiser:
    """Uniform on [low, high)."""
    return lambda block, type: ops.uniform.on(block)(shape=type.shape, low=low, high=high, dtype=_dtype(type))


def normal(mean: float = 0.0, deviation: float = 0.05) -> Initialiser:
    """Normal with that mean and standard deviation."""
    return lambda block, type: ops.normal.on(block)(
        shape=type.shape, mean=mean, deviation=deviation, dtype=_dtype(type)
    )


def glorot_uniform() -> Initialiser:
    """Uniform on ±sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""

    def initialise(block: Block, type: TensorType) -> Value:
        limit = sqrt(6 / max(sum(fans(type)), 1))
        return uniform(-limit, limit)(block, type)

    return initialise


def glorot_normal() -> Initialiser:
    """Normal with variance 2 / (fan_in + fan_out): Glorot and Bengio, 2010."""
    return lambda block, type: normal(0.0, sqrt(2 / max(sum(fans(type)), 1)))(block, type)


def he_uniform() -> Initialiser:
    """Uniform on ±sqrt(6 / fan_in): He et al., 2015."""

    def initialise(block: Block, type: TensorType) -> Value:
        limit = sqrt(6 / max(fans(type)[0], 1))
        return uniform(-limit, limit)(block, type)

    return initialise


def he_normal() -> Initialiser:
    """Normal with variance 2 / fan_in: He et al., 2015."""
    return lambda block, type: normal(0.0, sqrt(2 / max(fans(type)[0], 1)))(block, type)


def fans(type: TensorType) -> tuple[int, int]:
    """fan_in and fan_out of a weight (..., in, out); leading axes are a convolution's window."""
    shape = type.static_shape
    if len(shape) < 2:
        return prod(shape), prod(shape)
    window = prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _dtype(type: TensorType) -> Any:
    return type.dtype
