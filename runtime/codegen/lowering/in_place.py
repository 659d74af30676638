"""State updates in place: the new values of states that overwrite the old ones while the step runs.

The new value of a state is written over the old one if no other group reads the old one later, and its own group reads
only the element that it overwrites. Otherwise it waits in the arena until the step ends.

So does a custom kernel with `overwrites_first` write the next value of a loop's carry over the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.rules import CustomKernel, Pointwise


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
    return not (is_packed or group.is_rows or group.takes_epilogue) and all(
        _element_by_element(node, name, group, block)
        for node in group.nodes
        for name in node.inputs
        if name and block.root[name] == old
    )


def _element_by_element(node: Node, name: str, group: Group, block: Nodes) -> bool:
    """Return True if a node that computes an element reads only the same element of the tensor's root."""
    domain = group.domain if group.row_values.isdisjoint(node.outputs) else block.types[node.outputs[0]].static_shape
    same = block.types[name].static_shape == domain and name not in block.views
    return isinstance(node.rule, Pointwise) and same


def last_reads(block: Nodes, groups: Sequence[Group]) -> dict[str, int]:
    """Return the position of the last group that reads each root; that of the end is the number of groups."""
    last: dict[str, int] = {}
    for i, group in enumerate(groups):
        last.update(dict.fromkeys(group.reads, i))
    return last | dict.fromkeys(block.ends, len(groups))
