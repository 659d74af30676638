"""The memory of a workspace, on the account of what is allocated: an arena that executors share, copies for each.

And a file beside the arena, for programs that move values out of memory and back.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from runtime.aligned_memory import aligned_bytes
from runtime.dtypes import Array
from runtime.engines.engine import no_folder
from runtime.memory_limit import MemoryLimit


def no_file(nbytes: int = 0) -> NoReturn:
    """There is no file of so many bytes beside the arena, nor of any: raises UsageError."""
    raise no_folder()


class Room:
    """What a workspace has taken so far.

    Attributes:
        arena_bytes: of the arena; of all arenas if a later executor needed a larger one.
        copy_bytes: of all copies.
    """

    def __init__(self, memory: MemoryLimit, folder: Path | None = None) -> None:
        """`memory` is asked before anything is allocated; files go into `folder`."""
        self.arena_bytes = self.copy_bytes = 0
        self._memory, self._folder = memory, folder
        self._arenas: list[Array] = []
        self._files: list[Array] = []

    @property
    def file_bytes(self) -> int:
        """Of the file; of all files if a later executor needed a larger one."""
        return sum(map(len, self._files))

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

    def file(self, nbytes: int) -> Array:
        """At least so many bytes of a file beside the arena, the same ones each time.

        Raises UsageError if there is no folder for it, ResourceLimit if the disk has no room.
        """
        if self._folder is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            from runtime.engines.spill_file import spill_file  # few programs need it

            self._files.append(spill_file(self._folder, nbytes))
        return self._files[-1]
