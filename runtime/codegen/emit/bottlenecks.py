"""Groups of an inverted bottleneck: three convolutions, and pointwise nodes behind each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.codegen.emit.body import Body
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.conv.bottleneck import Bottleneck, Parts
from runtime.codegen.kernels.nest import Steps
from runtime.codegen.lowering.bottlenecks import shape_of_convolution
from runtime.codegen.lowering.nodes import Node
from runtime.codegen.lowering.task import Task
from runtime.codegen.machine import Target
from runtime.codegen.rules import Loops, Stages, Work


def bottleneck_stages(target: Target, task: Task) -> Stages:
    """A group whose nodes before its convolution are those of two others."""
    first, second, last = _convolutions(task)
    element = DTYPES[task.types[last[0].outputs[0]].dtype]

    def parts(work: Work) -> Parts:
        def between(nodes: Sequence[Node], wanted: str) -> Callable[[Value, Index, Index, int], Value]:
            through = _Through(work, task, nodes, ())
            return lambda x, place, channel, count: through.vector(x, place, channel, count)[wanted]

        result = _Through(work, task, last, task.stored)

        def finish(x: Value, place: Index, channel: Index, count: int) -> None:
            result.vector(x, place, channel, count)

        a, b, c = (work.places[nodes[0].inputs[1]] for nodes in (first, second, last))
        source = work.places[first[0].inputs[0]]
        widened, filtered = between(first, second[0].inputs[0]), between(second, last[0].inputs[0])
        return Parts(source, (a, b, c), widened, filtered, finish)

    shapes = [shape_of_convolution(nodes[0], task.types) for nodes in (first, second, last)]
    steady = all(nodes[0].inputs[1] in task.steady for nodes in (first, second, last))
    return Bottleneck(target, element, (shapes[0], shapes[1], shapes[2]), steady=steady).stages(parts)


def _convolutions(task: Task) -> list[list[Node]]:
    """Each convolution with the nodes behind it."""
    found: list[list[Node]] = []
    for node in (*task.group.before, *task.group.nodes):
        if isinstance(node.form, Loops):
            found.append([])
        found[-1].append(node)
    return found


class _Through:
    """What becomes of a vector of a convolution's result."""

    def __init__(self, work: Work, task: Task, nodes: Sequence[Node], stored: Sequence[str]) -> None:
        convolution, *nodes = nodes
        [self.result] = convolution.outputs
        domain = task.types[self.result].static_shape
        self.body = Body(work.f, nodes, task.types, stored, work.places, task.constants, convolution.outputs)
        names = {name for node in nodes for name in (*node.inputs, *node.outputs) if name} | {self.result}
        self.steps: dict[str, Steps] = {
            name: (domain[-1] if task.types[name].static_shape == domain else 0, 1) for name in names
        }

    def vector(self, x: Value, place: Index, channel: Index, count: int) -> dict[str, Value]:
        """The values of all nodes."""
        return self.body.at(self.steps, [place, channel], x.type.lanes, count, {self.result: x})
