"""Optimizers with statistics of a whole parameter, LAMB, LARS and Adafactor, composed of operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt

from compiler.train.clipping import Clip
from compiler.train.optimizers import Optimizer, Slot, keeping
from compiler.train.schedules import Rate, as_schedule
from compiler.train.settings import with_settings
from prograd_proto import TensorType
from prograd_proto.spelling import module_getattr
from registry import Value, ops
from registry.settings import Number

__all__ = ["adafactor", "lamb", "lars"]
"""The names that `compiler` and `prograd` export."""


@with_settings
def lamb(
    rate: Rate = 1e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return Adam with steps of length rate * norm(w): You et al., 2020; decay is part of the direction.

    Where the norm of w or of the direction is 0, the step is rate * direction.
    """

    def update(w: Value, dw: Value, m: Value, v: Value, rate: Value, step: Value, *, decay: Number) -> list[Value]:
        direction, new_m, new_v = ops.adam_scale(
            w,
            dw,
            m,
            v,
            step,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            decay=0.0 if isinstance(decay, Value) else decay,
        )
        direction = direction + decay * w if isinstance(decay, Value) else direction
        ratio = _ratio(_norm(w), _norm(direction))
        return [ops.sgd(w, direction, rate * ratio), new_m, new_v]

    return Optimizer(update, keeping("m", "v"), as_schedule(rate), decay, {}, True, clip, "by itself")


@with_settings
def lars(
    rate: Rate,
    *,
    momentum: float = 0.9,
    trust: float = 0.001,
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return momentum with the rate rate * trust * norm(w) / (norm(dw) + decay * norm(w)): You et al., 2017.

    The rate differs for each parameter. The velocity holds steps, the rate included. Where norm(w) or the divisor is 0,
    the rate is the optimizer's own.
    """

    def update(w: Value, dw: Value, velocity: Value, rate: Value, *, decay: Number) -> list[Value]:
        size = _norm(w)
        own = rate * _ratio(trust * size, _norm(dw) + decay * size)
        step = own * (dw + decay * w)
        one = w.block.constant(w.dtype, 1.0)
        return list(ops.momentum(w, step, velocity, one, momentum=momentum))

    return Optimizer(update, keeping("velocity"), as_schedule(rate), decay, {}, clip=clip, decays="by itself")


@with_settings
def adafactor(
    rate: Rate = 1e-2,
    *,
    beta2_decay: float = -0.8,
    epsilon1: float | None = None,
    epsilon2: float = 1e-3,
    limit: float = 1.0,
    axes: tuple[int, int] = (-1, -2),
    decay: Number = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Return steps relative to the parameter, by sums of squares of rows and columns: Shazeer and Stern, 2018.

    The formulas are those of PyTorch's Adafactor; decay is decoupled. `epsilon1` defaults to that of the parameter's
    dtype. `limit` is the largest root mean square of a step before it is scaled. `axes` are the axis along which a row
    lies, and that of a column.
    """

    def slots(type: TensorType) -> Sequence[Slot]:
        rank = len(type.shape)
        if rank < 2:
            return [Slot("v")]
        names = zip(("row", "column"), axes, strict=True)
        return [Slot(name, 0.0, _with_one(axis % rank)) for name, axis in names]

    def update(w: Value, dw: Value, *more: Value, decay: float) -> list[Value]:
        *kept, rate, step = more
        least = (2.0**-23 if w.dtype == "float32" else 2.0**-52) if epsilon1 is None else epsilon1
        count = sqrt(prod(w.type.static_shape))
        t = ops.cast(step + 1, dtype=w.dtype)
        relative = ops.minimum(rate, ops.rsqrt(t))
        size = ops.maximum(_norm(w) / count, epsilon2) * relative
        estimate, new = _second_moment(dw, kept, axes, t**beta2_decay, least)
        direction = ops.rsqrt(ops.maximum(estimate, least * least)) * dw
        size = size / ops.maximum(_norm(direction) / (count * limit), 1.0)
        shrunk = w * (1.0 - rate * decay) if isinstance(decay, Value) or decay else w
        return [ops.sgd(shrunk, direction, size), *new]

    return Optimizer(update, slots, as_schedule(rate), decay, {}, True, clip, "by itself")


def _with_one(axis: int) -> Callable[[TensorType], TensorType]:
    """Return the function from a type to that with one element along an axis."""
    return lambda type: TensorType(type.dtype, (*type.shape[:axis], 1, *type.shape[axis + 1 :]))


def _second_moment(
    dw: Value, kept: list[Value], axes: tuple[int, int], share: Value, least: float
) -> tuple[Value, list[Value]]:
    """Return the running mean of the squares of dw, by row and column means if w is a matrix, and the slots."""
    square = ops.square(dw)
    if len(kept) == 1:
        v = kept[0] + share * (square - kept[0])
        return v, [v]
    row, column = kept
    new_row = row + share * (ops.mean(square, axis=axes[:1], keepdims=True) - row)
    new_column = column + share * (ops.mean(square, axis=axes[1:], keepdims=True) - column)
    scale = ops.maximum(ops.mean(new_row, axis=axes[1:], keepdims=True), least)
    return new_row * new_column / scale, [new_row, new_column]


def _norm(x: Value) -> Value:
    return ops.sqrt(ops.sum(ops.square(x)))


def _ratio(a: Value, b: Value) -> Value:
    """Return a / b of two numbers that are not negative, or 1 where either is 0."""
    defined = (a > 0.0) & (b > 0.0)
    return ops.where(defined, a / ops.where(defined, b, 1.0), 1.0)


__getattr__ = module_getattr("prograd.trust_ratios", __all__)
