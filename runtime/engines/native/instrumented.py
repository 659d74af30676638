"""A check of every op of a step for NaN and Inf, before the step itself runs.

Fusion and decompositions add in another order than unfused ops, so a step of unfused ops has other bits. `--check-nan`
therefore runs both. The ops run first, one by one, in memory of their own: they read the states and feeds of the step
and change no state. If all results are finite, the step runs as it does without `--check-nan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from runtime.codegen.lower import Lowered
from runtime.dtypes import Array
from runtime.engines.faults import raise_named
from runtime.engines.nan_watch import NanWatch, WatchedOp
from runtime.engines.native.helpers import Helpers
from runtime.engines.native.runtime_checks import CheckFailed
from runtime.engines.native.step import CompiledStep, Segment
from runtime.engines.step_start import StepStart


class InstrumentedStep:
    """Run the ops of a step one by one."""

    def __init__(
        self,
        step: Lowered,
        compiled: CompiledStep,
        start: StepStart,
        feeds: Mapping[str, tuple[Array, Array]],
        locations: Sequence[str],
        helpers: Helpers,
    ) -> None:
        """`step` is lowered to be watched; `feeds` are by name the array of the step itself and the one read here."""
        self._step, self._locations = step, locations
        self._feeds = list(feeds.values())
        self._watch = NanWatch(_ops(step, compiled, helpers), start)

    def __call__(self) -> None:
        """Run all ops; raises NonFinite at the first one that makes NaN or Inf, with what it reads."""
        for given, here in self._feeds:
            np.copyto(here, given)
        self._watch.start.keep()
        with np.errstate(all="ignore"):
            for i in range(len(self._step.groups)):
                self._look_at(i)

    def _look_at(self, position: int) -> None:
        try:
            self._watch.calls[position]()
        except CheckFailed as refused:
            raise_named(refused.error, refused.op, self._locations)
        except Exception as error:
            explain = partial(self._watch.explained, position)
            raise_named(error, self._step.groups[position].nodes[0].op, self._locations, explain)


def _ops(step: Lowered, compiled: CompiledStep, helpers: Helpers) -> list[WatchedOp]:
    """Return the ops of a step that was lowered to be watched, with the arrays that they read and write."""

    def run(segment: Segment) -> None:
        with helpers.helping(compiled.driver):
            compiled.run(segment)

    ops: list[WatchedOp] = []
    for group, segment in zip(step.groups, compiled.per_group, strict=True):
        op, arrays = group.nodes[0].op, compiled.arrays
        inputs = [arrays[name] for name in op.inputs if name]
        ops.append(WatchedOp(op, partial(run, segment), inputs, [arrays[name] for name in op.outputs]))
    return ops
