"""Phases: what may be computed at the same time. Between two of them all threads have to be done.

Groups keep their order: a group is in the phase of the one before it, or in the first later one that it may be in. So
what the order of the block keeps small, such as a program that recomputes, stays small. A group of several stages is in
as many phases. A host op is in a phase alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.engines.native.lowering.groups import Group
from runtime.engines.native.lowering.nodes import Nodes


@dataclass(frozen=True)
class Phases:
    """When everything is computed.

    Attributes:
        first: by group, the phase of its first stage; the others follow it one by one.
        last: by group, the phase of its last stage.
        count: how many phases there are.
    """

    first: list[int]
    last: list[int]
    count: int


def phases_of(block: Nodes, groups: Sequence[Group], stages: Sequence[int], in_state: Mapping[str, str]) -> Phases:
    """The phases of groups of so many stages; `in_state` has the tensors that are written over a state."""
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    made: dict[str, int] = {}  # by root, the last phase of the group that makes it
    read: dict[str, int] = {}  # by root, the last phase in which it is read
    first: list[int] = []
    last: list[int] = []
    here = count = 0
    for group, length in zip(groups, stages, strict=True):
        written = [tensor_of[in_state[name]] for name in group.makes if in_state.get(name) in tensor_of]
        needs = [made[name] + 1 for name in group.reads if name in made]
        needs += [read[name] + 1 for name in written if name in read]
        start = max([here, *needs, count if group.is_host else 0])
        end = start + length - 1
        made.update((name, end) for name in group.makes)
        read.update((name, max(end, read.get(name, 0))) for name in group.reads)
        here, count = (end + 1 if group.is_host else start), max(count, end + 1)
        first.append(start)
        last.append(end)
    return Phases(first, last, count)
