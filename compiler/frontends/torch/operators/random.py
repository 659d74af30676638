"""Random numbers: all are drawn from counted streams, and none outside training where PyTorch draws none."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, pointwise
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops


def _dropout(call: Call, x: Arranged, rate: float, train: bool = True) -> Arranged:
    return pointwise(lambda v: ops.dropout(v, ratio=rate), x) if train and rate else x


def _native_dropout(call: Call, x: Arranged, rate: float, train: bool = True) -> tuple[Arranged, None]:
    return _dropout(call, x, rate, train), None


def _bernoulli(call: Call, x: Any, chance: float = 0.5, **more: Any) -> Arranged:
    """Return ones with a probability, else zeros; outside training their mean, as stochastic depth needs."""
    return drawn(call, chance)


def drawn(call: Call, chance: float) -> Arranged:
    """Return ones with that probability, else zeros, in training; the probability itself outside."""
    ones = ops.full.on(call.block)(shape=_shape(call), value=1.0, dtype=call.dtype)
    return arranged(ops.dropout(ones, ratio=1.0 - chance) * chance if chance < 1 else ones)


def _uniform(call: Call, *operands: Any, **more: Any) -> Arranged:
    return arranged(ops.uniform.on(call.block)(*_counters(call), shape=_shape(call), dtype=call.dtype))


def _normal(call: Call, *operands: Any, **more: Any) -> Arranged:
    return arranged(ops.normal.on(call.block)(*_counters(call), shape=_shape(call), dtype=call.dtype))


def _counters(call: Call) -> tuple[Value, Value]:
    return call.block.state("seed"), call.block.state("step")


def _shape(call: Call) -> tuple[int | str, ...]:
    return tuple(extent.plain() for extent in call.shape)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.dropout.default": _dropout,
    "aten.native_dropout.default": _native_dropout,
    "aten.bernoulli.p": _bernoulli,
    "aten.rand.default": _uniform,
    "aten.rand_like.default": _uniform,
    "aten.randn.default": _normal,
    "aten.randn_like.default": _normal,
}
