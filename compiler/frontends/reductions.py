"""Reductions along axes of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.frontends.arranged import Arranged, single, squeezed, with_broadcast
from compiler.frontends.extents import ONE
from registry import Value

Reduction = Callable[[Value, tuple[int, ...]], Value]
"""A function of a value and axes of it, which keeps them with extent 1."""


def reduced(function: Reduction, x: Arranged, dims: int | Sequence[int] | None, keepdim: bool = False) -> Arranged:
    """Return a reduction along axes of the model; along all axes without `dims`."""
    if x.rank == 0:
        return x
    asked = [dims] if isinstance(dims, int) else list(dims) if dims else list(range(x.rank))
    axes = sorted({axis % x.rank for axis in asked})
    x, places = _held(x, axes)
    y = function(x.value, tuple(places))
    made = Arranged(y, x.axes, tuple(ONE if i in axes else extent for i, extent in enumerate(x.shape)))
    return made if keepdim else squeezed(made, axes)


def _held(x: Arranged, axes: Sequence[int]) -> tuple[Arranged, list[int]]:
    """Return x with these axes in full, and all axes of its value that hold them."""
    x = with_broadcast(x, axes)
    if any(not x.axes[axis] for axis in axes):
        return single(x, axes)
    return x, [place for axis in axes for place in x.axes[axis]]
