"""Updates of parameters, a piece at a time: the scratch is small, and a piece stays in the cache from start to end.

Any output may overwrite its input: within a piece an input is not read again once its output is written. p and dp are
the pieces of w and dw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, kernel

PIECE = 32768
"""Number of elements that are updated at a time."""


def some_pieces(count: int) -> Callable[[TensorType], list[TensorType]]:
    """Return the function to scratch for `count` pieces of a parameter w."""
    return lambda w: [piece_of(w)] * count


@kernel(scratch=some_pieces(1), in_place=[(0, 0)], by_element=True)
def sgd(w: Array, dw: Array, rate: Array, *, decay: float, out: Array, scratch: list[Array]) -> None:
    for p, dp, new_p, part in pieces([w, dw, out], scratch):
        np.multiply(decayed(p, dp, decay, part), rate, part)
        np.subtract(p, part, new_p)


@kernel(scratch=some_pieces(2), in_place=[(0, 0), (1, 2)], by_element=True)
def momentum(
    w: Array,
    dw: Array,
    velocity: Array,
    rate: Array,
    *,
    momentum: float,
    nesterov: bool,
    decay: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    for p, dp, old, new_p, new, change, part in pieces([w, dw, velocity, *out], scratch):
        g = decayed(p, dp, decay, part)
        np.multiply(old, momentum, new)
        np.add(new, g, new)
        if nesterov:
            np.multiply(new, momentum, change)
            np.add(change, g, change)
            np.multiply(change, rate, change)
        else:
            np.multiply(new, rate, change)
        np.subtract(p, change, new_p)


def decayed(w: Array, dw: Array, decay: float, part: Array) -> Array:
    """Return the gradient dw + decay * w, in `part` if there is decay."""
    if not decay:
        return dw
    np.multiply(w, decay, part)
    np.add(part, dw, part)
    return part


def pieces(arrays: Sequence[Array], scratch: Sequence[Array]) -> Iterator[Sequence[Array]]:
    """Yield the arrays, then their scratch, split at the same indices into vectors if they are larger than it."""
    size = scratch[0].size
    if arrays[0].size <= size:
        yield *arrays, *scratch
        return
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, size):
        cut = [vector[start : start + size] for vector in flat]
        yield *cut, *(vector[: cut[0].size] for vector in scratch)


def piece_of(w: TensorType) -> TensorType:
    """Return the type of all of w if it is small, or of a vector."""
    return w if prod(w.static_shape) <= PIECE else TensorType(w.dtype, (PIECE,))
