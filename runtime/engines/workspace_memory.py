"""The memory of a workspace, counted against the memory limit: an arena that executors share, and copies for each.

Programs that move values out of memory and back also get a file beside the arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from runtime.dtypes import Array
from runtime.engines.engine import no_folder
from runtime.memory.aligned import aligned_bytes
from runtime.memory.limit import MemoryLimit


def no_file(nbytes: int = 0) -> NoReturn:
    """Raise UsageError: there is no file beside the arena, of this or any other size."""
    raise no_folder()


class WorkspaceMemory:
    """The memory that a workspace has allocated.

    Attributes:
        arena_bytes: bytes of the arena; of all arenas if a later executor needed a larger one.
        copy_bytes: bytes of all copies.
    """

    def __init__(self, memory: MemoryLimit, folder: Path | None) -> None:
        """Begin empty; count every allocation in `memory` first, and put files into `folder`."""
        self.arena_bytes = self.copy_bytes = 0
        self._memory, self._folder = memory, folder
        self._arenas: list[Array] = []
        self._files: list[Array] = []

    @property
    def file_bytes(self) -> int:
        """The bytes of the file; of all files if a later executor needed a larger one."""
        return sum(map(len, self._files))

    def arena(self, nbytes: int, tensors: Sequence[tuple[int, int]] = ()) -> Array:
        """Return at least `nbytes` aligned bytes, the same ones each time: the first executor is usually the largest.

        `tensors` are the offsets and sizes of its tensors.

        Raises ResourceLimit if they do not fit into the limit.
        """
        if not self._arenas or len(self._arenas[-1]) < nbytes:
            self._memory.take(nbytes, "the arena")
            self.arena_bytes += nbytes
            self._arenas.append(aligned_bytes(nbytes, tensors))
        return self._arenas[-1]

    def copies(self, nbytes: int) -> Array:
        """Return `nbytes` bytes for copies of fetched or instrumented tensors.

        Raises ResourceLimit if they do not fit.
        """
        self._memory.take(nbytes, "the copies of what is fetched or watched")
        self.copy_bytes += nbytes
        return aligned_bytes(nbytes)

    def file(self, nbytes: int) -> Array:
        """Return at least `nbytes` bytes of a file beside the arena, the same ones each time.

        Raises UsageError if there is no folder for it, ResourceLimit if the disk has no room.
        """
        if self._folder is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            from runtime.engines.spill_file import spill_file  # few programs need it

            self._files.append(spill_file(self._folder, nbytes))
        return self._files[-1]
