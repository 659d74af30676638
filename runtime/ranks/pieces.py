"""States that are cut among the ranks: each rank has a piece, and together they have the whole.

To read a whole state, all ranks ask for it at the same time, because each of them sends its piece to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import prod

import numpy as np

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.memory.aligned import aligned_array
from runtime.ranks.cut import Share
from runtime.ranks.group import Group


class Pieces:
    """The pieces of a rank.

    Attributes:
        types: the types of the whole states that are cut, by name.
        is_first: True for the rank that writes files.
        largest_bytes: bytes of the largest whole state; a rank has one whole state at a time.
    """

    def __init__(self, group: Group, types: Mapping[str, TensorType]) -> None:
        self._group, self._share, self.types = group, Share(group.rank, group.size), types
        self.is_first = group.rank == 0
        self.largest_bytes = max(type.nbytes for type in types.values())

    def type(self, name: str) -> TensorType:
        """Return the type of this rank's piece of a state."""
        return self._share.own(self.types[name])

    def piece(self, name: str, whole: Array) -> Array:
        """Return this rank's piece of a whole state, without a copy."""
        first, stop = self._share.of(self.types[name])
        return whole.reshape(-1)[first:stop]

    def whole(self, name: str, piece: Array) -> Array:
        """Return a whole state; all ranks call this together, each with its piece."""
        type = self.types[name]
        whole = aligned_array(type)
        size = prod(type.static_shape)
        bounds = [Share(rank, self._group.size).of(type)[0] for rank in range(self._group.size)] + [size]
        counts = [(stop - first) * whole.itemsize for first, stop in pairwise(bounds)]
        self._group.all_gather(piece.view(np.uint8), whole.reshape(-1).view(np.uint8), counts)
        return whole


class Gathered(Mapping[str, Array]):
    """Whole arrays by name, each made when it is asked for; all ranks ask for the same names in the same order.

    Args:
        arrays: the arrays, which are pieces for the states that are cut.
        pieces: the pieces.
        prefix: beginning of the names of the arrays, before the names of the states.
    """

    def __init__(self, arrays: Mapping[str, Array], pieces: Pieces, prefix: str = "") -> None:
        self._arrays, self._pieces, self._prefix = arrays, pieces, prefix

    def __getitem__(self, name: str) -> Array:
        state = name.removeprefix(self._prefix)
        array = self._arrays[state]
        return self._pieces.whole(state, array) if state in self._pieces.types else array

    def __iter__(self) -> Iterator[str]:
        return (self._prefix + name for name in self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def pieces_of(program: pb.ProgramDesc, dealt: pb.ProgramDesc, group: Group | None) -> Pieces | None:
    """Return the pieces of the states that dealing has cut; None if it has cut none."""
    types = {state.name: type_of(state) for state in program.states}
    own = {state.name: type_of(state) for state in dealt.states}
    cut = {name: type for name, type in types.items() if own[name] != type}
    return Pieces(group, cut) if group is not None and cut else None
