"""The native engine: groups of ops as compiled functions, and NumPy kernels for what has no form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.engines.around_step import Allocate, around_step
from runtime.engines.engine import EngineOptions, Footprint, Unavailable
from runtime.engines.faults import raise_named
from runtime.engines.native import jit
from runtime.engines.native.step import Call, CompiledStep, Lowered, bind_compiled, lowered
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
            (options.threads > 1 or options.schedule == "parallel", "more than one thread"),
        ):
            if asked:
                raise UsageError(f"the engine 'native' does not have {what}; use the engine 'reference'")
        self._program = program
        self._options = options
        self._target = this_machine()

    def needs(self, bound: BoundEntry) -> Footprint:
        """By lowering it."""
        return Footprint(_lowered(bound, (), self._target).memory.arena_bytes)

    def workspace(self) -> NativeWorkspace:
        """A new one."""
        return NativeWorkspace(self._program, self._options, self._target)


class NativeWorkspace:
    """See `runtime.engines.engine.Workspace`."""

    def __init__(self, program: pb.ProgramDesc, options: EngineOptions, target: Target) -> None:
        self._program, self._target = program, target
        self._room = Room(options.memory)

    @property
    def footprint(self) -> Footprint:
        """The arena and all copies."""
        return Footprint(self._room.arena_bytes, copies=self._room.copy_bytes)

    def prepare(self, bound: BoundEntry, states: Mapping[str, Array], fetch: Sequence[str]) -> NativeExecutor:
        """Lower, compile and bind the entry."""
        step = _lowered(bound, fetch, self._target)
        compiled = bind_compiled(step, states, self._room.arena(step.memory.arena_bytes))
        return NativeExecutor(self._program.locations, bound, step, compiled, states, fetch, self._room.copies)

    def close(self) -> None:
        """There are no threads."""


class NativeExecutor:
    """See `runtime.engines.engine.Executor`."""

    def __init__(
        self,
        locations: Sequence[str],
        bound: BoundEntry,
        step: Lowered,
        compiled: CompiledStep,
        states: Mapping[str, Array],
        fetch: Sequence[str],
        copies: Allocate,
    ) -> None:
        """`locations` are the lines that ops name."""
        self._locations, self._compiled, self._groups, self._lowered = locations, compiled, step.groups, step
        around = around_step(bound.block, compiled.arrays, states, fetch, copies)
        self.feeds, self.fetches, self._before, self._after = around
        self.parts = [Part(group.name, tuple(node.op for node in group.nodes)) for group in step.groups]
        self.footprint = Footprint(step.memory.arena_bytes)
        self.warm_up = 1

    @property
    def buffers(self) -> list[Buffer]:
        """Worked out for who asks: only `profile` does."""
        return _buffers(self._lowered)

    def step(self) -> None:
        """Call everything once."""
        self._make(self._compiled.whole)

    def profile_step(self) -> list[Spell]:
        """A step, with the time that each group took."""
        spells: list[Spell] = []

        def timed(part: int, call: Call) -> Call:
            def timed_call() -> None:
                start = perf_counter()
                call()
                spells.append(Spell(part, start, perf_counter(), 0))

            return timed_call

        self._make([(i, timed(i, call)) for i, call in enumerate(self._compiled.calls)])
        return spells

    def close(self) -> None:
        """There is nothing to end."""

    def _make(self, calls: Sequence[tuple[int, Call]]) -> None:
        i = 0
        with np.errstate(all="ignore"):
            for call in self._before:
                call()
            try:
                for i, call in calls:  # noqa: B007  # the position of the one that fails is read below
                    call()
            except Exception as error:
                raise_named(error, self._groups[i].nodes[-1].op, self._locations)
            for call in self._after:
                call()


def _lowered(bound: BoundEntry, fetch: Sequence[str], target: Target) -> Lowered:
    if any(spills(op.type) for op in bound.block.ops):
        raise UsageError("the engine 'native' does not move values to a file and back yet; use the engine 'reference'")
    return lowered(bound.block, fetch, target)


def _buffers(step: Lowered) -> list[Buffer]:
    end, result = 2 * len(step.groups), list[Buffer]()
    for buffer in step.memory.buffers:
        parts = [
            i
            for i, group in enumerate(step.groups)
            if buffer.name in group.reads or buffer.name in group.makes or buffer.name.endswith(f" of group {i}")
        ]
        result.append(Buffer(buffer.name, aligned(buffer.nbytes), parts, buffer.start == 0, buffer.stop > end))
    return result
