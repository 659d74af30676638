"""What one thread needs to make steps: an arena, a file beside it, and the executors that take turns in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from prograd_proto import program_pb2 as pb
from prograd_proto.lifespans import trains
from runtime.aligned_memory import aligned_bytes
from runtime.engines.reference.bind import no_file
from runtime.engines.reference.executor import Executor
from runtime.engines.reference.spill_file import spill_file
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit
from runtime.kernel import Array
from runtime.memory_limit import MemoryLimit
from runtime.runs.states import States


class Workspace:
    """The memory and the executors of one thread at a time; nothing in it is needed from one turn with it to the next.

    Attributes:
        arena_bytes: of all its allocations for the arena: one, unless a later executor needed a larger one.
        file_bytes: of all its files beside the arena, likewise.
        other_bytes: of the totals that its evaluations have for themselves, copies of what is fetched or watched.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        states: States,
        make: Callable[..., Executor],
        folder: Path | None,
        memory: MemoryLimit,
    ) -> None:
        """An empty one.

        Args:
            program: of the entries.
            states: of the program.
            make: an executor, called as `Executor` without the program.
            folder: for the file.
            memory: is asked before anything is allocated.
        """
        self.arena_bytes = self.file_bytes = self.other_bytes = 0
        self._program = program
        self._states = states
        self._make = make
        self._folder = folder
        self._limit = memory
        self._arenas: list[Array] = []
        self._files: list[Array] = []
        self._aside: States | None = None
        self._executors: dict[tuple[int, frozenset[str]], Executor] = {}

    def executor(self, bound: BoundEntry, fetch: Sequence[str] = ()) -> Executor:
        """The executor of a bound entry that also fetches those tensors.

        Raises ResourceLimit if its memory is more than the limit or than there is, or the disk has no room for its
        file, and UsageError if that cannot be made.
        """
        key = bound.number, frozenset(fetch)
        if key not in self._executors:
            try:
                self._executors[key] = self._make(
                    bound.block,
                    self.states_of(bound),
                    fetch=fetch,
                    plan=bound.plan,
                    memory=self._memory,
                    file=self._file,
                    copies=self._copies,
                )
            except MemoryError:
                raise ResourceLimit(f"entry {bound.name!r} needs more memory than there is") from None
        return self._executors[key]

    def states_of(self, bound: BoundEntry) -> States:
        """What an entry reads and updates: one that does not train has totals of its own."""
        if not bound.block.updates or trains(self._program, bound.block):
            return self._states
        if self._aside is None:
            nbytes = sum(self._states.arrays[name].nbytes for name in self._states.passing)
            self._limit.take(nbytes, "the totals of an evaluation")
            self.other_bytes += nbytes
            self._aside = self._states.aside()
            self._aside.reset_epoch()
        return self._aside

    def reset(self) -> None:
        """Begin an epoch for what does not train."""
        if self._aside is not None:
            self._aside.reset_epoch()

    def close(self) -> None:
        """Let the threads of all executors end."""
        for executor in list(self._executors.values()):
            executor.close()

    def _memory(self, nbytes: int) -> Array:
        """The arena, a new one if it is too small: the first executor is usually the largest."""
        if not self._arenas or len(self._arenas[-1]) < nbytes:
            self._limit.take(nbytes, "the arena")
            self.arena_bytes += nbytes
            self._arenas.append(aligned_bytes(nbytes))
        return self._arenas[-1]

    def _copies(self, nbytes: int) -> Array:
        """Memory for copies of what is fetched or watched; each executor has its own."""
        self._limit.take(nbytes, "the copies of what is fetched or watched")
        self.other_bytes += nbytes
        return aligned_bytes(nbytes)

    def _file(self, nbytes: int) -> Array:
        """The file beside the arena, a new one if it is too small."""
        if self._folder is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            self._files.append(spill_file(self._folder, nbytes))
            self.file_bytes += nbytes
        return self._files[-1]
