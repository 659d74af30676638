"""Groups whose convolution computes its first operand when it copies it, by the pointwise nodes before it."""

from __future__ import annotations

from runtime.codegen.emit.body import body_of
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.kernels.nest import Strides
from runtime.codegen.kernels.steps import ComputedOperand
from runtime.codegen.lowering.group_kernel import GroupKernel
from runtime.codegen.rules import KernelStep, KernelSteps, Work


def with_prologue(kernel: GroupKernel, steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of the convolution with its computed operand."""
    return steps._replace(steps=tuple(_step_with_prologue(kernel, kernel_step) for kernel_step in steps.steps))


def _step_with_prologue(kernel: GroupKernel, kernel_step: KernelStep) -> KernelStep:
    def write(work: Work, start: Value, stop: Value) -> None:
        kernel_step.write(work._replace(computed_operand=_computed_operand(work, kernel)), start, stop)

    return kernel_step._replace(write=write)


def _computed_operand(work: Work, kernel: GroupKernel) -> ComputedOperand:
    nodes = kernel.group.prologue
    result = nodes[-1].outputs[0]
    shape = kernel.types[result].static_shape
    body = body_of(work, kernel, nodes, ())
    operands = [name for name in dict.fromkeys(x for node in nodes for x in node.inputs) if name in work.addresses]
    large = [name for name in operands if kernel.types[name].static_shape == shape]
    steps: dict[str, Strides] = {name: (shape[-1] if name in large else 0, 1) for name in operands}

    def read(index: Index, channel: Index, count: int) -> Value:
        lanes = work.f.target.lanes(DTYPES[kernel.types[result].dtype].bits)
        return body.at(steps, [index, channel], lanes, count)[result]

    return ComputedOperand(read, [work.addresses[name] for name in large])
