"""A bound entry as one step: lowered, compiled, and bound to the memory that it works in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.aligned_memory import view
from runtime.constants import constant_array
from runtime.dtypes import Array
from runtime.engines.native.emission.code import ADDRESS, emit, loaded, scratch_of_task
from runtime.engines.native.emission.task import Task, task_of
from runtime.engines.native.host import host_call, scratch_of_node
from runtime.engines.native.lowering.groups import Group, fuse
from runtime.engines.native.lowering.memory import Memory, place_groups
from runtime.engines.native.lowering.nodes import Nodes, read_nodes
from runtime.engines.native.target import Target

Call = Callable[[], object]


@dataclass(frozen=True)
class Lowered:
    """A block as groups with places: what is printed, compiled and bound.

    Attributes:
        nodes: the block.
        groups: in the order in which they are computed.
        tasks: of each group, what its function computes; None for a host op.
        memory: where everything lies.
        target: what code is for.
    """

    nodes: Nodes
    groups: list[Group]
    tasks: list[Task | None]
    memory: Memory
    target: Target


def lowered(desc: pb.BlockDesc, pinned: Sequence[str], target: Target) -> Lowered:
    """All passes, one after the other."""
    nodes = read_nodes(desc, tuple(pinned))
    groups = fuse(nodes)
    everything = [None if group.is_host else task_of(nodes, group, group.makes) for group in groups]
    scratch = [
        [type.nbytes for type in scratch_of_node(nodes, group.nodes[0])]
        if task is None
        else scratch_of_task(target, task)
        for group, task in zip(groups, everything, strict=True)
    ]
    memory = place_groups(nodes, groups, scratch)
    tasks = [
        None if group.is_host else task_of(nodes, group, stored)
        for group, stored in zip(groups, memory.stored, strict=True)
    ]
    return Lowered(nodes, groups, tasks, memory, target)


@dataclass(frozen=True)
class CompiledStep:
    """Calls that compute a step, and what they work on.

    Attributes:
        arrays: of every tensor that has memory.
        calls: for each group.
        whole: calls for the step, with the position of their first group; groups between two host ops are one.
        addresses: what the code is given; it lives as long as the calls.
    """

    arrays: dict[str, Array]
    calls: list[Call]
    whole: list[tuple[int, Call]]
    addresses: Array


def bind_compiled(step: Lowered, states: Mapping[str, Array], arena: Array) -> CompiledStep:
    """Compile the groups, and bind them to states and arena."""
    arrays = _arrays(step, states, arena)
    starts, addresses = _addresses(step, arrays, arena)
    native = {i: number for number, i in enumerate(i for i, task in enumerate(step.tasks) if task is not None)}
    runs = [list(run) for _, run in groupby(range(len(step.groups)), lambda i: i in native)]
    segments = [[native[i] for i in run] for run in runs if run[0] in native]
    tasks = [task for task in step.tasks if task is not None]
    source = emit(step.target, tasks, segments, [starts[i] for i in native])
    code = loaded(source)
    base = addresses.ctypes.data
    calls: list[Call] = [
        partial(code.function(source.functions[native[i]], 1), base + ADDRESS * starts[i])
        if i in native
        else host_call(step.nodes, group.nodes[0], step.memory.scratch[i], arrays, arena)
        for i, group in enumerate(step.groups)
    ]
    names = iter(source.segments)
    whole: list[tuple[int, Call]] = []
    for first, *others in runs:
        if first in native:
            whole.append((first, partial(code.function(next(names), 1), base + ADDRESS * starts[first])))
        else:
            whole += [(i, calls[i]) for i in (first, *others)]
    return CompiledStep(arrays, calls, whole, addresses)


def _arrays(step: Lowered, states: Mapping[str, Array], arena: Array) -> dict[str, Array]:
    nodes, memory = step.nodes, step.memory
    arrays = {tensor: states[state] for tensor, state in nodes.state_of.items()}
    arrays |= {name: constant_array(op.attributes[0].tensor_value) for name, op in nodes.constants.items()}
    arrays |= {name: view(arena, offset, nodes.types[name]) for name, offset in memory.offsets.items()}
    arrays |= {name: states[state].reshape(nodes.types[name].static_shape) for name, state in memory.in_state.items()}
    for name, root in nodes.root.items():
        if name not in arrays and root in arrays:
            arrays[name] = arrays[root].reshape(nodes.types[name].static_shape)
    return arrays


def _addresses(step: Lowered, arrays: Mapping[str, Array], arena: Array) -> tuple[list[int], Array]:
    """For each group where its table begins, and all tables."""
    starts: list[int] = []
    table: list[int] = []
    for task, scratch in zip(step.tasks, step.memory.scratch, strict=True):
        starts.append(len(table))
        if task is not None:
            table += [arrays[name].ctypes.data for name in task.table]
            table += [arena.ctypes.data + offset for offset in scratch]
    return starts, np.array(table or [0], np.int64)
