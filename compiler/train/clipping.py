"""Limits of gradients, as ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prograd_proto.argument_kinds import with_kinds
from prograd_proto.settings import Interval
from prograd_proto.spelling import module_getattr
from registry import OpError, Value, ops
from registry.settings import Number, require_within

__all__ = ["by_norm", "by_value", "global_norm"]
"""The names that `compiler` and `prograd` export."""

Clip = Callable[[Sequence[Value]], list[Value]]
"""A function that appends the ops that limit gradients, and returns these in the same order."""


@with_kinds(OpError, strictly=True)
def by_value(limit: Number) -> Clip:
    """Clip every element of every gradient to -limit ... limit, as PyTorch's clip_grad_value_ does."""
    _require_positive("by_value", limit)
    return lambda grads: [ops.clip(grad, -limit, limit) for grad in grads]


@with_kinds(OpError, strictly=True)
def by_norm(limit: Number) -> Clip:
    """Scale each gradient by limit / norm if its own norm exceeds `limit`."""
    _require_positive("by_norm", limit)
    return lambda grads: [scaled for grad in grads for scaled in global_norm(limit)([grad])]


@with_kinds(OpError, strictly=True)
def global_norm(limit: Number) -> Clip:
    """Scale all gradients by limit / norm if their joint norm exceeds `limit`.

    Pascanu et al., 2013. A term of 1e-6 keeps the division finite, as in PyTorch's clip_grad_norm_.
    """
    _require_positive("global_norm", limit)

    def clip(grads: Sequence[Value]) -> list[Value]:
        squares = [ops.sum(grad * grad) for grad in grads]
        total = squares[0]
        for square in squares[1:]:
            total = total + ops.cast(square, dtype=total.dtype)
        scale = ops.minimum(limit / (ops.sqrt(total) + 1e-6), 1.0)
        return [grad * ops.cast(scale, dtype=grad.dtype) for grad in grads]

    return clip


def require_clip(clip: object) -> None:
    """Raise OpError unless the value is None or one of this module's limits."""
    if clip is not None and not callable(clip):
        raise OpError(f"clip={clip!r} does not limit gradients; use a limit as global_norm(1.0)")


def _require_positive(name: str, limit: Number) -> None:
    if isinstance(limit, Value):
        require_within(f"{name}: limit", limit, Interval(least=0.0, without_least=True))
    elif not limit > 0:
        raise OpError(f"{name}: limit={limit} is not above 0")


__getattr__ = module_getattr("prograd.clipping", __all__)
