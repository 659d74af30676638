"""Place: what still needs memory after fusion, by live ranges on a clock of phases, in one arena.

1. A tensor is stored if another group, a host op or the end of the step reads it.
2. The new value of a state is written where the state lies if no other group reads the old one later, and its own
   group only at the same place of the same element. Otherwise it waits in the arena until the step ends.
3. What is read in a phase and what is written in it are alive at the same time: its groups are computed in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.lowering.phases import Phases
from runtime.codegen.rules import KernelSteps, Pointwise
from runtime.placement import Buffer, check_placement
from runtime.placement.alignment import ALIGNMENT, PAGE, aligned
from runtime.step import spills


class Memory(NamedTuple):
    """Where everything lies.

    Attributes:
        stored: by group, the tensors that it writes, those in states included.
        in_state: by tensor, the state that it is written into.
        offsets: in bytes, of every tensor in the arena.
        in_file: likewise, of every tensor in the file beside the arena.
        packed: likewise, of what is prepacked, in memory of its own.
        scratch: by group, the offsets of its scratch; of what is prepacked in that memory.
        buffers: what is placed, in order.
        arena_bytes: of all.
        file_bytes: of the file.
        packed_bytes: of all that is prepacked.
    """

    stored: list[list[str]]
    in_state: dict[str, str]
    offsets: dict[str, int]
    in_file: dict[str, int]
    packed: dict[str, int]
    scratch: list[list[int]]
    buffers: list[Buffer]
    arena_bytes: int
    file_bytes: int
    packed_bytes: int


def place_groups(
    block: Nodes,
    groups: Sequence[Group],
    phases: Phases,
    in_state: Mapping[str, str],
    scratch: Sequence[Sequence[int]],
    steps: Sequence[KernelSteps],
    is_instrumented: bool = False,
) -> Memory:
    """Give every stored tensor its place; `scratch` are the sizes that each group needs besides.

    What is prepacked has memory of its own, where nothing takes the place of anything else. If the step is watched,
    everything that is made is stored.
    """
    last_read, end = _last_reads(block, groups), phases.count + 1
    stored = [
        group.outputs if is_instrumented or _writes_all(group) else _read_later(group, last_read) for group in groups
    ]
    until = {name: last + 1 for name, last in _last_phases(groups, phases).items()} | dict.fromkeys(block.ends, end)
    buffers = [Buffer(name, block.types[name].nbytes, 0, max(until.get(name, 1), 1)) for name in block.feeds]
    spilled: list[Buffer] = []
    packed: dict[str, int] = {}
    packed_bytes = 0
    for i, (group, names, sizes) in enumerate(zip(groups, stored, scratch, strict=True)):
        start, stop = phases.first[i], phases.last[i] + 1
        for name, size in _packed(block, steps[i], names, scratch_names(i, len(sizes)), sizes):
            packed[name], packed_bytes = packed_bytes, packed_bytes + aligned(size)
        made = [
            Buffer(name, block.types[name].nbytes, start, max(until.get(name, stop), stop))
            for name in names
            if name not in in_state and name not in packed
        ]
        (spilled if spills(group.nodes[0].op.type) else buffers).extend(made)
        rooms = zip(scratch_names(i, len(sizes)), sizes, strict=True)
        buffers += [Buffer(name, size, start, stop) for name, size in rooms if name not in packed]
    offsets, arena_bytes = _placed(buffers)
    in_file, file_bytes = _placed(spilled, PAGE) if spilled else ({}, 0)
    scratch_at = {name: at for of in (offsets, packed) for name, at in of.items()}
    indices = [[scratch_at[name] for name in scratch_names(i, len(sizes))] for i, sizes in enumerate(scratch)]
    offsets, packed = ({name: at for name, at in of.items() if name in block.types} for of in (offsets, packed))
    arena_bytes = aligned(arena_bytes)
    return Memory(
        stored, dict(in_state), offsets, in_file, packed, indices, buffers, arena_bytes, file_bytes, packed_bytes
    )


def _packed(
    block: Nodes, steps: KernelSteps, names: Sequence[str], scratch: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """What of a group is prepacked, with its bytes."""
    if steps.is_prepacked:
        yield from ((name, block.types[name].nbytes) for name in names)
    yield from ((scratch[number], sizes[number]) for number in sorted(steps.packed))


def _writes_all(group: Group) -> bool:
    """Whether its loops write their results themselves, read or not."""
    return group.is_unfusible or (group.takes_epilogue and len(group.nodes) == 1)


def _placed(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> tuple[dict[str, int], int]:
    """Offsets by name, and the bytes of all."""
    from runtime.placement.placement import place  # at a use: it takes a while to import

    placement = place(buffers, alignment=alignment)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=alignment)
    return {b.name: at for b, at in zip(buffers, placement.offsets, strict=True)}, placement.arena_bytes


def scratch_names(group: int, count: int) -> list[str]:
    """What the scratch of a group is called among buffers; no tensor has a space in its name."""
    return [f"{number} of group {group}" for number in range(count)]


def _last_reads(block: Nodes, groups: Sequence[Group]) -> dict[str, int]:
    """By root, the position of the last group that reads it; that of the end is the number of groups."""
    last: dict[str, int] = {}
    for i, group in enumerate(groups):
        last.update(dict.fromkeys(group.reads, i))
    return last | dict.fromkeys(block.ends, len(groups))


def _last_phases(groups: Sequence[Group], phases: Phases) -> dict[str, int]:
    """By root, the last phase in which it is read: not always of the group that begins last, as some have many."""
    last: dict[str, int] = {}
    for group, phase in zip(groups, phases.last, strict=True):
        last.update((name, max(phase, last.get(name, 0))) for name in group.reads)
    return last


def _read_later(group: Group, last_read: dict[str, int]) -> list[str]:
    return [name for name in group.outputs if name in last_read]


def updates_in_place(block: Nodes, groups: Sequence[Group]) -> dict[str, str]:
    """The tensors that are written where a state lies, and the state."""
    last_read = _last_reads(block, groups)
    maker = {name: i for i, group in enumerate(groups) for name in group.outputs}
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    sources = [block.root[update.tensor] for update in block.block.desc.updates]
    uses = Counter(sources)
    result: dict[str, str] = {}
    for update, source in zip(block.block.desc.updates, sources, strict=True):
        at, old = maker.get(source), tensor_of.get(update.state)
        if at is None or uses[source] > 1 or groups[at].is_host:
            continue
        if old is None or _may_be_lost(old, last_read.get(old, -1), at, groups[at], block):
            result[source] = update.state
    return result


def _may_be_lost(old: str, last: int, at: int, group: Group, block: Nodes) -> bool:
    """Whether the old value of a state may be written over by the group at this position, element by element."""
    if last != at:
        return last < at
    return not (group.is_rows or group.takes_epilogue) and all(
        _element_by_element(node, name, group, block)
        for node in group.nodes
        for name in node.inputs
        if name and block.root[name] == old
    )


def _element_by_element(node: Node, name: str, group: Group, block: Nodes) -> bool:
    """Whether a node reads, where it makes an element, that of the tensor's root at the same place, and no other."""
    domain = group.domain if group.row_values.isdisjoint(node.outputs) else block.types[node.outputs[0]].static_shape
    same = block.types[name].static_shape == domain and name not in block.views
    return isinstance(node.rule, Pointwise) and same
