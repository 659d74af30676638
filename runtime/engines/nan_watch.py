"""The search for NaN and Inf in every output of a step, and for the op that made the first one.

An op may overwrite its inputs and states. So the states that a step changes and the feeds are copied before the step.
When an output is bad, the step is recomputed from the copies up to that op, and the inputs of the op are examined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.conversion import converted
from runtime.dtypes import BFLOAT16, Array, count_nonfinite, is_float
from runtime.engines.step_start import StepStart
from runtime.errors import NonFinite

SHOWN = 3
"""Number of inputs whose values an error message describes."""


Call = Callable[[], object]


class WatchedOp(NamedTuple):
    """An op, the call that computes it, and the arrays that it reads and writes, without absent ones."""

    desc: pb.OpDesc
    call: Call
    inputs: Sequence[Array]
    outputs: Sequence[Array]


class NanWatch:
    """The ops of one bound entry, each followed by a check of its outputs.

    Attributes:
        start: copies of the states and feeds at the start of the step.
        calls: the calls that replace the ops' own.
    """

    def __init__(self, ops: Sequence[WatchedOp], start: StepStart) -> None:
        self.start = start
        self.calls = [watched(op) for op in ops]
        self._ops = ops

    def explained(self, position: int, where: str, error: NonFinite) -> NonFinite:
        """Return the error of the op at that position with a description of its inputs.

        States and feeds afterwards hold what they held before the step.
        """
        self.start.bring_back()
        for op in self._ops[:position]:
            op.call()
        op = self._ops[position].desc
        names = [name for name in op.inputs if name]
        read = [_described(n, a) for n, a in dict(zip(names, self._ops[position].inputs, strict=True)).items()]
        more = f", and {len(read) - SHOWN} more inputs" if len(read) > SHOWN else ""
        inputs = f"; it reads {', '.join(read[:SHOWN])}{more}" if read else ""
        self.start.bring_back()
        return NonFinite(f"{where}: {error}{inputs}", self.start.failed_step())


def watched(op: WatchedOp) -> Call:
    """Return the call of an op, followed by a check of its outputs."""
    floats = [(name, a) for name, a in zip(op.desc.outputs, op.outputs, strict=True) if is_float(a)]

    def call() -> None:
        op.call()
        for name, array in floats:
            bad = count_nonfinite(array)
            if bad:
                raise NonFinite(f"%{name} has {bad} of {array.size} elements that are NaN or Inf")

    return call


def _described(name: str, array: Array) -> str:
    """Return the range of an array as in `%x in [-0.5, 3]`.

    The text has the number of elements that are NaN or infinite, if there are any.
    """
    if not array.size:
        return f"%{name} of no elements"
    if not is_float(array):
        return f"%{name} in [{_shown(array.min())}, {_shown(array.max())}]"
    wide = converted(array, "float32") if array.dtype == BFLOAT16 else array
    finite = np.isfinite(wide)
    bad = wide.size - int(np.count_nonzero(finite))
    if bad == wide.size:
        return f"%{name} of only NaN or Inf"
    low, high = (_shown(f(wide, where=finite, initial=end)) for f, end in ((np.min, np.inf), (np.max, -np.inf)))
    return f"%{name} in [{low}, {high}]" + (f" with {bad} of {wide.size} NaN or Inf" if bad else "")


def _shown(number: np.generic) -> str:
    return f"{float(number):.6g}" if number.dtype.kind == "f" else str(number)
