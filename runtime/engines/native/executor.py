"""A bound entry, ready to step: segments of compiled code and host ops, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter

import numpy as np

from runtime.dtypes import Array
from runtime.engines.around_step import AroundStep
from runtime.engines.engine import Footprint, InMemory, Repeat
from runtime.engines.faults import raise_named
from runtime.engines.native.feeds_in_place import FeedsInPlace
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.runtime_checks import CheckFailed
from runtime.engines.native.step import Call, CompiledStep, Segment
from runtime.engines.parts import Buffer, Part, Spell, TimeInBlocks, TimesInBlocks


class NativeExecutor:
    """See `runtime.engines.engine.Executor`."""

    def __init__(
        self,
        locations: Sequence[str],
        compiled: CompiledStep,
        around: AroundStep,
        helpers: Helpers,
        watch: Call | None,
        require_prepacked: Callable[[Call], None] | None,
        owned: Sequence[Array],
    ) -> None:
        """Keep the parts of the step.

        `locations` are the lines that ops name. `watch` is called before each step, with the feeds of the step. `owned`
        is the memory that steps may write. `require_prepacked` is called before a step with a function that prepacks,
        and calls it if nothing is prepacked.
        """
        self._locations, self._compiled, self._helpers = locations, compiled, helpers
        self._watch, self._require_prepacked = watch, require_prepacked
        self._around = around
        self.feeds, self.fetches, before, self._after = around
        self._before = before if watch is None else [watch, *before]
        converts = compiled.unconverted_fetches(around.fetches).keys() != around.fetches.keys()
        self._is_one_call = watch is None and compiled.code.is_one_segment and not converts
        self._led: FeedsInPlace | None = None
        self._owned = owned
        code = compiled.code
        self.footprint = Footprint(code.arena_bytes, code.file_bytes, packed=code.packed_bytes)

    @property
    def parts(self) -> list[Part]:
        """The groups, listed when `profile` asks for them."""
        code, ops = self._compiled.code, self._compiled.block.ops
        hosted = {host.group for host in code.hosts}
        groups = (tuple(ops[i] for i in code.ops_of(group)) for group in range(code.group_count))
        return [
            Part("+".join(op.type for op in of_group) + " by NumPy" * (i in hosted), of_group)
            for i, of_group in enumerate(groups)
        ]

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of the arena, listed when `profile` asks for them."""
        return [Buffer(*buffer) for buffer in self._compiled.code.group_buffers()]

    def step(self) -> None:
        """Run all segments."""
        if self._is_one_call:
            self._call()
        else:
            self._make(self._compiled.segments, self._compiled.run)

    def step_with(self, feeds: Mapping[str, Array]) -> None:
        """Run all segments; if all is one call of compiled code, it reads feeds in place."""
        if not self._is_one_call:
            for name, out in self.feeds.items():
                out[...] = feeds[name]
            self.step()
            return
        if self._led is None:
            self._led = FeedsInPlace(self._compiled, self.feeds, self._owned)
        led = self._led.lead(feeds)
        try:
            self._call(partial(self._led.arrays, feeds, led))
        finally:
            self._led.end(led)

    def profile_step(self) -> list[Spell]:
        """Run a step group by group, and return the time of each."""
        spells: list[Spell] = []

        def timed(segment: Segment) -> None:
            start = perf_counter()
            self._compiled.run(segment)
            spells.append(Spell(segment.first, start, perf_counter(), 0))

        self._make(self._compiled.group_segments, timed)
        return spells

    def profile_blocks(self) -> list[TimeInBlocks]:
        """Run a step phase by phase, and return the times of the groups in blocks inside ops."""
        from runtime.engines.native.profile_blocks import timed_blocks

        times = TimesInBlocks()
        self._make(self._compiled.group_segments, partial(timed_blocks, self._compiled, times))
        return times.result()

    def repeated(self, rows: InMemory, fetches: Sequence[str]) -> Repeat | None:
        """Return a function for many steps, if a step is compiled as a whole; see `repeated_steps`."""
        if self._watch is not None:
            return None
        from runtime.engines.native.repeated_steps import repeated_steps

        found = repeated_steps(self._compiled, self._around, rows, fetches)
        if found is None:
            return None

        def steps(first: int, count: int) -> Mapping[str, Array]:
            with self._helpers.helping(found.driver):
                return found(first, count)

        return steps

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def _prepack(self) -> None:
        with self._helpers.helping(self._compiled.driver):
            self._compiled.prepack()

    def _call(self, arrays: Callable[[], Mapping[str, Array]] | None = None) -> None:
        """Run the only segment, with no NumPy ops around it: as `_make` does, in half the time.

        `arrays` returns those of all tensors, if they are not those of the compiled step.
        """
        for call in self._before:
            call()
        if self._require_prepacked is not None:
            self._require_prepacked(self._prepack)
        [segment], compiled = self._compiled.segments, self._compiled
        with self._helpers.helping(compiled.driver):
            compiled.driver.drive(*segment.phases)
        if compiled.runtime_checks.any_failed:
            read = compiled.arrays if arrays is None else arrays()
            self._named(segment, partial(compiled.runtime_checks.raise_error, read))
        for call in self._after:
            call()

    def _make(self, segments: Sequence[Segment], run: Callable[[Segment], None]) -> None:
        with np.errstate(all="ignore"):
            for call in self._before:
                call()
            if self._require_prepacked is not None:
                self._require_prepacked(self._prepack)
            for segment in segments:
                with self._helpers.helping(self._compiled.driver):
                    self._named(segment, partial(run, segment))
            for call in self._after:
                call()

    def _named(self, segment: Segment, run: Call) -> None:
        """Run it; errors name the op."""
        try:
            run()
        except CheckFailed as refused:
            raise_named(refused.error, refused.op, self._locations)
        except Exception as error:
            last = self._compiled.code.ops_of(segment.first)[-1]
            raise_named(error, self._compiled.block.ops[last], self._locations)
