"""Prepack: values derived from states and constants alone are computed when these have changed, not in each step.

This applies to entries that update no state, such as predictions, where every step reads the same weights. A group that
reads nothing else, such as a transposed weight or the scale of a batch norm, is prepacked as a whole: it leaves the
step. Of other groups, the kernel steps with `KernelStep.prepack` are prepacked: packed weights, transformed filters.
Their results have memory of their own, which nothing else shares; all threads that make steps of an entry read the
same.

A loop prepacks what its iterations derive from constants and from operands that they share: before the first one.

A group has two candidates: its kernel prepacked, whole or in part, at the price of memory, and its kernel in the step,
at the cycles that prepacking would save. The cheaper one is taken. Kernel steps that stay in the step are partitioned
as if all operands changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from runtime.codegen.costs import MIN_TIME_SAVED_PER_STATE_BYTES
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.group_kernel import GroupKernel, kernel_of
from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.lowering.control import is_loop, shared_arguments
from runtime.codegen.lowering.kernel_plans import KernelPlans
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules import KernelSteps, is_random
from runtime.placement.alignment import aligned
from runtime.step import spills

ALWAYS_PREPACKED_BYTES: Final = 1 << 16
"""Size in bytes up to which the memory of prepacked values has no price."""


class _Candidate(NamedTuple):
    """A kernel of a group, and its price in cycles beside the kernel steps that all candidates have."""

    kernel: GroupKernel
    cycles: float


def prepack(block: LoweredBlock) -> LoweredBlock:
    """Separate values that are derived from states alone: they are computed when states change."""
    nodes = block.nodes
    if block.owner is not None:
        return (
            _prepacked_block(block, {*shared_arguments(block), *nodes.constants}, 0.0)
            if is_loop(block.owner)
            else block
        )
    if not block.options.prepacks or nodes.block.desc.updates:
        return block
    bytes_of_states = sum(nodes.types[name].nbytes for name in nodes.state_of)
    step_cost = sum(kernel_step.cost for steps in block.steps for kernel_step in steps.steps)
    cycles_per_byte = MIN_TIME_SAVED_PER_STATE_BYTES * step_cost / max(bytes_of_states, 1)
    return _prepacked_block(block, {*nodes.state_of, *nodes.constants}, cycles_per_byte)


def _prepacked_block(block: LoweredBlock, invariant: set[str], cycles_per_byte: float) -> LoweredBlock:
    nodes = block.nodes
    plans = KernelPlans(block)
    kernels: list[GroupKernel | None] = []
    for kernel in block.kernels:
        chosen = kernel
        if kernel is not None:
            candidates = _candidates(nodes, kernel, invariant, plans, cycles_per_byte)
            chosen = min(candidates, key=lambda candidate: candidate.cycles).kernel
            if chosen.is_prepacked:
                invariant.update(chosen.group.outputs)
        kernels.append(chosen)
    return plans.planned(block._replace(kernels=kernels))


def _candidates(
    nodes: Nodes, kernel: GroupKernel, invariant: Collection[str], plans: KernelPlans, cycles_per_byte: float
) -> list[_Candidate]:
    """Return the kernel prepacked, whole or in part, if it can be; and the kernel in the step."""
    group = kernel.group
    whole = all(name in invariant for name in group.reads) and _is_repeatable(group, plans.steps_of(kernel))
    prepacked = kernel_of(nodes, group, kernel.stored, frozenset(invariant), is_prepacked=whole)
    steps = plans.steps_of(prepacked)
    if not steps.prepacked:
        return [_Candidate(kernel, 0)]
    sizes = [*steps.shared_scratch, *steps.thread_scratch]
    nbytes = sum(aligned(sizes[number]) for number in steps.packed)
    nbytes += sum(aligned(nodes.types[name].nbytes) for name in group.outputs) if whole else 0
    saved = sum(kernel_step.cost for kernel_step in steps.prepacked)
    memory = cycles_per_byte * nbytes if nbytes > ALWAYS_PREPACKED_BYTES else 0
    return [_Candidate(prepacked, memory), _Candidate(kernel, saved)]


def _is_repeatable(group: Group, steps: KernelSteps) -> bool:
    """Return True if a group draws no random bits, moves nothing to a file and has no runtime check."""
    draws = any(is_random(node.rule) for node in group.nodes)
    return not (draws or steps.has_runtime_check or spills(group.nodes[0].op.type))
