"""Groups that begin with a convolution: vectors of its result go through the pointwise nodes before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runtime.codegen.costs import ELEMENT_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Node
from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.nest import Strides
from runtime.codegen.rules import KernelContext, KernelSteps


def with_epilogue(kernel: GroupKernel, steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of the convolution with the epilogue in the last one, which computes the result."""
    *before, last = steps.steps

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        through = ConvolutionEpilogue(context, kernel, kernel.group.nodes, kernel.stored)
        last.write(context._replace(finish=through.vector), start, stop)

    cost = last.cost + prod(kernel.group.domain) * len(kernel.group.nodes) * ELEMENT_CYCLES
    return steps._replace(steps=(*before, last._replace(write=write, cost=cost)))


class ConvolutionEpilogue:
    """A convolution's pointwise nodes, through which vectors of its result go."""

    def __init__(
        self, context: KernelContext, kernel: GroupKernel, nodes: Sequence[Node], stored: Sequence[str]
    ) -> None:
        """Prepare the nodes, of which the first is the convolution; `stored` are the tensors that are written."""
        convolution, *nodes = nodes
        [self.result] = convolution.outputs
        domain = kernel.types[self.result].static_shape
        self.body = body_of(context, kernel, nodes, stored, convolution.outputs)
        names = dict.fromkeys(
            [self.result, *(name for node in nodes for name in (*node.inputs, *node.outputs) if name)]
        )
        self.steps: dict[str, Strides] = {
            name: (domain[-1] if kernel.types[name].static_shape == domain else 0, 1) for name in names
        }

    def vector(self, x: Value, index: Index, channel: Index, count: int) -> dict[str, Value]:
        """Return the values of all nodes; see `FinishVector`."""
        return self.body.at(self.steps, [index, channel], x.type.lanes, count, {self.result: x})
