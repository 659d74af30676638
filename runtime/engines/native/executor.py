"""A bound entry, ready to step: segments of compiled code and host ops, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from runtime.dtypes import Array
from runtime.engines.around_step import AroundStep
from runtime.engines.engine import Footprint, InMemory, Repeat
from runtime.engines.faults import raise_named
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.lowering.memory import scratch_names
from runtime.engines.native.refusals import Refused
from runtime.engines.native.step import Call, CompiledStep, Lowered, Segment
from runtime.engines.parts import Buffer, Part, Spell
from runtime.placement.alignment import aligned

if TYPE_CHECKING:
    from runtime.engines.nan_watch import NanWatch, WatchedOp


class NativeExecutor:
    """See `runtime.engines.engine.Executor`."""

    def __init__(
        self,
        locations: Sequence[str],
        step: Lowered,
        compiled: CompiledStep,
        around: AroundStep,
        helpers: Helpers,
        watch: NanWatch | None = None,
        steady: Callable[[Call], None] | None = None,
    ) -> None:
        """`locations` are the lines that ops name; a watch has a call for every group.

        `steady` is called before a step, with what makes all that is prepacked, which it calls if that is not there.
        """
        self._locations, self._compiled, self._lowered, self._helpers = locations, compiled, step, helpers
        self._watch, self._steady = watch, steady
        self._around = around
        self.feeds, self.fetches, before, self._after, _ = around
        self._before = before if watch is None else [watch.start.keep, *before]
        self._is_one_call = watch is None and _is_one_call(step, compiled, around)
        self.parts = [Part(f"{group.name}{' by NumPy' * group.is_host}", tuple(group.ops)) for group in step.groups]
        memory = step.memory
        self.footprint = Footprint(memory.arena_bytes, memory.file_bytes, packed=memory.packed_bytes)
        self.warm_up = 1

    @property
    def buffers(self) -> list[Buffer]:
        """Worked out for who asks: only `profile` does."""
        return _buffers(self._lowered)

    def step(self) -> None:
        """Make all segments."""
        if self._is_one_call:
            self._call()
        elif self._watch is None:
            self._make(self._compiled.segments, self._compiled.run)
        else:
            self._make(self._compiled.alone, self._watched)

    def profile_step(self) -> list[Spell]:
        """A step, group by group, with the time that each took."""
        spells: list[Spell] = []

        def timed(segment: Segment) -> None:
            start = perf_counter()
            self._compiled.run(segment)
            spells.append(Spell(segment.first, start, perf_counter(), 0))

        self._make(self._compiled.alone, timed)
        return spells

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        """If all of a step is compiled; see `runtime.engines.native.repeat`."""
        if self._watch is not None:
            return None
        from runtime.engines.native.repeat import repeated

        found = repeated(self._lowered, self._compiled, self._around, rows, fetches)
        if found is None:
            return None

        def steps(first: int, count: int) -> Mapping[str, Array]:
            with self._helpers.helping(found.driver):
                return found(first, count)

        return steps

    def close(self) -> None:
        """There is nothing to end."""

    def _prepack(self) -> None:
        with self._helpers.helping(self._compiled.driver):
            self._compiled.prepack()

    def _watched(self, segment: Segment) -> None:
        assert self._watch is not None, "only a watched step is made so"
        self._watch.calls[segment.first]()

    def _call(self) -> None:
        """Make the only segment, around which NumPy computes nothing: as `_make` does, in half the time."""
        for call in self._before:
            call()
        if self._steady is not None:
            self._steady(self._prepack)
        [segment], compiled = self._compiled.segments, self._compiled
        with self._helpers.helping(compiled.driver):
            compiled.driver.drive(*segment.phases)
        if compiled.refusals.any:
            self._named(segment, partial(compiled.refusals.say, compiled.groups, compiled.arrays))
        for call in self._after:
            call()

    def _make(self, segments: Sequence[Segment], run: Callable[[Segment], None]) -> None:
        with np.errstate(all="ignore"):
            for call in self._before:
                call()
            if self._steady is not None:
                self._steady(self._prepack)
            for segment in segments:
                with self._helpers.helping(self._compiled.driver):
                    self._named(segment, partial(run, segment))
            for call in self._after:
                call()

    def _named(self, segment: Segment, run: Call) -> None:
        """Run it; an error names the op."""
        try:
            run()
        except Refused as refused:
            raise_named(refused.error, refused.op, self._locations)
        except Exception as error:
            explain = None if self._watch is None else partial(self._watch.explained, segment.first)
            raise_named(error, self._lowered.groups[segment.first].nodes[-1].op, self._locations, explain)


def _is_one_call(step: Lowered, compiled: CompiledStep, around: AroundStep) -> bool:
    """Whether all is one segment of compiled code, and what is fetched is copied as it is."""
    tensors = {fetch.name: fetch.tensor for fetch in step.nodes.block.desc.fetches}
    alike = (compiled.arrays[tensors.get(name, name)].dtype == array.dtype for name, array in around.fetches.items())
    return len(compiled.segments) == 1 and compiled.segments[0].host is None and all(alike)


def watched_ops(step: Lowered, compiled: CompiledStep) -> list[WatchedOp]:
    """The ops of a step that was lowered to be watched, with the arrays that they read and write."""
    from runtime.engines.nan_watch import WatchedOp

    ops: list[WatchedOp] = []
    for group, segment in zip(step.groups, compiled.alone, strict=True):
        op, arrays = group.nodes[0].op, compiled.arrays
        inputs = [arrays[name] for name in op.inputs if name]
        ops.append(WatchedOp(op, partial(compiled.run, segment), inputs, [arrays[name] for name in op.outputs]))
    return ops


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
