"""The reference engine: a workspace for each thread that makes steps at the same time, made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Condition, RLock, get_ident
from typing import Protocol

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.lifespans import held, trains
from runtime.engines.reference.bind import no_file
from runtime.engines.reference.executor import Executor
from runtime.engines.reference.workspace import Workspace
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit, UsageError
from runtime.memory_limit import NO_LIMIT, MemoryLimit
from runtime.runs.overtime import Overtime
from runtime.runs.states import States
from runtime.step import spills


class Trace(Protocol):
    """Something that looks at the time every op takes."""

    def step(self, executor: Executor) -> None:
        """Make a step of the executor, and note it."""
        ...


class Engine:
    """Workspaces that share the states of one program.

    There are as many as threads made steps at the same time, or as fit into the memory: then threads wait. One
    thread alone always has the same one.

    Attributes:
        memory: what is counted of it, for the limit.
        trace: looks at the time of every op, if there is one.
        overtime: cuts steps, if there is a limit of time.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        states: States,
        *,
        threads: int = 1,
        schedule: str | None = None,
        check_nan: bool = False,
        memory: MemoryLimit = NO_LIMIT,
        spill: Path | None = None,
    ) -> None:
        self.trace: Trace | None = None
        self.overtime: Overtime | None = None
        self._program = program
        self._states = states
        self._make = partial(Executor, program, threads=threads, schedule=schedule, check_nan=check_nan)
        self.memory = memory
        self._folder = spill
        self._changed = Condition(RLock())
        self._all: list[Workspace] = []
        self._idle: list[Workspace] = []  # the one used last stands last
        self._holders: list[int] = []  # a thread for each workspace that is not idle
        self._is_full = False

    @property
    def arena_bytes(self) -> int:
        """Of all allocations for arenas: one, unless a later executor needed a larger one, or threads met."""
        return sum(work.arena_bytes for work in list(self._all))

    @property
    def file_bytes(self) -> int:
        """Of all files beside the arenas, likewise; 0 if nothing is spilled."""
        return sum(work.file_bytes for work in list(self._all))

    def require_file(self, bound: BoundEntry) -> None:
        """Raise UsageError if a bound entry needs a file beside the arena, and no folder is there for it."""
        if not any(spills(op.type) for op in bound.block.ops):
            return
        if self._folder is None:
            no_file()
        if not self._folder.is_dir():
            raise UsageError(f"{self._folder}: there is no such folder")

    def trains(self, bound: BoundEntry) -> bool:
        """Whether a bound entry changes states that live on."""
        return trains(self._program, bound.block)

    @contextmanager
    def workspace(self, bindings: Iterable[BoundEntry], fetch: Sequence[str] = ()) -> Generator[Workspace]:
        """A workspace that no other thread has for as long, with executors for these; waits where memory is short.

        Who asks has a turn at the states already: who holds a workspace never waits for one.

        Raises ResourceLimit if the memory of one is more than the limit or than there is, or the disk has no room for
        its file, and UsageError if that cannot be made.
        """
        work = self._with_executors(list(bindings), fetch)
        try:
            yield work
        finally:
            self._give_back(work)

    def executor(self, bound: BoundEntry, fetch: Sequence[str] = ()) -> Executor:
        """An executor for a thread that is alone with the engine; raises what `workspace` does."""
        with self.workspace([bound], fetch) as work:
            return work.executor(bound, fetch)

    def step_of(self, executor: Executor) -> Callable[[], object]:
        """What makes a step: the executor itself, or the trace that watches it, within the limit of time."""
        step = executor.step if self.trace is None else partial(self.trace.step, executor)
        return step if self.overtime is None else partial(self.overtime.step, step)

    def close(self) -> None:
        """Let the threads of all executors end."""
        for work in list(self._all):
            work.close()

    def _with_executors(self, bindings: Sequence[BoundEntry], fetch: Sequence[str]) -> Workspace:
        while True:
            work = self._taken()
            try:
                for bound in bindings:
                    work.executor(bound, fetch)
            except ResourceLimit:
                if not self._gives_up(work):
                    raise
            except BaseException:
                self._give_back(work)
                raise
            else:
                return work

    def _taken(self) -> Workspace:
        """An idle workspace, a new one if there is room, else the first that becomes idle."""
        with self._changed:
            while not self._idle:
                if not self._is_full:
                    self._all.append(Workspace(self._program, self._states, self._make, self._folder, self.memory))
                    self._idle.append(self._all[-1])
                elif self._has_one():
                    raise ResourceLimit(
                        "a thread that evaluates or predicts in between needs memory for both, and there is none"
                    )
                else:
                    self._changed.wait()
            self._holders.append(get_ident())
            return self._idle.pop()

    def _give_back(self, work: Workspace) -> None:
        with self._changed:
            self._holders.remove(get_ident())
            self._idle.append(work)
            self._changed.notify()

    def _gives_up(self, work: Workspace) -> bool:
        """Do without a workspace that needs more than there is, and say whether there is another one to wait for."""
        with self._changed:
            self._give_back(work)
            if len(self._all) == 1:
                return False
            self._idle.remove(work)
            self._all.remove(work)
            self.memory.give_back(work.arena_bytes + work.other_bytes)
            work.close()
            self._is_full = not self._has_one()
            return self._is_full

    def _has_one(self) -> bool:
        return get_ident() in self._holders


def new_states(program: pb.ProgramDesc, folder: Path, memory: MemoryLimit) -> States:
    """The states of a program, not yet initialised. Raises ResourceLimit if they do not fit."""
    memory.take(sum(type_of(state).nbytes for state in held(program)), "the states")
    try:
        return States(program, folder, memory)
    except MemoryError:
        raise ResourceLimit("the program's states need more memory than there is") from None
