"""Groups that begin with a convolution: its finished vectors go through the pointwise nodes before they are written."""

from __future__ import annotations

from math import prod

from runtime.codegen.emit.body import Body
from runtime.codegen.emit.elements import NANOSECONDS
from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.nest import Steps
from runtime.codegen.lowering.task import Task
from runtime.codegen.rules import Stages, Work


def finished(task: Task, stages: Stages) -> Stages:
    """The stages of the convolution, of which the last computes its result."""
    *before, last = stages.stages

    def write(work: Work, start: Value, stop: Value) -> None:
        last.write(work._replace(finish=_Finishing(work, task).vector), start, stop)

    cost = last.cost + prod(task.group.domain) * len(task.group.nodes) * NANOSECONDS
    return stages._replace(stages=(*before, last._replace(write=write, cost=cost)))


class _Finishing:
    """What becomes of a vector of the result."""

    def __init__(self, work: Work, task: Task) -> None:
        convolution, *nodes = task.group.nodes
        self.result = convolution.outputs[0]
        given = convolution.outputs
        self.body = Body(work.f, nodes, task.types, task.stored, work.places, task.constants, given)
        channels = task.group.domain[-1]
        self.steps: dict[str, Steps] = {
            name: (channels if task.types[name].static_shape == task.group.domain else 0, 1)
            for name in {*task.table, *task.stored}
        }

    def vector(self, x: Value, place: Index, channel: Index, count: int) -> None:
        """See `Finish`."""
        self.body.at(self.steps, [place, channel], x.type.lanes, count, {self.result: x})
