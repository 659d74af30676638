"""Initial values of states, each an op that the runtime runs once, or a tensor of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod, sqrt
from typing import Any, Literal

from prograd_proto import TensorType
from prograd_proto.argument_kinds import with_kinds
from prograd_proto.spelling import module_getattr
from registry import Block, OpError, Value, ops
from registry.ops.fill import full

__all__ = [
    "constant",
    "from_file",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "normal",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "zeros",
]
"""The names that `compiler` and `prograd` export."""

Initialiser = Callable[[Block, TensorType], Value]
"""A function that appends one op to a block and returns the initial value of a static type."""


@with_kinds(OpError, strictly=True)
@cache  # so equal initialisers are one object, and their values are computed once for each type
def constant(value: float) -> Initialiser:
    """Initialise every element to `value`."""
    return lambda block, type: full.on(block)(shape=type.shape, value=value, dtype=_dtype(type))


def zeros() -> Initialiser:
    """Initialise every element to 0."""
    return constant(0.0)


@with_kinds(OpError, strictly=True)
def uniform(low: float = -0.05, high: float = 0.05) -> Initialiser:
    """Draw uniformly from [low, high)."""
    return lambda block, type: ops.uniform.on(block)(shape=type.shape, low=low, high=high, dtype=_dtype(type))


@with_kinds(OpError, strictly=True)
def normal(mean: float = 0.0, deviation: float = 0.05) -> Initialiser:
    """Draw from the normal distribution with that mean and standard deviation."""
    return lambda block, type: ops.normal.on(block)(
        shape=type.shape, mean=mean, deviation=deviation, dtype=_dtype(type)
    )


@with_kinds(OpError, strictly=True)
def truncated_normal(mean: float = 0.0, deviation: float = 0.05, low: float = -2.0, high: float = 2.0) -> Initialiser:
    """Draw from a normal distribution truncated to `low` ... `high` deviations off the mean."""
    return lambda block, type: ops.truncated_normal.on(block)(
        shape=type.shape, mean=mean, deviation=deviation, low=low, high=high, dtype=_dtype(type)
    )


def identity() -> Initialiser:
    """Set ones on the diagonal of the last two axes, zeros elsewhere."""
    return lambda block, type: ops.eye.on(block)(shape=type.shape, dtype=_dtype(type))


@with_kinds(OpError, strictly=True)
def orthogonal(gain: float = 1.0) -> Initialiser:
    """Draw orthonormal columns, or rows if there are fewer, times `gain`: Saxe et al., 2014.

    Axes before the last are the rows.
    """
    return lambda block, type: ops.orthogonal.on(block)(shape=type.shape, gain=gain, dtype=_dtype(type))


@with_kinds(OpError, strictly=True)
def variance_scaling(
    scale: float = 1.0,
    *,
    mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in",
    distribution: Literal["normal", "truncated_normal", "uniform"] = "truncated_normal",
) -> Initialiser:
    """Draw with mean 0 and variance scale / n, for n by `mode`: He et al., 2015, in general form.

    n is fan_in, fan_out or their mean. The truncated normal is truncated to two deviations, and has the requested
    variance after truncation.
    """
    if mode not in ("fan_in", "fan_out", "fan_avg") or distribution not in _DISTRIBUTIONS or scale <= 0:
        raise OpError(
            f"variance_scaling: scale={scale}, mode={mode!r}, distribution={distribution!r}; a scale is above 0, a "
            f"mode one of fan_in, fan_out, fan_avg, a distribution one of {', '.join(_DISTRIBUTIONS)}"
        )

    def initialise(block: Block, type: TensorType) -> Value:
        fan_in, fan_out = fans(type)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        return _DISTRIBUTIONS[distribution](sqrt(scale / max(count, 1)))(block, type)

    return initialise


@with_kinds(OpError, strictly=True)
def from_file(path: str | os.PathLike[str], key: str | None = None) -> FromFile:
    """Read the tensor `key` of a safetensors file; the default key is the state's name.

    `path` is relative to the folder that the program is saved in, and the file becomes part of the program.
    """
    return FromFile(os.fspath(path), key)


@dataclass(frozen=True)
class FromFile:
    """An initial value in a file; made by `from_file`."""

    path: str
    key: str | None


@cache
def glorot_uniform() -> Initialiser:
    """Draw uniformly from ±sqrt(6 / (fan_in + fan_out)): Glorot and Bengio, 2010."""
    return lambda block, type: _around_0(sqrt(6 / max(sum(fans(type)), 1)))(block, type)


def glorot_normal() -> Initialiser:
    """Draw from a normal distribution with variance 2 / (fan_in + fan_out): Glorot and Bengio, 2010."""
    return lambda block, type: normal(0.0, sqrt(2 / max(sum(fans(type)), 1)))(block, type)


def he_uniform() -> Initialiser:
    """Draw uniformly from ±sqrt(6 / fan_in): He et al., 2015."""
    return lambda block, type: _around_0(sqrt(6 / max(fans(type)[0], 1)))(block, type)


def he_normal() -> Initialiser:
    """Draw from a normal distribution with variance 2 / fan_in: He et al., 2015."""
    return lambda block, type: normal(0.0, sqrt(2 / max(fans(type)[0], 1)))(block, type)


def fans(type: TensorType) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight (..., in, out); leading axes are a convolution's window."""
    shape = type.static_shape
    if len(shape) < 2:
        return prod(shape), prod(shape)
    window = prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


_TWO_SIDES = 0.87962566103423978
"""The deviation of a standard normal number truncated to two deviations."""

_DISTRIBUTIONS: dict[str, Callable[[float], Initialiser]] = {
    "normal": lambda deviation: normal(0.0, deviation),
    "truncated_normal": lambda deviation: truncated_normal(0.0, deviation / _TWO_SIDES),
    "uniform": lambda deviation: _around_0(sqrt(3) * deviation),
}


def _around_0(limit: float) -> Initialiser:
    return uniform(-limit, limit)


def _dtype(type: TensorType) -> Any:
    return type.dtype


__getattr__ = module_getattr("prograd.initialisers", __all__)
