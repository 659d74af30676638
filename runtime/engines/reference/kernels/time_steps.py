"""The time steps of recurrent layers: their order, the states before them, and masks that leave steps out."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.kernel import Array, require


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


def states(x: TensorType, r: TensorType, h0: TensorType, mask: TensorType | None, gates: int) -> TensorType:
    """Return the type of the states after each time step."""
    weights = ("float32", "bfloat16") if x.dtype == "float32" else (x.dtype,)
    fits = x.dtype == h0.dtype and x.dtype in FLOATS and r.dtype in weights
    require(fits, f"x is {x}, r {r}, h0 {h0}; they need one float dtype, or r bfloat16 and the others float32")
    require(x.rank == 3 and h0.rank == 2 and x.static_shape[1] > 0, f"x is {x}, h0 {h0}")
    n, count, wide = x.static_shape
    units = h0.static_shape[1]
    require(h0.shape == (n, units) and r.shape == (units, wide) and wide == gates * units, f"x is {x}, r {r}, h0 {h0}")
    require(mask is None or mask == TensorType("bool", (n, count)), f"mask is {mask}, x is {x}")
    return TensorType(x.dtype, (n, count, units))


def require_states(type: TensorType, *given: TensorType) -> None:
    for one in given:
        require(one == type, f"states or their gradients are {one}, not {type}")
