"""Place: what still needs memory after fusion, by lifetimes on a clock of groups, in one arena.

1. A tensor is stored if another group, a host op or the end of the step reads it.
2. The new value of a state is written where the state lies if no other group reads the old one later, and its own
   group only at the same place of the same element. Otherwise it waits in the arena until the step ends.
3. A group reads at tick 2i and writes at 2i + 1, so it never writes over what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prograd_proto import TensorType
from runtime.engines.native.forms import Pointwise
from runtime.engines.native.lowering.groups import Group
from runtime.engines.native.lowering.nodes import Node, Nodes
from runtime.placement import Buffer, check_placement
from runtime.placement.alignment import aligned

Room = Callable[[Group], int]
"""Bytes that a group needs besides its operands and results."""

HostScratch = Callable[[Node], Sequence[TensorType]]
"""The scratch arrays of a NumPy kernel."""


@dataclass(frozen=True)
class Memory:
    """Where everything lies.

    Attributes:
        stored: by group, the tensors that it writes, those in states included.
        in_state: by tensor, the state that it is written into.
        offsets: in bytes, of every tensor in the arena.
        scratch: by group, the offsets of its scratch.
        buffers: what is placed, in order.
        arena_bytes: of all.
    """

    stored: list[list[str]]
    in_state: dict[str, str]
    offsets: dict[str, int]
    scratch: list[list[int]]
    buffers: list[Buffer]
    arena_bytes: int


def place_groups(block: Nodes, groups: Sequence[Group], scratch: Sequence[Sequence[int]]) -> Memory:
    """Give every stored tensor its place; `scratch` are the sizes that each group needs besides."""
    from runtime.placement.placement import place  # at a use: it takes a while to import

    last_read, end = _last_reads(block, groups), 2 * len(groups) + 1
    stored = [_stored(block, group, last_read) for group in groups]
    in_state = _in_states(block, groups, last_read)
    buffers = [
        Buffer(name, block.types[name].nbytes, 0, min(2 * last_read[name] + 2, end))
        for name in block.feeds
        if name in last_read
    ]
    buffers += [Buffer(name, block.types[name].nbytes, 0, 1) for name in block.feeds if name not in last_read]
    for i, (names, sizes) in enumerate(zip(stored, scratch, strict=True)):
        buffers += [
            Buffer(name, block.types[name].nbytes, 2 * i + 1, max(min(2 * last_read.get(name, i) + 2, end), 2 * i + 2))
            for name in names
            if name not in in_state
        ]
        buffers += [Buffer(_scratch(i, j), size, 2 * i, 2 * i + 2) for j, size in enumerate(sizes)]
    placement = place(buffers)
    check_placement(buffers, placement.offsets, placement.arena_bytes)
    offsets = {buffer.name: offset for buffer, offset in zip(buffers, placement.offsets, strict=True)}
    rooms = [[offsets.pop(_scratch(i, j)) for j in range(len(sizes))] for i, sizes in enumerate(scratch)]
    return Memory(stored, in_state, offsets, rooms, buffers, aligned(placement.arena_bytes))


def _scratch(group: int, number: int) -> str:
    return f"{number} of group {group}"  # no tensor has a space in its name


def _last_reads(block: Nodes, groups: Sequence[Group]) -> dict[str, int]:
    """By root, the position of the last group that reads it; that of the end is the number of groups."""
    last: dict[str, int] = {}
    for i, group in enumerate(groups):
        last.update(dict.fromkeys(group.reads, i))
    return last | dict.fromkeys(block.ends, len(groups))


def _stored(block: Nodes, group: Group, last_read: dict[str, int]) -> list[str]:
    names = [name for name in group.makes if name in last_read]
    return group.makes if group.is_host else names


def _in_states(block: Nodes, groups: Sequence[Group], last_read: dict[str, int]) -> dict[str, str]:
    """The tensors that are written where a state lies."""
    maker = {name: i for i, group in enumerate(groups) for name in group.makes}
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    sources = [block.root[update.tensor] for update in block.block.desc.updates]
    result: dict[str, str] = {}
    for update, source in zip(block.block.desc.updates, sources, strict=True):
        at, old = maker.get(source), tensor_of.get(update.state)
        if at is None or sources.count(source) > 1 or groups[at].is_host:
            continue
        if old is None or _may_be_lost(old, last_read.get(old, -1), at, groups[at], block):
            result[source] = update.state
    return result


def _may_be_lost(old: str, last: int, at: int, group: Group, block: Nodes) -> bool:
    """Whether the old value of a state may be written over by the group at this position, element by element."""
    if last != at:
        return last < at
    return all(
        isinstance(node.form, Pointwise) and block.types[name].static_shape == group.domain
        for node in group.nodes
        for name in node.inputs
        if name and block.root[name] == old
    )
