"""The tensors that the code of a group can overwrite: old values of states, carries of loops, and operands.

The law of all engines decides which of these pairs are taken (`runtime.step.written_over`).

1. The new value of a state may be written over the old one while the step runs, if its group does not read the old one
   or reads only the element that it overwrites. Otherwise it waits in the arena until the step ends.
2. A custom kernel with `overwrites_first` may write the next value of a loop's carry over the old one.
3. A large result of pointwise nodes may be written over an operand: the lines of the operand are in a cache by then,
   and other lines would have to come from memory before they are written. So may the result of the last pass over rows:
   the other passes over a row have read it by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.rules import CustomKernel, Pointwise, Reduction
from runtime.step import Unit, Uses, written_over

if TYPE_CHECKING:
    from runtime.codegen.lowering.lowered_block import LoweredBlock

MIN_OVERWRITTEN_BYTES: Final = 1 << 16
"""Least size of an operand that a result overwrites; smaller ones stay in a near cache anyway."""


def updates_in_place(block: Nodes, groups: Sequence[Group]) -> dict[str, str]:
    """Return the tensors that overwrite a state, with the state, for groups that are computed one after another."""
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    sources = [(update.state, block.root[update.tensor]) for update in block.block.desc.updates]
    uses = Counter(source for _, source in sources)
    state_of = {source: state for state, source in sources if uses[source] == 1}
    unread: dict[str, str] = {}  # new values of states that no group reads
    step_units: list[Unit] = []
    for i, group in enumerate(groups):
        new = [] if group.is_host else [name for name in group.outputs if name in state_of]
        unread |= {name: state_of[name] for name in new if state_of[name] not in tensor_of}
        pairs = [(name, tensor_of[state_of[name]]) for name in new if name not in unread]
        over = [(name, old) for name, old in pairs if may_overwrite(old, group, block)]
        step_units.append(Unit(group.reads, group.outputs, i, i, over))
    found = unread | written_over(step_units, Uses(step_units, block.ends))
    return {source: state for source, state in state_of.items() if source in found}


def overwritten_operands(block: LoweredBlock, kept: AbstractSet[str]) -> dict[str, str]:
    """Return the tensors that are written over an operand of their group, with that operand.

    Neither is one of `kept`, which are not in the arena.
    """
    computed = {
        x for names, steps in zip(block.stored, block.steps, strict=True) if not steps.is_prepacked for x in names
    }
    step_units = units_of(block)
    for i, (group, step_unit, steps) in enumerate(zip(block.groups, step_units, block.steps, strict=True)):
        name = _written_last(group, step_unit.writes)
        if name and name not in kept and not (steps.has_runtime_check or steps.is_prepacked):
            operands = sorted(group.reads & computed - kept)
            over = [(name, old) for old in operands if _may_overwrite_operand(name, old, group, block.nodes)]
            step_units[i] = step_unit._replace(over=over)
    return written_over(step_units, Uses(step_units, block.nodes.ends))


def units_of(block: LoweredBlock) -> list[Unit]:
    """Return the groups as units of a step in phases."""
    phases = block.phases
    columns = zip(block.groups, block.stored, phases.first, phases.last, strict=True)
    return [Unit(group.reads, names, first, last) for group, names, first, last in columns]


def _may_overwrite_operand(new: str, old: str, group: Group, block: Nodes) -> bool:
    return _have_equal_bytes(block, old, new) and _is_read_at_its_element(old, group, block)


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


def may_overwrite(old: str, group: Group, block: Nodes) -> bool:
    """Return True if a group may overwrite the old value of a state, element by element."""
    if old not in group.reads:
        return True
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
