"""State updates in place: the new values of states that overwrite the old ones while the step runs.

The new value of a state is written over the old one if no other group reads the old one later, and its own group reads
only the element that it overwrites. Otherwise it waits in the arena until the step ends.

So does a custom kernel with `overwrites_first` write the next value of a loop's carry over the old one.

A large result of pointwise nodes is written over an operand that nothing reads afterwards: the lines of the operand are
in a cache by then, and other lines would have to come from memory before they are written. So is the result of the last
pass over rows: the other passes over a row have read it by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.rules import CustomKernel, Pointwise, Reduction

if TYPE_CHECKING:
    from runtime.codegen.lowering.lowered_block import LoweredBlock

MIN_OVERWRITTEN_BYTES: Final = 1 << 16
"""Least size of an operand that a result overwrites; smaller ones stay in a near cache anyway."""


def updates_in_place(block: Nodes, groups: Sequence[Group]) -> dict[str, str]:
    """Return the tensors that overwrite a state, with the state."""
    last_read = last_reads(block, groups)
    maker = {name: i for i, group in enumerate(groups) for name in group.outputs}
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    sources = [block.root[update.tensor] for update in block.block.desc.updates]
    uses = Counter(sources)
    result: dict[str, str] = {}
    for update, source in zip(block.block.desc.updates, sources, strict=True):
        at, old = maker.get(source), tensor_of.get(update.state)
        if at is None or uses[source] > 1 or groups[at].is_host:
            continue
        if old is None or may_overwrite(old, last_read.get(old, -1), at, groups[at], block):
            result[source] = update.state
    return result


def overwritten_operands(block: LoweredBlock, kept: AbstractSet[str]) -> dict[str, str]:
    """Return the tensors that are written over an operand of their group, with that operand.

    Neither is one of `kept`, which are not in the arena. All other groups that read or write the operand are in earlier
    phases, so no thread does so meanwhile.
    """
    nodes, phases = block.nodes, block.phases
    last_read = last_reads(nodes, block.groups)
    last_phase: dict[str, int] = {}  # by root, the last phase in which a group before this one computes or reads it
    computed: set[str] = set()
    result: dict[str, str] = {}
    for i, (group, names, steps) in enumerate(zip(block.groups, block.stored, block.steps, strict=True)):
        name = _written_last(group, names)
        if name and name not in kept and not (steps.has_runtime_check or steps.is_prepacked):
            found = [
                old
                for old in sorted(group.reads & computed - kept)
                if last_phase[old] < phases.first[i]
                and last_read[old] == i
                and _have_equal_bytes(nodes, old, name)
                and _is_read_at_its_element(old, group, nodes)
            ]
            if found:
                result[name] = found[0]
        computed.update(() if steps.is_prepacked else names)
        for name in (*names, *group.reads):
            last_phase[name] = max(phases.last[i], last_phase.get(name, 0))
    return result


def _written_last(group: Group, names: Sequence[str]) -> str:
    """Return the tensor that a group writes after it has read the operands' elements there; "" if it is another kind.

    `names` are all tensors that it writes. Its other nodes are pointwise, or reduce a row.
    """
    if group.is_host or group.product is not None or group.is_unfusible or group.prologue:
        return ""
    if not group.is_reduced:
        return names[0] if len(names) == 1 else ""
    wide = [name for name in names if name not in group.row_values]
    passes = group.passes if group.is_rows else {}
    return wide[0] if len(wide) == 1 and passes.get(wide[0]) == max(passes.values(), default=0) else ""


def _have_equal_bytes(block: Nodes, old: str, new: str) -> bool:
    a, b = block.types[old], block.types[new]
    same = a.static_shape == b.static_shape and ITEM_BYTES[a.dtype] == ITEM_BYTES[b.dtype]
    return same and a.nbytes >= MIN_OVERWRITTEN_BYTES


def overwrites_argument(group: Group, argument: str, result: str, block: Nodes) -> bool:
    """Return True if a group is a custom kernel that may write `result` over an argument of a block inside an op."""
    node = group.nodes[0]
    return (
        len(group.nodes) == 1
        and not group.prologue
        and isinstance(node.rule, CustomKernel)
        and node.rule.overwrites_first
        and node.outputs == (result,)
        and node.inputs[0] == argument
        and all(block.root[name] != argument for name in node.inputs[1:] if name)
    )


def may_overwrite(old: str, last: int, at: int, group: Group, block: Nodes) -> bool:
    """Return True if the group at position `at` may overwrite the old value of a state, element by element."""
    if last != at:
        return last < at
    is_packed = any(block.root.get(name) == old for node in group.prologue for name in node.inputs)
    is_other = is_packed or group.is_rows or group.takes_epilogue
    return not is_other and _is_read_at_its_element(old, group, block)


def _is_read_at_its_element(old: str, group: Group, block: Nodes) -> bool:
    """Return True if all nodes of a group that read a root read the element that they compute, or reduce."""
    return all(
        _element_by_element(node, name, group, block)
        for node in group.nodes
        for name in node.inputs
        if name and block.root[name] == old
    )


def _element_by_element(node: Node, name: str, group: Group, block: Nodes) -> bool:
    """Return True if a node reads only that element of the tensor's root for which it is computed, or reduces rows."""
    is_reduction = group.is_rows and isinstance(node.rule, Reduction)
    of_domain = is_reduction or group.row_values.isdisjoint(node.outputs)
    domain = group.domain if of_domain else block.types[node.outputs[0]].static_shape
    same = block.types[name].static_shape == domain and name not in block.views
    return (is_reduction or isinstance(node.rule, Pointwise)) and same


def last_reads(block: Nodes, groups: Sequence[Group]) -> dict[str, int]:
    """Return the position of the last group that reads each root; that of the end is the number of groups."""
    last: dict[str, int] = {}
    for i, group in enumerate(groups):
        last.update(dict.fromkeys(group.reads, i))
    return last | dict.fromkeys(block.ends, len(groups))
