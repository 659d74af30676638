"""The native engine: groups of ops as compiled functions, and NumPy kernels for what has no form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.engines.around_step import AroundStep, around_step
from runtime.engines.engine import EngineOptions, Footprint, Unavailable
from runtime.engines.faults import raise_named
from runtime.engines.native import jit
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.lowering.memory import scratch_names
from runtime.engines.native.step import CompiledStep, Lowered, Segment, bind_compiled, lowered
from runtime.engines.native.target import Target, this_machine
from runtime.engines.parts import Buffer, Part, Spell
from runtime.engines.room import Room
from runtime.entries import BoundEntry
from runtime.errors import UsageError
from runtime.placement.alignment import aligned
from runtime.step import spills


class NativeEngine:
    """See `runtime.engines.engine.Engine`."""

    name = "native"
    math = "exact"

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions) -> None:
        """Raises Unavailable where nothing can be compiled, UsageError for what it does not have."""
        reason = jit.unavailable()
        if reason is not None:
            raise Unavailable(reason)
        for asked, what in (
            (options.math != "exact", f"the math {options.math!r}"),
            (options.check_nan, "a watch for NaN"),
        ):
            if asked:
                raise UsageError(f"the engine 'native' does not have {what}; use the engine 'reference'")
        self._program = program
        self._options = options
        self._target = this_machine()

    def needs(self, bound: BoundEntry) -> Footprint:
        """By lowering it."""
        return Footprint(_lowered(bound, (), self._target, self._options.threads).memory.arena_bytes)

    def workspace(self) -> NativeWorkspace:
        """A new one."""
        return NativeWorkspace(self._program, self._options, self._target)


class NativeWorkspace:
    """See `runtime.engines.engine.Workspace`."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions, target: Target) -> None:
        self._program, self._target, self._threads = program, target, options.threads
        self._room = Room(options.memory)
        self._helpers = Helpers(options.threads - 1)

    @property
    def footprint(self) -> Footprint:
        """The arena and all copies."""
        return Footprint(self._room.arena_bytes, copies=self._room.copy_bytes)

    def prepare(self, bound: BoundEntry, states: Mapping[str, Array], fetch: Sequence[str]) -> NativeExecutor:
        """Lower, compile and bind the entry."""
        step = _lowered(bound, fetch, self._target, self._threads)
        arena = self._room.arena(step.memory.arena_bytes)
        compiled = bind_compiled(step, states, arena, self._program.name)
        around = around_step(bound.block, compiled.arrays, states, fetch, self._room.copies)
        return NativeExecutor(self._program.locations, step, compiled, around, self._helpers)

    def close(self) -> None:
        """End the threads that help."""
        self._helpers.close()


class NativeExecutor:
    """See `runtime.engines.engine.Executor`."""

    def __init__(
        self, locations: Sequence[str], step: Lowered, compiled: CompiledStep, around: AroundStep, helpers: Helpers
    ) -> None:
        """`locations` are the lines that ops name."""
        self._locations, self._compiled, self._lowered, self._helpers = locations, compiled, step, helpers
        self.feeds, self.fetches, self._before, self._after = around
        self.parts = [Part(group.name, tuple(node.op for node in group.nodes)) for group in step.groups]
        self.footprint = Footprint(step.memory.arena_bytes)
        self.warm_up = 1

    @property
    def buffers(self) -> list[Buffer]:
        """Worked out for who asks: only `profile` does."""
        return _buffers(self._lowered)

    def step(self) -> None:
        """Make all segments."""
        self._make(self._compiled.segments, self._compiled.run)

    def profile_step(self) -> list[Spell]:
        """A step, group by group, with the time that each took."""
        spells: list[Spell] = []

        def timed(segment: Segment) -> None:
            start = perf_counter()
            self._compiled.run(segment)
            spells.append(Spell(segment.first, start, perf_counter(), 0))

        self._make(self._compiled.alone, timed)
        return spells

    def close(self) -> None:
        """There is nothing to end."""

    def _make(self, segments: Sequence[Segment], run: Callable[[Segment], None]) -> None:
        self._helpers.called(self._compiled.driver)
        with np.errstate(all="ignore"):
            for call in self._before:
                call()
            for segment in segments:
                try:
                    run(segment)
                except Exception as error:
                    raise_named(error, self._lowered.groups[segment.first].nodes[-1].op, self._locations)
            for call in self._after:
                call()


def _lowered(bound: BoundEntry, fetch: Sequence[str], target: Target, threads: int) -> Lowered:
    if any(spills(op.type) for op in bound.block.ops):
        raise UsageError("the engine 'native' does not move values to a file and back yet; use the engine 'reference'")
    return lowered(bound.block, fetch, target, threads)


def _buffers(step: Lowered) -> list[Buffer]:
    """What lies in the arena, with the groups that touch it."""
    end, result = step.phases.count, list[Buffer]()
    touched: dict[str, list[int]] = {}
    for i, (group, stored) in enumerate(zip(step.groups, step.memory.stored, strict=True)):
        for name in dict.fromkeys([*group.reads, *stored, *scratch_names(i, len(step.memory.scratch[i]))]):
            touched.setdefault(name, []).append(i)
    for buffer in step.memory.buffers:
        parts = touched.get(buffer.name, [])
        result.append(Buffer(buffer.name, aligned(buffer.nbytes), parts, buffer.start == 0, buffer.stop > end))
    return result
