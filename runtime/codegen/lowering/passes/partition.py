"""Partition: the work of each group becomes kernel steps with work items, which any threads may compute.

1. A group stores the tensors that another group, a host op or the end of the step reads. The others stay in registers.
2. A group is a kernel, with operand numbers instead of names. Equal kernels have one key and are partitioned once.
3. A kernel is partitioned by shapes and target alone; the target knows the class of threads.
"""

from __future__ import annotations

from runtime.codegen.groups.group import Group
from runtime.codegen.groups.group_kernel import kernel_of
from runtime.codegen.lowering.kernel_plans import KernelPlans
from runtime.codegen.lowering.lowered_block import LoweredBlock


def partition(block: LoweredBlock) -> LoweredBlock:
    """Partition the work of each group into kernel steps with work items."""
    read = {name for group in block.groups for name in group.reads} | block.nodes.ends
    stored = [_stored(group, read, block.is_instrumented) for group in block.groups]
    kernels = [
        None if group.is_host else kernel_of(block.nodes, group, names)
        for group, names in zip(block.groups, stored, strict=True)
    ]
    return KernelPlans(block).planned(block._replace(stored=stored, kernels=kernels))


def _stored(group: Group, read: set[str], is_instrumented: bool) -> list[str]:
    """Return the results of a group that are written to memory: those of `read`, or all that its loops write."""
    writes_all = group.is_unfusible or (group.takes_epilogue and len(group.nodes) == 1)
    return group.outputs if is_instrumented or writes_all else [name for name in group.outputs if name in read]
