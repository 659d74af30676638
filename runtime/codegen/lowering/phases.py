"""Phases: groups that may be computed concurrently. Between two phases, all threads wait for each other.

Groups keep their order: a group is in the phase of the one before it, or in the first later one that is possible.
Therefore the peak of memory that the order of the block achieves, such as that of a program that rematerialises, stays
low. A group of several kernel steps is in as many phases. A host op is in a phase by itself. Groups of a tiled chain
follow each other in one phase, row tile by row tile.

Tensors that are computed at the same time are live at the same time. Therefore for one thread, which gains nothing by
concurrency, every group has phases of its own. For several threads, a group moves to the next phase if the memory would
exceed the limit otherwise, unless that is little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Nodes
from runtime.placement.alignment import aligned

NEGLIGIBLE_BYTES: Final = 448 << 10
"""Bytes of memory that are too few to make threads wait for each other."""


@dataclass(frozen=True)
class Phases:
    """The phases of all groups.

    Attributes:
        first: by group, the phase of its first kernel step; the others follow one by one.
        last: by group, the phase of its last kernel step.
        count: number of phases.
        tiled_chains: groups in one phase, each of which continues with the row tiles of those before it: see
            `lowering.tiled_chains`.
        tiles: for each chain, the number of its tiles.
        runs: for each chain, the number of equal ranges of tiles that threads take one by one.
        backwards: for each chain, True if threads take the last tiles first. Chains of large tensors alternate, so that
            a chain begins with the tiles that are in a cache.
        peak_bytes: upper bound on the live bytes, as far as it is known before placement.
    """

    first: list[int]
    last: list[int]
    count: int
    tiled_chains: list[list[int]]
    tiles: list[int]
    runs: list[int]
    backwards: list[bool]
    peak_bytes: int


class PhaseChain(NamedTuple):
    """Groups that may follow each other in one phase, row tile by row tile.

    Attributes:
        links: the groups, which are neighbours.
        leads: for each group, the number of its kernel steps before its row tiles.
        prepared: for each group, the tensors that these steps read.
        tiles: number of row tiles.
        runs: number of equal ranges of row tiles that threads take one by one.
        is_large: True if the groups stay together, even where they take more memory than in phases of their own.
    """

    links: list[int]
    leads: list[int]
    prepared: list[frozenset[str]]
    tiles: int
    runs: int
    is_large: bool


NO_PHASES: Final = Phases([], [], 0, [], [], [], [], 0)


def phases_of(
    block: Nodes,
    groups: Sequence[Group],
    steps: Sequence[int],
    in_state: Mapping[str, str],
    scratch: Sequence[int],
    threads: int,
    memory_budget: int | None,
    chains: Sequence[PhaseChain] = (),
) -> Phases:
    """Return the phases of groups.

    Args:
        block: the block of the groups.
        groups: the groups, in order.
        steps: number of kernel steps of each; 0 if it is prepacked.
        in_state: tensors that overwrite a state.
        scratch: bytes of each group's scratch.
        threads: number of threads that compute.
        memory_budget: bytes for several threads, if they can do with less than without a limit; None for no limit.
        chains: groups that may follow each other in one phase.
    """
    live = _LiveBytes(block, groups, steps, in_state, scratch)
    alone = _split(block, groups, steps, in_state, live, 0, ())
    if threads == 1 and not chains:
        return alone
    limit = max(live.peak_bytes, NEGLIGIBLE_BYTES, inf if memory_budget is None else memory_budget)
    return _split(block, groups, steps, in_state, live.again(), 0 if threads == 1 else limit, chains)


def _split(
    block: Nodes,
    groups: Sequence[Group],
    steps: Sequence[int],
    in_state: Mapping[str, str],
    live: _LiveBytes,
    limit: float,
    chains: Sequence[PhaseChain],
) -> Phases:
    """Return the phases if none may have several groups that take more bytes than the limit."""
    chain_of = {i: number for number, chain in enumerate(chains) for i in chain.links}
    leads = {i: lead for chain in chains for i, lead in zip(chain.links, chain.leads, strict=True)}
    prepared = {i: names for chain in chains for i, names in zip(chain.links, chain.prepared, strict=True)}
    chain_of_root: dict[str, int] = {}  # by root, the chain whose row tiles compute it
    tensor_of = {state: tensor for tensor, state in block.state_of.items()}
    last_phase: dict[str, int] = {}  # by root, the last phase of the group that computes it
    read: dict[str, int] = {}  # by root, the last phase in which it is read
    first: list[int] = []
    last: list[int] = []
    here = count = 0

    def needs_of(i: int) -> list[int]:
        """Return the phases before which a group cannot begin.

        Steps before the row tiles read only what they prepare, so the row tiles alone wait for all other operands.
        """
        group, length, chain = groups[i], steps[i], chain_of.get(i, -1)
        written = [tensor_of[in_state[name]] for name in group.outputs if in_state.get(name) in tensor_of]
        needs = [
            last_phase[name]
            + (chain < 0 or chain_of_root.get(name) != chain)
            - (0 if name in prepared.get(i, ()) else leads.get(i, 0))
            for name in group.reads
            if name in last_phase
        ]
        return needs + [read[name] + 1 - (0 if chain < 0 else length - 1) for name in written if name in read]

    for together in _moving_together(len(groups), chains):
        i = together[0]
        if not steps[i]:  # it is in no phase
            first.append(here)
            last.append(here - 1)
            continue
        lead = max(leads.get(j, 0) for j in together)
        needs = [need + leads.get(j, 0) - lead for j in together for need in needs_of(j)]
        start = max([here, *needs, count if groups[i].is_host else 0])
        if start > here or not i:
            live.begin(i, start, last)
        while start < count and live.with_groups(together) > limit:
            start += 1
            live.begin(i, start, last)
        for j in together:
            group, begin = groups[j], start + lead - leads.get(j, 0)
            end = begin + steps[j] - 1
            live.add(j)
            last_phase.update((name, end) for name in group.outputs)
            chain_of_root.update((name, chain_of.get(j, -1)) for name in group.outputs)
            read.update((name, max(end, read.get(name, 0))) for name in group.reads)
            count = max(count, end + 1)
            first.append(begin)
            last.append(end)
        here = last[-1] + 1 if groups[i].is_host else start + lead
    return Phases(first, last, count, *_together(chains, first), live.peak_bytes)


def _moving_together(count: int, chains: Sequence[PhaseChain]) -> list[list[int]]:
    """Return the groups in lists of those that move to a phase together: chains of large tensors, and single groups."""
    chain_of = {chain.links[0]: chain.links for chain in chains if chain.is_large}
    others = {i for links in chain_of.values() for i in links[1:]}
    return [[*chain_of.get(i, [i])] for i in range(count) if i not in others]


def _together(
    chains: Sequence[PhaseChain], first: Sequence[int]
) -> tuple[list[list[int]], list[int], list[int], list[bool]]:
    """Return the chains, split into parts that are in one phase, with the tiles of each, their runs and direction."""
    parts: list[list[int]] = []
    tiles: list[int] = []
    runs: list[int] = []
    backwards: list[bool] = []
    is_odd = False
    for chain in chains:
        main = {i: first[i] + lead for i, lead in zip(chain.links, chain.leads, strict=True)}
        is_odd ^= chain.is_large
        for phase in dict.fromkeys(main.values()):
            part = [i for i in chain.links if main[i] == phase]
            if len(part) > 1 or chain.is_large:
                parts.append(part)
                tiles.append(chain.tiles)
                runs.append(chain.runs)
                backwards.append(chain.is_large and not is_odd)
    return parts, tiles, runs, backwards


class _LiveBytes:
    """The live bytes of a phase, while groups are assigned in order.

    Attributes:
        peak_bytes: maximum over all phases so far.
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

    def again(self) -> _LiveBytes:
        """Return it, reset to the first phase."""
        self._forget()
        return self

    def with_groups(self, together: Sequence[int]) -> int:
        """Return the bytes of this phase with these groups in it."""
        return self._now + sum(self._begins[i] + self._scratch[i] for i in together)

    def begin(self, i: int, phase: int, last: Sequence[int]) -> None:
        """Begin a phase with this group, and free the tensors that are dead by then."""
        while self._done < i and last[self._done] < phase:
            self._kept -= self._ends[self._done]
            self._done += 1
        self._now = self._kept + sum(self._scratch[j] for j in range(self._done, i) if last[j] >= phase)

    def add(self, i: int) -> None:
        """Add a group to the phase."""
        self._now, self._kept = self.with_groups([i]), self._kept + self._begins[i]
        self.peak_bytes = max(self.peak_bytes, self._now)

    def _forget(self) -> None:
        self.peak_bytes = self._done = 0
        self._kept = self._now = self._feeds
