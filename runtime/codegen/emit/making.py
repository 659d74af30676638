"""Groups whose convolution makes its first operand where it copies it: pointwise nodes go before what is copied."""

from __future__ import annotations

from runtime.codegen.emit.body import Body
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.nest import Steps
from runtime.codegen.kernels.stages import Made
from runtime.codegen.lowering.task import Task
from runtime.codegen.rules import Stage, Stages, Work


def making(task: Task, stages: Stages) -> Stages:
    """The stages of the convolution, which find its first operand made."""
    return stages._replace(stages=tuple(_making(task, stage) for stage in stages.stages))


def _making(task: Task, stage: Stage) -> Stage:
    def write(work: Work, start: Value, stop: Value) -> None:
        stage.write(work._replace(made=_made(work, task)), start, stop)

    return stage._replace(write=write)


def _made(work: Work, task: Task) -> Made:
    nodes = task.group.before
    result = nodes[-1].outputs[0]
    shape = task.types[result].static_shape
    body = Body(work.f, nodes, task.types, (), work.places, task.constants)
    operands = [name for name in dict.fromkeys(x for node in nodes for x in node.inputs) if name in work.places]
    large = [name for name in operands if task.types[name].static_shape == shape]
    steps: dict[str, Steps] = {name: (shape[-1] if name in large else 0, 1) for name in operands}

    def read(place: Index, channel: Index, count: int) -> Value:
        lanes = work.f.target.lanes(DTYPES[task.types[result].dtype].bits)
        return body.at(steps, [place, channel], lanes, count)[result]

    return Made(read, [work.places[name] for name in large])
