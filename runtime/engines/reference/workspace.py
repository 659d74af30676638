"""What one thread needs to make steps: an arena, a file beside it, and the executors that take turns in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import program_pb2 as pb
from runtime.aligned_memory import aligned_bytes
from runtime.dtypes import Array
from runtime.engines.engine import EngineOptions, Footprint
from runtime.engines.reference.bind import no_file
from runtime.engines.reference.bound_step import Memory
from runtime.engines.reference.executor import Manner, ReferenceExecutor, prepare
from runtime.engines.reference.spill_file import spill_file
from runtime.entries import BoundEntry


class ReferenceWorkspace:
    """See `runtime.engines.engine.Workspace`.

    Attributes:
        footprint: one arena and one file, unless a later executor needed larger ones, and all copies.
    """

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        self.footprint = Footprint()
        self._program = program
        self._options = options
        threads = 1 if options.schedule == "fifo" else options.threads
        self._manner = Manner(threads, check_nan=options.check_nan)
        self._arenas: list[Array] = []
        self._files: list[Array] = []
        self._executors: list[ReferenceExecutor] = []

    def prepare(self, bound: BoundEntry, states: Mapping[str, Array], fetch: Sequence[str]) -> ReferenceExecutor:
        """Place and bind the entry; everything is looked up now."""
        memory = Memory(self._arena, self._file, self._copies)
        executor = prepare(self._program, bound, states, fetch, self._manner, memory)
        self._executors.append(executor)
        return executor

    def close(self) -> None:
        """Let the threads of all executors end."""
        for executor in list(self._executors):
            executor.close()

    def _arena(self, nbytes: int) -> Array:
        """At least so many aligned bytes, the same ones each time: the first executor is usually the largest."""
        if not self._arenas or len(self._arenas[-1]) < nbytes:
            self._options.memory.take(nbytes, "the arena")
            self.footprint = self.footprint._replace(arena=self.footprint.arena + nbytes)
            self._arenas.append(aligned_bytes(nbytes))
        return self._arenas[-1]

    def _copies(self, nbytes: int) -> Array:
        """Memory for copies of what is fetched or watched; each executor has its own."""
        self._options.memory.take(nbytes, "the copies of what is fetched or watched")
        self.footprint = self.footprint._replace(copies=self.footprint.copies + nbytes)
        return aligned_bytes(nbytes)

    def _file(self, nbytes: int) -> Array:
        """At least so many bytes of a file beside the arena, likewise."""
        if self._options.spill is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            self._files.append(spill_file(self._options.spill, nbytes))
            self.footprint = self.footprint._replace(file=self.footprint.file + nbytes)
        return self._files[-1]
