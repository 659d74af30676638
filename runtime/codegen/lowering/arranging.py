"""In which order groups are computed, when, and what they write over states: chains stand together if there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import TensorType
from runtime.codegen.lowering.chains import chains_of, side_by_side
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.memory import updates_in_place
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.lowering.phases import LITTLE, Phases, phases_of
from runtime.codegen.lowering.task import Task
from runtime.codegen.rules import Stages
from runtime.placement.alignment import aligned

HostScratch = Callable[[Nodes, Node], Sequence[TensorType]]
"""Gives the types of what a host op may overwrite while it runs."""


class Arranged(NamedTuple):
    """Groups in the order in which they are computed, with what each has to do, and when.

    Attributes:
        groups: in order.
        tasks: of each.
        phases: when.
        in_state: the tensors that are written over a state.
        scratch: bytes of what each group needs besides what it makes.
    """

    groups: list[Group]
    tasks: list[Task | None]
    phases: Phases
    in_state: dict[str, str]
    scratch: list[list[int]]


def in_phases(
    nodes: Nodes,
    groups: list[Group],
    tasks: list[Task | None],
    stages: list[Stages],
    host_scratch: HostScratch,
    threads: int,
    room: int | None,
    *,
    updates: bool = True,
) -> Arranged:
    """The phases of groups; chains stand together, unless that takes memory that there is none for.

    Without `updates` no group writes over a state.
    """
    in_state = updates_in_place(nodes, groups) if updates else {}
    plain = _arranged(nodes, groups, tasks, stages, host_scratch, threads, room, in_state, [])
    tables = [() if task is None else task.table for task in tasks]
    chains = chains_of(nodes, groups, tables, stages, threads) if threads > 1 else []
    if not chains:
        return plain
    order = side_by_side(len(groups), chains)
    at = {i: place for place, i in enumerate(order)}
    moved = [[at[i] for i in chain.links] for chain in chains]
    ordered = [groups[i] for i in order], [tasks[i] for i in order], [stages[i] for i in order]
    in_state = updates_in_place(nodes, ordered[0]) if updates else {}
    chained = _arranged(nodes, *ordered, host_scratch, threads, room, in_state, moved)
    return chained if chained.phases.most <= max(plain.phases.most, LITTLE, room or 0) else plain


def _arranged(
    nodes: Nodes,
    groups: list[Group],
    tasks: list[Task | None],
    stages: list[Stages],
    host_scratch: HostScratch,
    threads: int,
    room: int | None,
    in_state: dict[str, str],
    chains: list[list[int]],
) -> Arranged:
    scratch = [
        [type.nbytes for type in host_scratch(nodes, group.nodes[0])]
        if group.is_host
        else [*staged.shared, *(aligned(size) * threads for size in staged.own)]
        for group, staged in zip(groups, stages, strict=True)
    ]
    counts = [0 if staged.is_prepacked else max(len(staged.stages), 1) for staged in stages]
    besides = [
        sum(aligned(size) for number, size in enumerate(sizes) if number not in staged.packed)
        for sizes, staged in zip(scratch, stages, strict=True)
    ]
    phases = phases_of(nodes, groups, counts, in_state, besides, threads, room, chains)
    return Arranged(groups, tasks, phases, in_state, scratch)
