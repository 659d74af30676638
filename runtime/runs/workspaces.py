"""Workspaces of an engine, lent to the threads of a run: one for each that makes steps at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Condition, RLock, get_ident
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.states import trains
from runtime.engines.engine import Engine, Executor
from runtime.entries import BoundEntry
from runtime.errors import ResourceLimit
from runtime.memory.limit import MemoryLimit
from runtime.runs.states import States

NOTHING: Final = frozenset[str]()
"""Empty set of additional fetches, which most callers pass."""


class Workspaces:
    """Workspaces that share the states of one program, created when they are first needed.

    There are as many as threads that made steps at the same time, or as fit into the memory: then threads wait. A
    single thread always has the same one.
    """

    def __init__(self, program: pb.ProgramDesc, states: States, engine: Engine, memory: MemoryLimit) -> None:
        self._program = program
        self._states = states
        self._engine = engine
        self._memory = memory
        self._changed = Condition(RLock())
        self._all: list[Lent] = []
        self._idle: list[Lent] = []  # the most recently used comes last
        self._holders: list[int] = []  # a thread for each workspace that is not idle
        self._is_full = False

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas: one, unless a later executor needed a larger one, or threads ran concurrently."""
        return sum(lent.workspace.footprint.arena for lent in list(self._all))

    @property
    def file_bytes(self) -> int:
        """Bytes of all files beside the arenas, likewise; 0 if nothing is spilled."""
        return sum(lent.workspace.footprint.file for lent in list(self._all))

    def lent(self, bindings: Sequence[BoundEntry], fetch: Sequence[str] = ()) -> _Lending:
        """Lend a workspace to one thread, with executors for these bindings; wait where memory is short.

        The caller holds the lock on the states already: a thread that holds a workspace never waits for the lock.

        Raises ResourceLimit if the memory of one exceeds the limit or the free memory, or its file the disk. Raises
        UsageError if the file cannot be created.
        """
        return _Lending(self, bindings, fetch)

    def executor(self, bound: BoundEntry, fetch: Sequence[str] = ()) -> Executor:
        """Return an executor for a thread that has the run for itself; raise errors as `lent` does."""
        with self.lent([bound], fetch) as lent:
            return lent.executor(bound, fetch)

    def close(self) -> None:
        """End the threads of all workspaces."""
        for lent in list(self._all):
            lent.workspace.close()

    def with_executors(self, bindings: Sequence[BoundEntry], fetch: Sequence[str]) -> Lent:
        """Lend a workspace until it is given back."""
        while True:
            lent = self._taken()
            try:
                for bound in bindings:
                    lent.executor(bound, fetch)
            except ResourceLimit:
                if not self._gives_up(lent):
                    raise
            except BaseException:
                self.give_back(lent)
                raise
            else:
                return lent

    def _taken(self) -> Lent:
        """Return an idle workspace, a new one if there is room, else the first that becomes idle."""
        with self._changed:
            while not self._idle:
                if not self._is_full:
                    self._all.append(Lent(self._program, self._states, self._engine, self._memory))
                    self._idle.append(self._all[-1])
                elif self._has_one():
                    raise ResourceLimit(
                        "a thread that evaluates or predicts in between needs memory for both, and there is none"
                    )
                else:
                    self._changed.wait()
            self._holders.append(get_ident())
            return self._idle.pop()

    def give_back(self, lent: Lent) -> None:
        """Take a workspace back."""
        with self._changed:
            self._holders.remove(get_ident())
            self._idle.append(lent)
            self._changed.notify()

    def _gives_up(self, lent: Lent) -> bool:
        """Drop a workspace that needs more memory than is free; return True if there is another one to wait for."""
        with self._changed:
            self.give_back(lent)
            if len(self._all) == 1:
                return False
            self._idle.remove(lent)
            self._all.remove(lent)
            lent.leave()
            self._is_full = not self._has_one()
            return self._is_full

    def _has_one(self) -> bool:
        return get_ident() in self._holders


class _Lending:
    """The context in which a workspace is lent: a class, as in `state_locks`."""

    def __init__(self, workspaces: Workspaces, bindings: Sequence[BoundEntry], fetch: Sequence[str]) -> None:
        self._workspaces, self._asked = workspaces, (bindings, fetch)

    def __enter__(self) -> Lent:
        self._lent = self._workspaces.with_executors(*self._asked)
        return self._lent

    def __exit__(self, *error: object) -> None:
        self._workspaces.give_back(self._lent)


class Lent:
    """A workspace, and the executors prepared in it for the run that lends it.

    Attributes:
        workspace: workspace of the engine.
    """

    def __init__(self, program: pb.ProgramDesc, states: States, engine: Engine, memory: MemoryLimit) -> None:
        self.workspace = engine.workspace()
        self._program = program
        self._states = states
        self._memory = memory
        self._aside: States | None = None
        self._executors: dict[tuple[int, frozenset[str]], Executor] = {}

    def executor(self, bound: BoundEntry, fetch: Sequence[str] = ()) -> Executor:
        """Return the executor of a bound entry that also fetches those tensors.

        Raise errors as `Workspaces.lent` does.
        """
        key = bound.number, frozenset(fetch) if fetch else NOTHING
        if key not in self._executors:
            try:
                states = self._states_of(bound)
                self._executors[key] = self.workspace.prepare(bound, states.arrays, fetch, states.locks.version)
            except MemoryError:
                raise ResourceLimit(f"entry {bound.name!r} needs more memory than there is") from None
        return self._executors[key]

    def reset(self) -> None:
        """Begin an epoch for entries that do not train."""
        if self._aside is not None:
            self._aside.reset_epoch()

    def leave(self) -> None:
        """End its threads, and give back its memory to the account."""
        footprint = self.workspace.footprint
        own = 0 if self._aside is None else self._bytes_aside()
        self._memory.give_back(footprint.arena + footprint.copies + own)
        self.workspace.close()

    def _states_of(self, bound: BoundEntry) -> States:
        """Return the states that an entry reads and updates; an entry that does not train has totals of its own."""
        self._states.require({parameter.state for parameter in bound.block.parameters})
        if not bound.block.updates or trains(self._program, bound.block):
            return self._states
        if self._aside is None:
            self._memory.take(self._bytes_aside(), "the totals of an evaluation")
            self._aside = self._states.aside()
            self._aside.reset_epoch()
        return self._aside

    def _bytes_aside(self) -> int:
        return sum(self._states.arrays[name].nbytes for name in self._states.passing)
