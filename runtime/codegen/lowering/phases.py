"""Phases: what may be computed at the same time. Between two of them all threads have to be done.

Groups keep their order: a group is in the phase of the one before it, or in the first later one that it may be in. So
what the order of the block keeps small, such as a program that recomputes, stays small. A group of several stages is in
as many phases. A host op is in a phase alone. Groups of a chain follow each other in one phase, strip by strip.

What is computed at the same time is alive at the same time. So one thread, which gains nothing by it, has every group
in phases of its own; and for several a group waits for the next phase where all would else take more room than there
is, if that is more than a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Nodes
from runtime.placement.alignment import aligned

NEGLIGIBLE_BYTES: Final = 448 << 10
"""Bytes of memory: to save some of so few is not worth that threads wait for each other."""


@dataclass(frozen=True)
class Phases:
    """When everything is computed.

    Attributes:
        first: by group, the phase of its first stage; the others follow it one by one.
        last: by group, the phase of its last stage.
        count: how many phases there are.
        tiled_chains: groups in one phase of which each goes on with the strips of those before it: see
            `lowering.tiled_chains`.
        peak_bytes: bytes that are alive at the same time, at most, as far as they can be told before they are placed.
    """

    first: list[int]
    last: list[int]
    count: int
    tiled_chains: list[list[int]]
    peak_bytes: int


NO_PHASES: Final = Phases([], [], 0, [], 0)


def phases_of(
    block: Nodes,
    groups: Sequence[Group],
    steps: Sequence[int],
    in_state: Mapping[str, str],
    scratch: Sequence[int],
    threads: int,
    memory_budget: int | None,
    chains: Sequence[Sequence[int]] = (),
) -> Phases:
    """The phases of groups of so many stages.

    Args:
        block: of the groups.
        groups: in order.
        steps: of each, how many; 0 of those that are prepacked.
        in_state: the tensors that are written over a state.
        scratch: bytes that each group needs besides what it makes.
        threads: that compute.
        memory_budget: bytes that all may take for several threads, if they can do with it; None for as many as they
            like.
        chains: groups that may follow each other in one phase.
    """
    live = _Live(block, groups, steps, in_state, scratch)
    alone = _split(block, groups, steps, in_state, live, 0, ())
    limit = max(live.peak_bytes, NEGLIGIBLE_BYTES, inf if memory_budget is None else memory_budget)
    return alone if threads == 1 else _split(block, groups, steps, in_state, live.again(), limit, chains)


def _split(
    block: Nodes,
    groups: Sequence[Group],
    steps: Sequence[int],
    in_state: Mapping[str, str],
    live: _Live,
    limit: float,
    chains: Sequence[Sequence[int]],
) -> Phases:
    """The phases, of which none has several groups that take more bytes than a limit."""
    chain_of = {i: number for number, chain in enumerate(chains) for i in chain}
    made_in: dict[str, int] = {}  # by root, the chain whose strips make it
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    made: dict[str, int] = {}  # by root, the last phase of the group that makes it
    read: dict[str, int] = {}  # by root, the last phase in which it is read
    first: list[int] = []
    last: list[int] = []
    here = count = 0
    for i, (group, length) in enumerate(zip(groups, steps, strict=True)):
        written = [tensor_of[in_state[name]] for name in group.outputs if in_state.get(name) in tensor_of]
        chain = chain_of.get(i, -1)
        if not length:  # it is in none
            first.append(here)
            last.append(here - 1)
            continue
        needs = [made[name] + (chain < 0 or made_in.get(name) != chain) for name in group.reads if name in made]
        needs += [read[name] + 1 - (0 if chain < 0 else length - 1) for name in written if name in read]
        start = max([here, *needs, count if group.is_host else 0])
        if start > here or not i:
            live.begin(i, start, last)
        while start < count and live.with_group(i) > limit:
            start += 1
            live.begin(i, start, last)
        live.add(i)
        end = start + length - 1
        made.update((name, end) for name in group.outputs)
        made_in.update((name, chain) for name in group.outputs)
        read.update((name, max(end, read.get(name, 0))) for name in group.reads)
        here, count = (end + 1 if group.is_host else start), max(count, end + 1)
        first.append(start)
        last.append(end)
    return Phases(first, last, count, _together(chains, first), live.peak_bytes)


def _together(chains: Sequence[Sequence[int]], first: Sequence[int]) -> list[list[int]]:
    """The chains, each as parts that are in one phase."""
    phases = (dict.fromkeys(first[i] for i in chain) for chain in chains)
    parts = [[i for i in chain if first[i] == phase] for chain, of in zip(chains, phases, strict=True) for phase in of]
    return [part for part in parts if len(part) > 1]


class _Live:
    """Bytes of what is alive in a phase, while groups get theirs in order.

    Attributes:
        peak_bytes: in any phase so far.
    """

    def __init__(
        self,
        block: Nodes,
        groups: Sequence[Group],
        steps: Sequence[int],
        in_state: Mapping[str, str],
        scratch: Sequence[int],
    ) -> None:
        last = {name: i for i, group in enumerate(groups) for name in group.reads}
        last |= dict.fromkeys(block.ends, len(groups))
        kept = [
            [x for x in group.outputs if (x in last or group.is_unfusible) and x not in in_state]
            if count
            else list[str]()
            for group, count in zip(groups, steps, strict=True)
        ]
        sizes = {
            name: aligned(block.types[name].nbytes) for name in (*block.feeds, *(x for names in kept for x in names))
        }
        self._begins = [sum(sizes[x] for x in names) for names in kept]
        self._ends = [0] * (len(groups) + 1)
        for i, names in enumerate([block.feeds, *kept]):
            for name in names:
                self._ends[last.get(name, max(i - 1, 0))] += sizes[name]
        self._scratch, self._feeds = scratch, sum(sizes[name] for name in block.feeds)
        self._forget()

    def again(self) -> _Live:
        """From the start."""
        self._forget()
        return self

    def with_group(self, i: int) -> int:
        """Bytes of this phase if the group were in it."""
        return self._now + self._begins[i] + self._scratch[i]

    def begin(self, i: int, phase: int, last: Sequence[int]) -> None:
        """A new phase, whose first group is this one; of those before it, what is done by then is alive no more."""
        while self._done < i and last[self._done] < phase:
            self._kept -= self._ends[self._done]
            self._done += 1
        self._now = self._kept + sum(self._scratch[j] for j in range(self._done, i) if last[j] >= phase)

    def add(self, i: int) -> None:
        """One more group."""
        self._now, self._kept = self.with_group(i), self._kept + self._begins[i]
        self.peak_bytes = max(self.peak_bytes, self._now)

    def _forget(self) -> None:
        self.peak_bytes = self._done = 0
        self._kept = self._now = self._feeds
