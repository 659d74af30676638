"""Groups that begin with a convolution: vectors of its result go through the pointwise nodes before they are stored."""

from __future__ import annotations

from math import prod

from runtime.codegen.costs import ELEMENT_CYCLES
from runtime.codegen.emit.body import body_of
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.ir import Index, Value
from runtime.codegen.kernels.nest import Strides
from runtime.codegen.rules import KernelContext, KernelSteps


def with_epilogue(kernel: GroupKernel, steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of the convolution with the epilogue in the last one, which computes the result."""
    *before, last = steps.steps

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        last.write(context._replace(finish=_Epilogue(context, kernel).vector), start, stop)

    cost = last.cost + prod(kernel.group.domain) * len(kernel.group.nodes) * ELEMENT_CYCLES
    return steps._replace(steps=(*before, last._replace(write=write, cost=cost)))


class _Epilogue:
    """The epilogue nodes that vectors of the result of a convolution go through."""

    def __init__(self, context: KernelContext, kernel: GroupKernel) -> None:
        convolution, *nodes = kernel.group.nodes
        self.result = convolution.outputs[0]
        self.body = body_of(context, kernel, nodes, computed=convolution.outputs)
        channels = kernel.group.domain[-1]
        self.steps: dict[str, Strides] = {
            name: (channels if kernel.types[name].static_shape == kernel.group.domain else 0, 1)
            for name in dict.fromkeys([*kernel.table, *kernel.stored])
        }

    def vector(self, x: Value, index: Index, channel: Index, count: int) -> None:
        """See `FinishVector`."""
        self.body.at(self.steps, [index, channel], x.type.lanes, count, {self.result: x})
