"""Kernel steps by the key of a kernel, so that equal kernels are partitioned once in all passes together."""

from __future__ import annotations

from runtime.codegen.emit.group_steps import steps_of
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.lowering.lowered_block import NO_STEPS, KernelPlan, LoweredBlock
from runtime.codegen.rules import KernelSteps


class KernelPlans:
    """The kernel steps that are known of a block, and those that a pass adds."""

    def __init__(self, block: LoweredBlock) -> None:
        self._target = block.target
        self._plans = dict(block.plans)

    def steps_of(self, kernel: GroupKernel) -> KernelSteps:
        """Return the kernel steps of a kernel, or those of an equal one."""
        plan = self._plans.get(kernel.key) or self._added(kernel)
        return plan.steps

    def planned(self, block: LoweredBlock) -> LoweredBlock:
        """Return the block with the kernel steps of its kernels, where equal kernels have those of the first one.

        The function of equal kernels is written by the first one, and the code of a kernel step refers to the tensors
        of the kernel that it was made for.
        """
        first: dict[str, KernelPlan] = {}
        for kernel in block.kernels:
            if kernel is not None and kernel.key not in first:
                plan = self._plans.get(kernel.key)
                first[kernel.key] = plan if plan is not None and plan.kernel is kernel else self._added(kernel)
        steps = [NO_STEPS if kernel is None else first[kernel.key].steps for kernel in block.kernels]
        return block._replace(steps=steps, plans=self._plans)

    def _added(self, kernel: GroupKernel) -> KernelPlan:
        plan = self._plans[kernel.key] = KernelPlan(kernel, steps_of(self._target, kernel))
        return plan
