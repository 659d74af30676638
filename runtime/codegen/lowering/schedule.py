"""In which order groups are computed, when, and what they write over states: chains stand together if there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import TensorType
from runtime.codegen.lowering.group_kernel import GroupKernel
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.memory import updates_in_place
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.lowering.phases import NEGLIGIBLE_BYTES, Phases, phases_of
from runtime.codegen.lowering.tiled_chains import chained_order, tiled_chains
from runtime.codegen.rules import KernelSteps
from runtime.placement.alignment import aligned

HostScratch = Callable[[Nodes, Node], Sequence[TensorType]]
"""Gives the types of what a host op may overwrite while it runs."""


class Schedule(NamedTuple):
    """Groups in the order in which they are computed, with what each has to do, and when.

    Attributes:
        groups: in order.
        kernels: of each.
        phases: when.
        in_state: the tensors that are written over a state.
        scratch: bytes of what each group needs besides what it makes.
    """

    groups: list[Group]
    kernels: list[GroupKernel | None]
    phases: Phases
    in_state: dict[str, str]
    scratch: list[list[int]]


def scheduled(
    nodes: Nodes,
    groups: list[Group],
    kernels: list[GroupKernel | None],
    steps: list[KernelSteps],
    host_scratch: HostScratch,
    threads: int,
    memory_budget: int | None,
    *,
    updates: bool = True,
) -> Schedule:
    """The phases of groups; chains stand together, unless that takes memory that there is none for.

    Without `updates` no group writes over a state.
    """
    in_state = updates_in_place(nodes, groups) if updates else {}
    plain = _scheduled(nodes, groups, kernels, steps, host_scratch, threads, memory_budget, in_state, [])
    tables = [() if kernel is None else kernel.table for kernel in kernels]
    chains = tiled_chains(nodes, groups, tables, steps, threads) if threads > 1 else []
    if not chains:
        return plain
    order = chained_order(len(groups), chains)
    at = {i: index for index, i in enumerate(order)}
    moved = [[at[i] for i in chain.links] for chain in chains]
    ordered = [groups[i] for i in order], [kernels[i] for i in order], [steps[i] for i in order]
    in_state = updates_in_place(nodes, ordered[0]) if updates else {}
    chained = _scheduled(nodes, *ordered, host_scratch, threads, memory_budget, in_state, moved)
    return (
        chained
        if chained.phases.peak_bytes <= max(plain.phases.peak_bytes, NEGLIGIBLE_BYTES, memory_budget or 0)
        else plain
    )


def _scheduled(
    nodes: Nodes,
    groups: list[Group],
    kernels: list[GroupKernel | None],
    kernel_steps: list[KernelSteps],
    host_scratch: HostScratch,
    threads: int,
    memory_budget: int | None,
    in_state: dict[str, str],
    chains: list[list[int]],
) -> Schedule:
    scratch = [
        [type.nbytes for type in host_scratch(nodes, group.nodes[0])]
        if group.is_host
        else [*steps.shared_scratch, *(aligned(size) * threads for size in steps.thread_scratch)]
        for group, steps in zip(groups, kernel_steps, strict=True)
    ]
    counts = [0 if steps.is_prepacked else max(len(steps.steps), 1) for steps in kernel_steps]
    besides = [
        sum(aligned(size) for number, size in enumerate(sizes) if number not in steps.packed)
        for sizes, steps in zip(scratch, kernel_steps, strict=True)
    ]
    phases = phases_of(nodes, groups, counts, in_state, besides, threads, memory_budget, chains)
    return Schedule(groups, kernels, phases, in_state, scratch)
