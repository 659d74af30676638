"""A bound block lowered: groups with places in memory, as they are printed, compiled and bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.codegen.emit.kinds import stages_of
from runtime.codegen.lowering.accesses import with_accesses
from runtime.codegen.lowering.additions import with_additions
from runtime.codegen.lowering.arranging import HostScratch, in_phases
from runtime.codegen.lowering.bottlenecks import with_bottlenecks
from runtime.codegen.lowering.groups import Group, fuse, unfused
from runtime.codegen.lowering.layers import with_layers
from runtime.codegen.lowering.memory import Memory, place_groups
from runtime.codegen.lowering.nodes import Nodes, read_nodes
from runtime.codegen.lowering.order import updates_late
from runtime.codegen.lowering.phases import Phases
from runtime.codegen.lowering.prepack import prepacked
from runtime.codegen.lowering.remake import remade
from runtime.codegen.lowering.task import Task, storing, task_of
from runtime.codegen.machine import Target
from runtime.codegen.rules import Stages


class Lowered(NamedTuple):
    """A block as groups with places: what is printed, compiled and bound.

    Attributes:
        read: the block.
        accessed: the same with accesses.
        nodes: the same with recurrent layers as they are computed together.
        fused: the groups as fusion left them.
        remade: the same, with what they compute again.
        groups: in the order in which they are computed.
        phases: when.
        tasks: of each group, what its functions compute; None for a host op.
        stages: of each group, how its work is divided; of a host op one that is empty.
        memory: where everything lies.
        target: what code is for.
        threads: how many there may be.
        watched: whether all are.
    """

    read: Nodes
    accessed: Nodes
    nodes: Nodes
    fused: list[Group]
    remade: list[Group]
    groups: list[Group]
    phases: Phases
    tasks: list[Task | None]
    stages: list[Stages]
    memory: Memory
    target: Target
    threads: int
    watched: bool


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    host_scratch: HostScratch,
    threads: int = 1,
    watched: bool = False,
    room: int | None = None,
    *,
    prepacks: bool = False,
) -> Lowered:
    """All passes, one after the other.

    A step that is watched has a group for every op, in the order of the block, and all results in memory; it changes no
    state, so that the step itself may follow it: see `watching`. For several
    threads it may take so much room, and less if they can do with it; None for as much as they like. If it prepacks,
    what follows from states alone is made by `CompiledStep.prepack`, before the first step and when they have changed.
    `host_scratch` gives the types of what the host op of a node may overwrite while it runs.
    """
    read = with_additions(read_nodes(desc, tuple(pinned), whole=watched))
    accessed = read if watched else with_accesses(read)
    nodes = read if watched else with_layers(accessed, target)
    fused = unfused(nodes) if watched else fuse(nodes)
    nodes, again = (nodes, fused) if watched else remade(target, nodes, fused)
    again = again if watched else with_bottlenecks(nodes, again)
    groups = again if watched else updates_late(nodes, again)
    everything = [None if group.is_host else task_of(nodes, group, group.makes) for group in groups]
    divided: dict[int, tuple[Task, Stages]] = {}
    divide = _divider(target, divided)
    everything = prepacked(nodes, groups, everything, divide) if prepacks and not watched else everything
    staged = [Stages(()) if task is None else divide(task) for task in everything]
    groups, everything, phases, in_state, scratch = in_phases(
        nodes, groups, everything, staged, host_scratch, threads, room, updates=not watched
    )
    staged = [Stages(()) if task is None else divide(task) for task in everything]
    memory = place_groups(nodes, groups, phases, in_state, scratch, staged, watched)
    tasks = [
        task if task is None or task.stored == stored else storing(nodes, task, stored)
        for task, stored in zip(everything, memory.stored, strict=True)
    ]
    divide = _divider(target, divided)  # a new one: the first of equal tasks is the one that is written
    stages = [Stages(()) if task is None else divide(task) for task in tasks]
    return Lowered(read, accessed, nodes, fused, again, groups, phases, tasks, stages, memory, target, threads, watched)


def _divider(target: Target, divided: dict[int, tuple[Task, Stages]]) -> Callable[[Task], Stages]:
    """What gives the stages of a task; those of equal tasks are of the first one.

    `divided` has the very tasks that any divider divided, by their `id`: no work is done twice.
    """
    known: dict[str, Stages] = {}

    def divide(task: Task) -> Stages:
        if task.key not in known:
            if id(task) not in divided:
                divided[id(task)] = task, stages_of(target, task)
            known[task.key] = divided[id(task)][1]
        return known[task.key]

    return divide
