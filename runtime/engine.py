"""The reference engine: one executor per bound block, made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.arena import aligned_bytes
from runtime.bind import no_file
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit, UsageError
from runtime.executor import Executor
from runtime.kernel import Array
from runtime.memory import spills
from runtime.spill_file import spill_file
from runtime.states import States


class Trace(Protocol):
    """Something that looks at the time every op takes."""

    def step(self, executor: Executor) -> None:
        """Make a step of the executor, and note it."""
        ...


class Engine:
    """Executors that share the states of one program.

    Attributes:
        arena_bytes: of all allocations for the arena: one, unless a later executor needed a larger one.
        file_bytes: of all files beside the arena, likewise; 0 if nothing is spilled.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        states: States,
        *,
        threads: int = 1,
        schedule: str | None = None,
        check_nan: bool = False,
        max_memory: int | None = None,
        spill: Path | None = None,
    ) -> None:
        self.arena_bytes = 0
        self.file_bytes = 0
        self.trace: Trace | None = None
        self._states = states
        self._executor = partial(Executor, program, threads=threads, schedule=schedule, check_nan=check_nan)
        self._max_memory = max_memory
        self._arenas: list[Array] = []
        self._copied = 0  # bytes of copies
        self._folder = spill
        self._files: list[Array] = []
        self._executors: dict[tuple[int, frozenset[str]], Executor] = {}

    def require_file(self, bound: BoundEntry) -> None:
        """Raise UsageError if a bound entry needs a file beside the arena, and no folder is there for it."""
        if not any(spills(op.type) for op in bound.block.ops):
            return
        if self._folder is None:
            no_file()
        if not self._folder.is_dir():
            raise UsageError(f"{self._folder}: there is no such folder")

    def executor(self, bound: BoundEntry, fetch: Sequence[str] = ()) -> Executor:
        """The executor of a bound entry that also fetches those tensors.

        Raises ResourceLimit if its memory is more than the limit or than there is, or the disk has no room for its
        file, and UsageError if that cannot be made.
        """
        key = bound.number, frozenset(fetch)
        if key not in self._executors:
            try:
                made = self._executor(
                    bound.block,
                    self._states,
                    fetch=fetch,
                    plan=bound.plan,
                    memory=self._memory,
                    file=self._file,
                    copies=self._copies,
                )
            except MemoryError:
                raise ResourceLimit(f"entry {bound.name!r} needs more memory than there is") from None
            self._executors[key] = made
        return self._executors[key]

    def step_of(self, executor: Executor) -> Callable[[], object]:
        """What makes a step: the executor itself, or the trace that watches it."""
        return executor.step if self.trace is None else partial(self.trace.step, executor)

    def close(self) -> None:
        """Let the threads of all executors end."""
        for executor in self._executors.values():
            executor.close()

    def _memory(self, nbytes: int) -> Array:
        """The arena, a new one if it is too small: the first executor is usually the largest."""
        if not self._arenas or len(self._arenas[-1]) < nbytes:
            require_memory(self._states.nbytes + self.arena_bytes + self._copied + nbytes, self._max_memory)
            self._arenas.append(aligned_bytes(nbytes))
            self.arena_bytes += nbytes
        return self._arenas[-1]

    def _copies(self, nbytes: int) -> Array:
        """Memory for the copies that a look for NaN needs; each executor has its own."""
        require_memory(self._states.nbytes + self.arena_bytes + self._copied + nbytes, self._max_memory)
        self._copied += nbytes
        return aligned_bytes(nbytes)

    def _file(self, nbytes: int) -> Array:
        """The file beside the arena, a new one if it is too small."""
        if self._folder is None:
            no_file()
        if not self._files or len(self._files[-1]) < nbytes:
            self._files.append(spill_file(self._folder, nbytes))
            self.file_bytes += nbytes
        return self._files[-1]


def new_states(program: pb.ProgramDesc, folder: Path, max_memory: int | None) -> States:
    """The states of a program, not yet initialised. Raises ResourceLimit if they do not fit."""
    require_memory(sum(type_of(state).nbytes for state in program.states), max_memory)
    try:
        return States(program, folder)
    except MemoryError:
        raise ResourceLimit("the program's states need more memory than there is") from None


def require_memory(nbytes: int, limit: int | None) -> None:
    """Raise ResourceLimit if the states and the arena need more bytes than the limit."""
    if limit is not None and nbytes > limit:
        raise ResourceLimit(f"the states and the arena need {nbytes} bytes, the limit is {limit}")
