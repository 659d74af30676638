"""The memory of a workspace, on the account of what is allocated: an arena that executors share, copies for each."""

from __future__ import annotations

from runtime.aligned_memory import aligned_bytes
from runtime.dtypes import Array
from runtime.memory_limit import MemoryLimit


class Room:
    """What a workspace has taken so far.

    Attributes:
        arena_bytes: of the arena; of all arenas if a later executor needed a larger one.
        copy_bytes: of all copies.
    """

    def __init__(self, memory: MemoryLimit) -> None:
        """`memory` is asked before anything is allocated."""
        self.arena_bytes = self.copy_bytes = 0
        self._memory = memory
        self._arenas: list[Array] = []

    def arena(self, nbytes: int) -> Array:
        """At least so many aligned bytes, the same ones each time: the first executor is usually the largest.

        Raises ResourceLimit if they do not fit into the limit.
        """
        if not self._arenas or len(self._arenas[-1]) < nbytes:
            self._memory.take(nbytes, "the arena")
            self.arena_bytes += nbytes
            self._arenas.append(aligned_bytes(nbytes))
        return self._arenas[-1]

    def copies(self, nbytes: int) -> Array:
        """So many bytes for copies of what is fetched or watched; raises ResourceLimit likewise."""
        self._memory.take(nbytes, "the copies of what is fetched or watched")
        self.copy_bytes += nbytes
        return aligned_bytes(nbytes)
