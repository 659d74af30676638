"""A check of every op of a step for NaN and Inf, before the step itself runs.

Fusion and decompositions add in another order than unfused ops, so a step of unfused ops has other bits. `--check-nan`
therefore runs both. The ops run first, one by one, in memory of their own: they read the states and feeds of the step
and change no state. If all results are finite, the step runs as it does without `--check-nan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from prograd_proto import program_pb2 as pb
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
        compiled: CompiledStep,
        start: StepStart,
        feeds: Mapping[str, tuple[Array, Array]],
        locations: Sequence[str],
        helpers: Helpers,
    ) -> None:
        """Keep the parts of the step.

        `compiled` is instrumented; `feeds` are by name the array of the step itself and the one that is read here.
        """
        self._compiled, self._locations = compiled, locations
        self._feeds = list(feeds.values())
        self._watch = NanWatch(_ops(compiled, helpers), start)

    def __call__(self) -> None:
        """Run all ops; raise NonFinite at the first one that makes NaN or Inf, with its operands."""
        for given, here in self._feeds:
            np.copyto(here, given)
        self._watch.start.keep()
        with np.errstate(all="ignore"):
            for i in range(self._compiled.code.group_count):
                self._look_at(i)

    def _look_at(self, position: int) -> None:
        try:
            self._watch.calls[position]()
        except CheckFailed as refused:
            raise_named(refused.error, refused.op, self._locations)
        except Exception as error:
            explain = partial(self._watch.explained, position)
            raise_named(error, _op_of(self._compiled, position), self._locations, explain)


def _op_of(compiled: CompiledStep, group: int) -> pb.OpDesc:
    """Return the op of a group of an instrumented step, which has no other."""
    [op] = compiled.code.ops_of(group)
    return compiled.block.ops[op]


def _ops(compiled: CompiledStep, helpers: Helpers) -> list[WatchedOp]:
    """Return the ops of an instrumented step, with the arrays that they read and write."""

    def run(segment: Segment) -> None:
        with helpers.helping(compiled.driver):
            compiled.run(segment)

    ops: list[WatchedOp] = []
    for group, segment in enumerate(compiled.group_segments):
        op, arrays = _op_of(compiled, group), compiled.arrays
        inputs = [arrays[name] for name in op.inputs if name]
        ops.append(WatchedOp(op, partial(run, segment), inputs, [arrays[name] for name in op.outputs]))
    return ops
