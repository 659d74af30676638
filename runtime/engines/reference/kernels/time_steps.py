"""The time steps of recurrent layers: their order, the states before them, and masks that leave steps out."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array


def steps(x: Array, reverse: bool) -> list[tuple[int, int | None]]:
    """Return the time steps in order, each with the previous one."""
    order = [*range(x.shape[1])][:: -1 if reverse else 1]
    return list(zip(order, [None, *order[:-1]], strict=True))


def state_before(h: Array, h0: Array, t: int, reverse: bool) -> Array:
    """Return the state that a time step starts from."""
    before = t + 1 if reverse else t - 1
    return h[:, before] if 0 <= before < h.shape[1] else h0


def hidden(mask: TensorType | None) -> list[TensorType]:
    """Return scratch for the inverse of a mask."""
    return [] if mask is None else [mask]


def not_in(mask: Array | None, hides: list[Array]) -> list[Array]:
    """Return the inverse of the mask, if there is one."""
    if mask is not None:
        np.logical_not(mask, hides[0])
    return hides


def keep(old: Array, hides: list[Array], t: int, new: Array) -> None:
    """Restore the old state where the time step is masked out."""
    for hide in hides:
        np.copyto(new, old, where=hide[:, t : t + 1])


def drop(hides: list[Array], t: int, dx: Array) -> None:
    """Set the gradient to 0 where the time step is masked out."""
    for hide in hides:
        np.copyto(dx, 0, where=hide[:, t : t + 1])


def one_step(x: TensorType) -> TensorType:
    return TensorType(x.dtype, (x.shape[0], x.shape[2]))
