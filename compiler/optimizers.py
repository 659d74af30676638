"""Which update op an optimizer appends for each parameter, with which slots and rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.schedules import Schedule, as_schedule
from registry import Block, Value, ops

Clip = Callable[[Sequence[Value]], list[Value]]
"""Appends the ops that limit gradients; gives them in the same order."""


@dataclass(frozen=True)
class Optimizer:
    """An update op and its settings.

    Attributes:
        update: called as update(w, dw, *slots, rate[, step], **attributes); its outputs are the new w and slots.
        slots: the names of the update's states, of w's type, initially zero.
        rate: of learning.
        decay: of weights, coupled: added to the gradient.
        attributes: of the update op.
        needs_step: whether the update takes the number of steps done before.
        clip: limits gradients before the update.
    """

    update: Callable[..., Any]
    slots: tuple[str, ...]
    rate: Schedule
    decay: float
    attributes: dict[str, Any]
    needs_step: bool = False
    clip: Clip | None = None

    def apply(self, w: Value, dw: Value, slots: Sequence[Value], rate: Value, *, decay_scale: float) -> list[Value]:
        """Append the update of one parameter; the new w and slots."""
        more = [w.block.state("step")] if self.needs_step else []
        result = self.update(w, dw, *slots, rate, *more, decay=self.decay * decay_scale, **self.attributes)
        return [result] if isinstance(result, Value) else list(result)


def sgd(rate: float | Schedule, *, decay: float = 0.0, clip: Clip | None = None) -> Optimizer:
    """Gradient descent: w - rate * (dw + decay * w)."""
    return Optimizer(ops.sgd, (), as_schedule(rate), decay, {}, clip=clip)


def momentum(
    rate: float | Schedule,
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    decay: float = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Gradient descent with a velocity: Polyak, 1964; Nesterov's form as Sutskever et al., 2013."""
    attributes = dict(momentum=momentum, nesterov=nesterov)
    return Optimizer(ops.momentum, ("velocity",), as_schedule(rate), decay, attributes, clip=clip)


def adam(
    rate: float | Schedule = 1e-3,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    decay: float = 0.0,
    clip: Clip | None = None,
) -> Optimizer:
    """Adam: Kingma and Ba, 2015, with coupled decay."""
    attributes = dict(beta1=beta1, beta2=beta2, epsilon=epsilon)
    return Optimizer(ops.adam, ("m", "v"), as_schedule(rate), decay, attributes, needs_step=True, clip=clip)


def global_norm(limit: float) -> Clip:
    """Scale all gradients by limit / norm where the norm of all of them together exceeds `limit`.

    Pascanu et al., 2013; a small 1e-6 keeps the division finite, as in PyTorch's clip_grad_norm_.
    """

    def clip(grads: Sequence[Value]) -> list[Value]:
        squares = [ops.sum(grad * grad) for grad in grads]
        total = squares[0]
        for square in squares[1:]:
            total = total + ops.cast(square, dtype=total.dtype)
        scale = ops.minimum(limit / (ops.sqrt(total) + 1e-6), 1.0)
        return [grad * ops.cast(scale, dtype=grad.dtype) for grad in grads]

    return clip


def rate_for(block: Block, rate: Value, w: Value, scale: float) -> Value:
    """The optimizer's rate in w's dtype, times the parameter's own scale."""
    scaled = rate if scale == 1.0 else rate * scale
    return scaled if scaled.dtype == w.dtype else ops.cast(scaled, dtype=w.dtype)
