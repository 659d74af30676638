"""Prepack: what follows from states and constants alone is made when they have changed, not in every step.

Only in entries that update no state, such as those that predict: there every step reads the same weights. Two things
are made so. A group that reads nothing else, such as a weight that is transposed or the scale of a batch norm, is
prepacked as a whole: nothing is left of it in a step. Of others those stages are that say so, `KernelStep.prepack`:
weights
in panels, filters transformed. What they leave has memory of its own, in which nothing else lies, ever; all threads
that make steps of an entry read the same.

It has to be worth its memory: it is kept if the part of a step's time that it saves is not far less than the part of
the step's memory that it takes. What has to be made in every step is divided as if nothing were known of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from runtime.codegen.lowering.group_kernel import GroupKernel, kernel_of
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Nodes
from runtime.codegen.rules import KernelSteps, Pointwise
from runtime.placement.alignment import aligned
from runtime.step import spills

ALWAYS_PREPACKED_BYTES: Final = 1 << 16
"""Bytes that need not be worth anything."""

MIN_TIME_SAVED_PER_STATE_BYTES: Final = 0.01
"""The part of a step's time that has to be saved by as many bytes as all states that the step reads."""


PlanKernel = Callable[[GroupKernel], KernelSteps]
"""Gives the stages of a task."""


def prepacked(
    nodes: Nodes, groups: Sequence[Group], kernels: Sequence[GroupKernel | None], plan_steps: PlanKernel
) -> list[GroupKernel | None]:
    """The tasks of groups in order, which know of their operands what is steady, if that is worth it."""
    if nodes.block.desc.updates:
        return list(kernels)
    invariant = {*nodes.state_of, *nodes.constants}
    bytes_of_states = sum(nodes.types[name].nbytes for name in nodes.state_of)
    whole = sum(
        kernel_step.cost for kernel in kernels if kernel is not None for kernel_step in plan_steps(kernel).steps
    )
    price = MIN_TIME_SAVED_PER_STATE_BYTES * whole / max(bytes_of_states, 1)
    result: list[GroupKernel | None] = []
    for group, kernel in zip(groups, kernels, strict=True):
        known = None if kernel is None else _with_invariant(nodes, group, kernel, invariant, plan_steps, price)
        if known and known.is_prepacked:
            invariant.update(group.outputs)
        result.append(known or kernel)
    return result


def _with_invariant(
    nodes: Nodes, group: Group, kernel: GroupKernel, invariant: Collection[str], plan_steps: PlanKernel, price: float
) -> GroupKernel | None:
    """A task that is prepacked, whole or in part; None if it cannot be, or is not worth this price of a byte."""
    whole = all(name in invariant for name in group.reads) and _is_repeatable(group, plan_steps(kernel))
    kernel = kernel_of(nodes, group, group.outputs, frozenset(invariant), is_prepacked=whole)
    made = plan_steps(kernel)
    if not made.prepacked:
        return None
    sizes = [*made.shared_scratch, *made.thread_scratch]
    nbytes = sum(aligned(sizes[number]) for number in made.packed)
    nbytes += sum(aligned(nodes.types[name].nbytes) for name in group.outputs) if whole else 0
    saved = sum(kernel_step.cost for kernel_step in made.prepacked)
    return kernel if nbytes <= ALWAYS_PREPACKED_BYTES or saved >= price * nbytes else None


def _is_repeatable(group: Group, steps: KernelSteps) -> bool:
    """Whether it draws nothing at random, moves nothing to a file and cannot be refused."""
    draws = any(isinstance(node.rule, Pointwise) and node.rule.is_random for node in group.nodes)
    return not (draws or steps.has_runtime_check or spills(group.nodes[0].op.type))
