"""Many steps in one call: compiled code takes the rows of each step and keeps its results.

This is for steps that are compiled as a whole, with rows in memory: no op is left to NumPy, every state is updated in
place, and no fetch needs a conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.codegen.actions import PAUSE
from runtime.codegen.code import CHUNK_COLUMNS, NativeCode
from runtime.codegen.lowering.chunks import in_order
from runtime.dtypes import Array
from runtime.engines.around_step import AroundStep
from runtime.engines.engine import InMemory
from runtime.engines.native.driver import Driver
from runtime.engines.native.row_input import row_input
from runtime.engines.native.step import CompiledStep


def repeated_steps(
    compiled: CompiledStep, around: AroundStep, rows: InMemory, fetches: Sequence[str]
) -> RepeatedSteps | None:
    """Return steps with these rows that keep these fetches; None if each step must be run by itself."""
    code = compiled.code
    if not code.is_one_segment or code.late_updates or around.before:
        return None
    if _may_take_long(code):
        return None  # nothing could end it
    if not fetches and code.runtime_checks:
        return None  # nothing would tell the number of steps
    raw = compiled.unconverted_fetches(around.fetches)
    if not {*fetches} <= raw.keys() & dict(code.copied_fetches).keys():
        return None
    sources = {name: rows.columns.get(name, rows.whole.get(name)) for name in around.feeds}
    if not all(_fits(source, around.feeds[name]) for name, source in sources.items()):
        return None
    return RepeatedSteps(compiled, around, rows, {name: raw[name] for name in fetches})


def _may_take_long(code: NativeCode) -> bool:
    """Return True if a loop in a step may take so long that signals must be looked for."""
    return bool(((code.actions[:, 0] == PAUSE) & (code.actions[:, 4] != 0)).any())


def _fits(source: Array | None, feed: Array) -> bool:
    return source is not None and source.dtype == feed.dtype and source.flags.c_contiguous


class RepeatedSteps:
    """Steps of one executor with fixed rows; `driver` makes them."""

    def __init__(self, compiled: CompiledStep, around: AroundStep, rows: InMemory, raw: Mapping[str, Array]) -> None:
        self._after, self._runtime_checks = around.after, compiled.runtime_checks
        self._raw = {name: (array, array.ctypes.data, array.nbytes) for name, array in raw.items()}
        self._position = np.zeros(1, np.int64)
        self._at = self._position.ctypes.data
        self._batch = next((len(around.feeds[name]) for name in around.feeds if name in rows.columns), 0)
        self._count = compiled.code.phase_count
        self.driver = self._driver_of(compiled, around.feeds, rows)

    def __call__(self, first: int, count: int) -> Mapping[str, Array]:
        """See `runtime.engines.engine.Repeat`."""
        kept = {name: np.empty((count, *array.shape), array.dtype) for name, (array, _, _) in self._raw.items()}
        words = [count, self._at, self._batch, len(kept)]
        for name, (_, address, size) in self._raw.items():
            words += address, kept[name].ctypes.data, size
        self._position[0] = first
        table = np.array(words, np.int64)
        self.driver.repeat(0, self._count + 1, table)
        self._runtime_checks.clear()
        for call in self._after:
            call()
        return {name: values[: table[0]] for name, values in kept.items()}

    def _driver_of(self, compiled: CompiledStep, feeds: Mapping[str, Array], rows: InMemory) -> Driver:
        """Return a driver whose first phase takes the rows."""
        taken = row_input(compiled.code, compiled.words, feeds, rows, self._position, self._batch)
        records = in_order(taken.steps)
        phases, chunks = compiled.driver.phases[: self._count], compiled.driver.chunks.copy()
        chunks[:, 1] += taken.words.ctypes.data - compiled.words.ctypes.data
        has_chunks = phases[:, 1:] >= 0
        shifted = np.concatenate([[[0, len(records)]], phases + has_chunks * np.array([len(records), 0])])
        first = np.array([(*record, 0) for record in records], np.int64).reshape(-1, CHUNK_COLUMNS)
        tables = np.ascontiguousarray(shifted, np.int64), np.concatenate([first, chunks])
        alarm = compiled.runtime_checks.words
        actions = np.ascontiguousarray(compiled.code.actions)
        alive = taken, rows, compiled
        return Driver(compiled.code.target, compiled.driver.threads, *tables, alarm, alive, actions, taken.words)
