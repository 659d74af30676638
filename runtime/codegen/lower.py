"""A bound block lowered: groups with places in memory, as they are printed, compiled and bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.codegen.emit.group_steps import steps_of
from runtime.codegen.lowering.additions import with_additions
from runtime.codegen.lowering.bottlenecks import with_bottlenecks
from runtime.codegen.lowering.group_kernel import GroupKernel, kernel_of, storing
from runtime.codegen.lowering.groups import Group, fuse, unfused
from runtime.codegen.lowering.layers import with_layers
from runtime.codegen.lowering.memory import Memory, place_groups
from runtime.codegen.lowering.nodes import Nodes, read_nodes
from runtime.codegen.lowering.order import updates_late
from runtime.codegen.lowering.phases import Phases
from runtime.codegen.lowering.prepack import prepacked
from runtime.codegen.lowering.recompute import recomputed
from runtime.codegen.lowering.schedule import HostScratch, scheduled
from runtime.codegen.lowering.views import with_views
from runtime.codegen.machine import Target
from runtime.codegen.rules import KernelSteps


class Lowered(NamedTuple):
    """A block as groups with places: what is printed, compiled and bound.

    Attributes:
        read: the block.
        with_views: the same with accesses.
        nodes: the same with recurrent layers as they are computed together.
        fused: the groups as fusion left them.
        recomputed: the same, with what they compute again.
        groups: in the order in which they are computed.
        phases: when.
        kernels: of each group, what its functions compute; None for a host op.
        steps: of each group, how its work is divided; of a host op one that is empty.
        memory: where everything lies.
        target: what code is for.
        threads: how many there may be.
        is_instrumented: whether all are.
    """

    read: Nodes
    with_views: Nodes
    nodes: Nodes
    fused: list[Group]
    recomputed: list[Group]
    groups: list[Group]
    phases: Phases
    kernels: list[GroupKernel | None]
    steps: list[KernelSteps]
    memory: Memory
    target: Target
    threads: int
    is_instrumented: bool


def lowered(
    desc: pb.BlockDesc,
    pinned: Sequence[str],
    target: Target,
    host_scratch: HostScratch,
    threads: int = 1,
    is_instrumented: bool = False,
    memory_budget: int | None = None,
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
    read = with_additions(read_nodes(desc, tuple(pinned), is_instrumented=is_instrumented))
    accessed = read if is_instrumented else with_views(read)
    nodes = read if is_instrumented else with_layers(accessed, target)
    fused = unfused(nodes) if is_instrumented else fuse(nodes)
    nodes, again = (nodes, fused) if is_instrumented else recomputed(target, nodes, fused)
    again = again if is_instrumented else with_bottlenecks(nodes, again)
    groups = again if is_instrumented else updates_late(nodes, again)
    everything = [None if group.is_host else kernel_of(nodes, group, group.outputs) for group in groups]
    known_steps: dict[int, tuple[GroupKernel, KernelSteps]] = {}
    plan_steps = _planner(target, known_steps)
    everything = prepacked(nodes, groups, everything, plan_steps) if prepacks and not is_instrumented else everything
    steps = [KernelSteps(()) if kernel is None else plan_steps(kernel) for kernel in everything]
    groups, everything, phases, in_state, scratch = scheduled(
        nodes, groups, everything, steps, host_scratch, threads, memory_budget, updates=not is_instrumented
    )
    steps = [KernelSteps(()) if kernel is None else plan_steps(kernel) for kernel in everything]
    memory = place_groups(nodes, groups, phases, in_state, scratch, steps, is_instrumented)
    kernels = [
        kernel if kernel is None or kernel.stored == stored else storing(nodes, kernel, stored)
        for kernel, stored in zip(everything, memory.stored, strict=True)
    ]
    plan_steps = _planner(target, known_steps)  # a new one: the first of equal tasks is the one that is written
    kernel_steps = [KernelSteps(()) if kernel is None else plan_steps(kernel) for kernel in kernels]
    return Lowered(
        read,
        accessed,
        nodes,
        fused,
        again,
        groups,
        phases,
        kernels,
        kernel_steps,
        memory,
        target,
        threads,
        is_instrumented,
    )


def _planner(
    target: Target, known_steps: dict[int, tuple[GroupKernel, KernelSteps]]
) -> Callable[[GroupKernel], KernelSteps]:
    """What gives the stages of a task; those of equal tasks are of the first one.

    `known_steps` has the very tasks that any divider divided, by their `id`: no work is done twice.
    """
    known: dict[str, KernelSteps] = {}

    def plan_steps(kernel: GroupKernel) -> KernelSteps:
        if kernel.key not in known:
            if id(kernel) not in known_steps:
                known_steps[id(kernel)] = kernel, steps_of(target, kernel)
            known[kernel.key] = known_steps[id(kernel)][1]
        return known[kernel.key]

    return plan_steps
