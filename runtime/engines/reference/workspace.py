"""What one thread needs to make steps: an arena, a file beside it, and the executors that take turns in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.engines.engine import EngineOptions, Footprint
from runtime.engines.reference.bind import no_file
from runtime.engines.reference.bound_step import Memory
from runtime.engines.reference.executor import Manner, ReferenceExecutor, prepare
from runtime.engines.reference.spill_file import spill_file
from runtime.engines.room import Room
from runtime.entries import BoundEntry


class ReferenceWorkspace:
    """See `runtime.engines.engine.Workspace`."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        self._program = program
        self._options = options
        threads = 1 if options.schedule == "fifo" else options.threads
        self._manner = Manner(threads, check_nan=options.check_nan)
        self._room = Room(options.memory)
        self._files: list[Array] = []
        self._executors: list[ReferenceExecutor] = []

    @property
    def footprint(self) -> Footprint:
        """One arena and one file, unless a later executor needed larger ones, and all copies."""
        return Footprint(self._room.arena_bytes, sum(map(len, self._files)), self._room.copy_bytes)

    def prepare(self, bound: BoundEntry, states: Mapping[str, Array], fetch: Sequence[str]) -> ReferenceExecutor:
        """Place and bind the entry; everything is looked up now."""
        memory = Memory(self._room.arena, self._file, self._room.copies)
        executor = prepare(self._program, bound, states, fetch, self._manner, memory)
        self._executors.append(executor)
        return executor

    def close(self) -> None:
        """Let the threads of all executors end."""
        for executor in list(self._executors):
            executor.close()

    def _file(self, nbytes: int) -> Array:
        """At least so many bytes of a file beside the arena, likewise."""
        if self._options.spill is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            self._files.append(spill_file(self._options.spill, nbytes))
        return self._files[-1]
