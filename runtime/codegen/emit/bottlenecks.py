"""Groups of an inverted bottleneck: three convolutions, each followed by pointwise nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.codegen.emit.conv_epilogue import ConvolutionEpilogue
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Node, convolution_of
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.conv.bottleneck import Bottleneck, BottleneckOperands
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel, KernelContext, KernelSteps


def bottleneck_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return the kernel steps of a group whose prologue contains two other convolutions."""
    first, second, last = _convolutions(kernel)
    element = DTYPES[kernel.types[last[0].outputs[0]].dtype]

    def parts(context: KernelContext) -> BottleneckOperands:
        def between(nodes: Sequence[Node], wanted: str) -> Callable[[Value, Index, Index, int], Value]:
            through = ConvolutionEpilogue(context, kernel, nodes, ())
            return lambda x, index, channel, count: through.vector(x, index, channel, count)[wanted]

        result = ConvolutionEpilogue(context, kernel, last, kernel.stored)

        def finish(x: Value, index: Index, channel: Index, count: int) -> None:
            result.vector(x, index, channel, count)

        a, b, c = (context.addresses[nodes[0].inputs[1]] for nodes in (first, second, last))
        source = context.addresses[first[0].inputs[0]]
        widened, filtered = between(first, second[0].inputs[0]), between(second, last[0].inputs[0])
        return BottleneckOperands(source, (a, b, c), widened, filtered, finish)

    shapes = [convolution_of(nodes[0], kernel.types) for nodes in (first, second, last)]
    invariant = all(nodes[0].inputs[1] in kernel.invariant for nodes in (first, second, last))
    return Bottleneck(target, element, (shapes[0], shapes[1], shapes[2]), invariant=invariant).steps(parts)


def _convolutions(kernel: GroupKernel) -> list[list[Node]]:
    """Return each convolution with the nodes after it."""
    found: list[list[Node]] = []
    for node in (*kernel.group.prologue, *kernel.group.nodes):
        if isinstance(node.rule, CustomKernel):
            found.append([])
        found[-1].append(node)
    return found
