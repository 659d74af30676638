"""Runs one bound block: everything is looked up and placed once, a step then only calls kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import length_hint
from time import perf_counter
from typing import Final
from weakref import finalize

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.plugins import namespace_of, plugin_failed
from runtime.aligned_memory import aligned_bytes, view
from runtime.conversion import conversion, given_dtype
from runtime.dtypes import array_type
from runtime.engines.reference.bind import bind, no_file
from runtime.engines.reference.nan_watch import NanWatch
from runtime.engines.reference.threads.contest import Contest
from runtime.engines.reference.threads.lanes import Lanes
from runtime.engines.reference.threads.stopwatch import TRANSFERS, Spell, Stopwatch
from runtime.engines.reference.threads.tasks import TINY, tasks_of
from runtime.engines.reference.threads.worklist import Failure, Worklist
from runtime.errors import ExecutionError, NonFinite
from runtime.kernel import Array
from runtime.runs.states import States
from runtime.step import dependencies, is_transfer

Call = Callable[[], object]

TRIALS: Final = 3
"""Steps in the order of the list that show how long each op takes, before a schedule can say what is worth a thread."""


class Executor:
    """One bound block of a checked program, ready to step.

    Attributes:
        feeds: by feed name, the arrays to fill before a step.
        fetches: by fetch name, the values of the last step; a fetched state is its value at the step's start.
        ops: what a step computes, in order; views and constants are not among them.
        buffers: of the arena.
        arena_bytes: of the one allocation that holds everything that dies within a step.
        file_bytes: of the file beside the arena, 0 if nothing is spilled.
        state_bytes: of all states of the program.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        block: pb.BlockDesc,
        states: States,
        *,
        threads: int = 1,
        schedule: str | None = None,
        tiny: float = TINY,
        check_nan: bool = False,
        fetch: Sequence[str] = (),
        plan: pb.MemoryPlan | None = None,
        memory: Callable[[int], Array] = aligned_bytes,
        file: Callable[[int], Array] = no_file,
        copies: Callable[[int], Array] = aligned_bytes,
    ) -> None:
        """Place and bind the block.

        Args:
            program: the checked program of the block.
            block: one with static types.
            states: what the block reads and updates.
            threads: how many threads call kernels; the results do not depend on it.
            schedule: "fifo" keeps the order of the op list on one thread, "parallel" starts an op when what it
                depends on is done; unless given, parallel with more than one thread. The first steps of
                "parallel" are in order, and show what is worth a thread; if nothing is, so are all others, and else
                the steps on threads must turn out faster than those in order.
            tiny: seconds of work that are not worth another thread; with 0, all that can run at once is.
            check_nan: look at every output, and raise NonFinite at the first that has NaN or Inf. The states that the
                step changes and the feeds are copied before each step, and put back when that happens.
            fetch: tensors to fetch besides those the block declares, by tensor name.
            plan: offsets made by the compiler.
            memory: gives at least so many aligned bytes for the arena; executors that take turns may share them.
            file: gives at least so many bytes for what is spilled, likewise.
            copies: gives the bytes for copies of what is fetched, updated late or watched.
        """
        self._locations = program.locations
        self._bound = bind(block, states.arrays, pinned=fetch, plan=plan, memory=memory, file=file)
        self.arena_bytes = self._bound.arena_bytes
        self.file_bytes = self._bound.file_bytes
        self.state_bytes = states.nbytes
        self.ops = [op.desc for op in self._bound.ops]
        self.buffers = self._bound.buffers
        arrays = self._bound.arrays
        self.feeds = {p.feed: arrays[p.tensor] for p in block.parameters if p.WhichOneof("source") == "feed"}
        self.fetches: dict[str, Array] = {}
        self._before, fetched = self._fetch_copies(block, fetch, copies)
        self._nan_watch = NanWatch(block, self._bound.ops, self.feeds, states, copies) if check_nan else None
        self._calls = [op.call for op in self._bound.ops] if self._nan_watch is None else self._nan_watch.calls
        self._after = fetched + _update_copies(block, arrays, states.arrays, copies)
        self._tiny = tiny
        self._threads = 1 if schedule == "fifo" else threads
        self._trials_left = 0 if self._threads == 1 else TRIALS
        self._shortest = [float("inf")] * len(self._calls)
        self._worklist: Worklist | None = None
        transfers = [is_transfer(op.type) for op in self.ops]
        self._lanes = Lanes(dependencies(self._bound.touched()), transfers) if any(transfers) else None
        if self._lanes is not None:
            finalize(self, self._lanes.close)
        self._contest = Contest()
        self._stopwatch: Stopwatch | None = None

    def step(self) -> None:
        """Compute every op, copy what is fetched, update the states.

        Raises ExecutionError that names the op; what the states hold is then of no use, but for NonFinite.
        """
        self._step(self._watch().calls if self._trials_left else self._calls)

    def profile_step(self) -> list[Spell]:
        """A step, with the time that each of `ops` took."""
        watch = self._watch()
        self._step(watch.calls)
        return watch.spells()

    def close(self) -> None:
        """Let all threads end but the caller's; a later step of transfers is made on that alone."""
        if self._worklist is not None:
            self._worklist.close()
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = None

    def _step(self, calls: Sequence[Call]) -> None:
        with np.errstate(all="ignore"):
            if self._nan_watch is not None:
                self._nan_watch.keep()
            for call in self._before:
                call()
            if self._worklist is None:
                self._in_order(calls)
            else:
                self._in_contest(self._worklist, calls)
            for call in self._after:
                call()
        if self._trials_left:
            self._learn()

    def _in_order(self, calls: Sequence[Call]) -> None:
        if self._lanes is not None:
            self._raise_if_any(self._lanes.run(calls))
            return
        left = iter(calls)
        try:
            for call in left:
                call()
        except Exception as error:
            self._raise(len(calls) - length_hint(left) - 1, error)

    def _in_contest(self, worklist: Worklist, calls: Sequence[Call]) -> None:
        start = perf_counter()
        if self._contest.at_once or not self._tiny:
            self._raise_if_any(worklist.run(calls))
        else:
            self._in_order(calls)
        self._contest.note(perf_counter() - start)

    def _raise_if_any(self, failure: Failure | None) -> None:
        if failure is not None:
            self._raise(failure.position, failure.error)

    def _raise(self, position: int, error: BaseException) -> None:
        op = self._bound.ops[position].desc
        line = f" from {self._locations[op.location - 1]}" if op.location else ""
        match error:
            case NonFinite() if self._nan_watch is not None:
                raise self._nan_watch.explained(position, f"op {op.id} ({op.type}{line})", error) from None
            case ExecutionError():
                raise type(error)(f"op {op.id} ({op.type}{line}): {error}") from None
            case ArithmeticError() | ValueError():  # Python's own arithmetic, on numbers that only a step knows
                raise ExecutionError(f"op {op.id} ({op.type}{line}): it cannot be computed: {error}") from error
            case Exception() if namespace_of(op.type):
                raise plugin_failed(f"op {op.id} ({op.type}{line})", error) from error
            case _:
                raise error

    def _fetch_copies(
        self, block: pb.BlockDesc, more: Sequence[str], memory: Callable[[int], Array]
    ) -> tuple[list[Call], list[Call]]:
        """Copies of fetched states, made before a step's ops, and of all other fetches, made after them."""
        of_state = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
        wanted = {fetch.name: fetch.tensor for fetch in block.fetches} | {name: name for name in more}
        types = {tensor.name: type_of(tensor) for tensor in block.tensors}
        before: list[Call] = []
        after: list[Call] = []
        for name, tensor in wanted.items():
            source = self._bound.arrays[tensor]
            self.fetches[name], copy = conversion(source, given_dtype(types[tensor].dtype), memory)
            (before if tensor in of_state else after).append(copy)
        return before, after

    def _learn(self) -> None:
        """After the last trial it is known what is worth a thread."""
        seconds = self._watch().seconds()
        self._shortest = list(map(min, self._shortest, seconds))
        self._trials_left -= 1
        if not self._trials_left:
            tasks = tasks_of(dependencies(self._bound.touched()), self._shortest, self._threads, tiny=self._tiny)
            self._worklist = None if tasks is None else Worklist(tasks, self._threads)

    def _watch(self) -> Stopwatch:
        if self._stopwatch is None:
            known = {} if self._lanes is None else {self._lanes.transfer_thread: TRANSFERS}
            self._stopwatch = Stopwatch(self._calls, known)
        return self._stopwatch


def _update_copies(
    block: pb.BlockDesc, arrays: dict[str, Array], states: dict[str, Array], memory: Callable[[int], Array]
) -> list[Call]:
    """The updates that no op has made in place.

    A source may lie in the memory of another state: it is a state itself, or was written over one. If that state is
    copied to as well, the source is read before.
    """
    pairs = [(states[update.state], arrays[update.tensor]) for update in block.updates]
    pairs = [(state, source) for state, source in pairs if state.ctypes.data != source.ctypes.data or not state.size]
    written = {state.ctypes.data for state, _ in pairs if state.size}
    early: list[Call] = []
    late: list[Call] = []
    for state, source in pairs:
        if source.size and source.ctypes.data in written:
            copy = view(memory(source.nbytes), 0, array_type(source))
            early.append(partial(np.copyto, copy, source))
            source = copy
        late.append(partial(np.copyto, state, source))
    return early + late
