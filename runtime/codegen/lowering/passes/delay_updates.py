"""Order: updates of states move behind the last group that reads the old value, so that they may overwrite it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.lowering.lowered_block import LoweredBlock


def delay_updates(block: LoweredBlock) -> LoweredBlock:
    """Move groups that update a state behind the last reader of the old value, so that they may overwrite it."""
    return block._replace(groups=_with_late_updates(block.nodes, block.groups))


def _with_late_updates(block: Nodes, groups: Sequence[Group]) -> list[Group]:
    last_read = {name: i for i, group in enumerate(groups) for name in group.reads}
    old = _old_values(block)
    ranks: dict[Group, tuple[int, int]] = {}
    for i, group in enumerate(groups):
        states = [old[name] for name in group.outputs if name in old]
        wanted = max((last_read.get(state, i) for state in states), default=i)
        free = all(last_read.get(name, i) <= i for name in group.outputs)
        ranks[group] = (wanted, 1) if wanted > i and free and not group.is_host else (i, 0)
    return sorted(groups, key=lambda group: ranks[group])


def _old_values(block: Nodes) -> Mapping[str, str]:
    """Return the tensors that are old values of states, by the tensors that are the new ones."""
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    updates = block.block.desc.updates
    return {block.root[u.tensor]: tensor_of[u.state] for u in updates if u.state in tensor_of}
