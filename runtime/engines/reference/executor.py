"""The executor of one bound entry: all look-ups and placement happen once, a step then only calls kernels.

Modules that few steps need, for threads, transfers, NaN checks and errors, are imported on use to save start-up time.

bound_step.py   the calls of a step
threads/        the ways to make those of the ops: in order, beside transfers, in phases
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from weakref import finalize

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.dtypes import Array
from runtime.engines.engine import Footprint, InMemory, Repeat
from runtime.engines.parts import TRANSFER_THREAD, Part, Spell, TimeInBlocks, TimesInBlocks
from runtime.engines.reference.bind import Around, Call
from runtime.engines.reference.bound_step import BoundStep, Memory, bind_step
from runtime.engines.reference.threads.in_order import Failure, InOrder, Way
from runtime.entries import BoundEntry
from runtime.step import dependencies, is_transfer
from runtime.step.arithmetic import operations_of
from runtime.step.phases import LARGE, phases_of, shared_phases

if TYPE_CHECKING:
    from runtime.engines.nan_watch import NanWatch
    from runtime.engines.reference.control import Body
    from runtime.engines.reference.threads.stopwatch import Stopwatch


class Manner(NamedTuple):
    """The way to call ops.

    Attributes:
        threads: number of threads that share the ops of phases, if that is worth it.
        large: operations from which an op is worth another thread; None for the usual number, 0 for all ops.
        check_nan: True to check every output.
    """

    threads: int
    large: int | None = None
    check_nan: bool = False


def prepare(
    program: pb.ProgramDesc,
    bound: BoundEntry,
    states: Mapping[str, Array],
    fetch: Sequence[str],
    manner: Manner,
    memory: Memory,
) -> ReferenceExecutor:
    """Place and bind an entry of a checked program; see `runtime.engines.engine.Workspace.prepare`."""
    inside: list[tuple[str, Body]] = []
    around = Around(program.blocks, program.locations, manner.check_nan, inside)
    block = BlockAnalysis(bound.block, around.find)
    large = LARGE if manner.large is None else manner.large
    ways = phases_of(block, manner.threads, large=large)
    step = bind_step(bound, states, fetch, memory, around, ways)
    watch = None
    if manner.check_nan:
        from runtime.engines.nan_watch import NanWatch, WatchedOp
        from runtime.engines.step_start import StepStart

        start = StepStart(program, bound.block, states, step.around.feeds, memory.copies)
        watch = NanWatch([WatchedOp(op.desc, op.call, op.inputs, op.outputs) for op in step.block.ops], start)
    costs: dict[int, int] = {}
    if manner.threads > 1:
        costs = dict(zip([op.id for op in block.ops], operations_of(block), strict=True))
    return ReferenceExecutor(program.locations, step, manner, watch, inside, costs)


class ReferenceExecutor:
    """The executor of the reference engine; see `runtime.engines.engine.Executor`."""

    def __init__(
        self,
        locations: Sequence[str],
        step: BoundStep,
        manner: Manner,
        watch: NanWatch | None,
        inside: Sequence[tuple[str, Body]],
        costs: Mapping[int, int],
    ) -> None:
        """Prepare the calls.

        Args:
            locations: the source lines that ops refer to.
            step: the bound step.
            manner: the way to call ops.
            watch: looks for NaN; None for nothing of that kind.
            inside: the blocks inside ops.
            costs: for several threads, the operations of ops by their numbers.
        """
        self._inside = inside
        self.feeds, self.fetches, before, after = step.around
        self.parts = [Part(op.desc.type, (op.desc,)) for op in step.block.ops]
        self.buffers = step.block.buffers
        self.footprint = Footprint(step.block.arena_bytes, step.block.file_bytes)
        self._bound = step.block
        self._locations = locations
        self._watch = watch
        self._before = before if watch is None else [watch.start.keep, *before]
        self._calls: list[Call] = [op.call for op in step.block.ops] if watch is None else watch.calls
        self._after = after
        self._stopwatch: Stopwatch | None = None
        self._threads: dict[int, int] = {}  # numbers of threads by identity
        self._way = self._chosen(manner, costs)
        finalize(self, self._way.close)

    def step(self) -> None:
        """Call all ops once."""
        self._make(self._calls)

    def step_with(self, feeds: Mapping[str, Array]) -> None:
        """Copy the feeds, and call all ops once."""
        for name, out in self.feeds.items():
            out[...] = feeds[name]
        self.step()

    def profile_step(self) -> list[Spell]:
        """Make a step and return the time that each op took."""
        stopwatch = self._watched()
        self._make(stopwatch.calls)
        return stopwatch.spells()

    def profile_blocks(self) -> list[TimeInBlocks]:
        """Make a step and return the times of the ops in the blocks inside ops."""
        times = TimesInBlocks()
        kept = [[*body.calls] for _, body in self._inside]
        try:
            for owner, body in self._inside:
                body.calls[:] = [
                    call if op.blocks else _timed(call, f"{op.type} in {owner}", times)
                    for op, call in zip(body.ops, body.calls, strict=True)
                ]
            self.step()
        finally:
            for (_, body), calls in zip(self._inside, kept, strict=True):
                body.calls[:] = calls
        return times.result()

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        """Return None: every step is made separately."""
        return None

    def close(self) -> None:
        """End all threads but the caller's; later steps run on that alone."""
        self._way.close()

    def _make(self, calls: Sequence[Call]) -> None:
        with np.errstate(all="ignore"):
            for call in self._before:
                call()
            failure = self._way.run(calls)
            if failure is not None:
                self._raise(failure)
            for call in self._after:
                call()

    def _raise(self, failure: Failure) -> NoReturn:
        from runtime.engines.faults import raise_named

        explain = None if self._watch is None else partial(self._watch.explained, failure.position)
        raise_named(failure.error, self._bound.ops[failure.position].desc, self._locations, explain)

    def _chosen(self, manner: Manner, costs: Mapping[int, int]) -> Way:
        """Return the way to call ops: beside transfers if there are some, else in phases if that is worth it."""
        ops = self._bound.ops
        transfers = [is_transfer(op.desc.type) for op in ops]
        if any(transfers):
            from runtime.engines.reference.threads.lanes import Lanes

            lanes = Lanes(dependencies(self._bound.touched()), transfers)
            self._threads[lanes.transfer_thread] = TRANSFER_THREAD
            return lanes
        if manner.threads == 1:
            return InOrder()
        from runtime.engines.reference.threads.in_phases import InPhases

        large = LARGE if manner.large is None else manner.large
        operations = [costs[op.desc.id] for op in ops]
        phases = shared_phases(dependencies(self._bound.touched()), operations, manner.threads, large=large)
        return InOrder() if phases is None else InPhases(phases)

    def _watched(self) -> Stopwatch:
        if self._stopwatch is None:
            from runtime.engines.reference.threads.stopwatch import Stopwatch

            self._stopwatch = Stopwatch(self._calls, self._threads)
        return self._stopwatch


def _timed(call: Call, name: str, times: TimesInBlocks) -> Call:
    def timed() -> None:
        start = perf_counter()
        call()
        times.add(name, perf_counter() - start)

    return timed
