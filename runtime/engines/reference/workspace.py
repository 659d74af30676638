"""The memory of one thread that makes steps: an arena, a file beside it, and the executors that take turns in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.engines.engine import EngineOptions, Footprint, Version, unknown_version
from runtime.engines.reference.bound_step import Memory
from runtime.engines.reference.executor import Manner, ReferenceExecutor, prepare
from runtime.engines.workspace_memory import WorkspaceMemory
from runtime.entries import BoundEntry


class ReferenceWorkspace:
    """The workspace of the reference engine; see `runtime.engines.engine.Workspace`."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        self._program = program
        self._manner = Manner(options.threads, check_nan=options.check_nan)
        self._memory = WorkspaceMemory(options.memory, options.spill)
        self._executors: list[ReferenceExecutor] = []

    @property
    def footprint(self) -> Footprint:
        """The bytes of one arena and one file, unless a later executor needed larger ones, and of all copies."""
        return Footprint(self._memory.arena_bytes, self._memory.file_bytes, self._memory.copy_bytes)

    def prepare(
        self,
        bound: BoundEntry,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        version: Version = unknown_version,
    ) -> ReferenceExecutor:
        """Place and bind the entry, with all look-ups; nothing is kept that depends on a version."""
        del version
        memory = Memory(self._memory.arena, self._memory.file, self._memory.copies)
        executor = prepare(self._program, bound, states, fetch, self._manner, memory)
        self._executors.append(executor)
        return executor

    def close(self) -> None:
        """End the threads of all executors."""
        for executor in list(self._executors):
            executor.close()
