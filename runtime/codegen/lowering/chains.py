"""Chains: groups whose units are strips of the same rows, and need nothing of each other but those rows.

Who computed a strip of one group goes on with that of the next, which lies in its caches, and waits for nobody: all are
in one phase. So a network of small layers is computed by each thread for its rows of the batch, forwards and back, up
to the sums over all rows, which are joined after that.

A group joins the chain of an earlier one if what stands between the two makes nothing that it reads; it then stands
beside the others of its chain. What reads nothing of the chain, such as a look at labels, may stand before it. What
updates states does so in a later stage, or is in no chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Nodes
from runtime.codegen.rules import Stages, Strips

BETWEEN: Final = 16
"""Groups that may stand between two of a chain."""

LONGEST: Final = 200_000.0
"""Nanoseconds of a chain: a thread that comes late, or loses its core, keeps others waiting for its share."""

Tables = Sequence[Sequence[str]]
"""Of each group the tensors that it reads and writes, as its strips count them."""


class Chain(NamedTuple):
    """Positions of groups: those of a chain, and those that stand between them and may stand before them."""

    links: list[int]
    before: list[int]


def chains_of(
    block: Nodes, groups: Sequence[Group], tables: Tables, stages: Sequence[Stages], threads: int
) -> list[Chain]:
    """The chains of at least two groups for so many threads."""
    search = _Search(block, groups, tables, stages, threads)
    found: list[Chain] = []
    taken: set[int] = set()
    for first in range(len(groups)):
        if first not in taken and search.strips_of(first) is not None:
            chain = search.chain_from(first, taken)
            if len(chain.links) > 1:
                found.append(chain)
                taken.update(chain.links, chain.before)
    return found


def side_by_side(count: int, chains: Sequence[Chain]) -> list[int]:
    """The positions of so many groups in an order in which those of each chain stand together."""
    begins = {chain.links[0]: [*chain.before, *chain.links] for chain in chains}
    taken = {i for moved in begins.values() for i in moved}
    return [i for first in range(count) for i in begins.get(first, () if first in taken else (first,))]


class _Search:
    def __init__(
        self, block: Nodes, groups: Sequence[Group], tables: Tables, stages: Sequence[Stages], threads: int
    ) -> None:
        self._block, self._groups, self._tables, self._stages, self._threads = block, groups, tables, stages, threads
        tensor_of = {state: tensor for tensor, state in block.state_of.items()}
        updates = block.block.desc.updates
        self._old = {block.root[u.tensor]: tensor_of.get(u.state, "") for u in updates}

    def strips_of(self, i: int) -> Strips | None:
        """The strips of a group, if each thread gets as many of them, and they update no state."""
        stages = self._stages[i].stages
        strips = stages[0].strips if stages else None
        if strips is None or strips.parts % self._threads or strips.rows % self._threads:
            return None
        updates = len(stages) == 1 and not self._old.keys().isdisjoint(self._groups[i].makes)
        return None if updates else strips

    def chain_from(self, first: int, taken: set[int]) -> Chain:
        """The group at this position, and those that go on with its strips."""
        chain, before, strips = [first], list[int](), self.strips_of(first)
        assert strips is not None, "only asked of what has strips"
        made: dict[str, bool] = {}  # by root, whether strips have it: else it is there after this phase
        read = set[str]()  # by what stands between
        self._make(first, made)
        left = LONGEST - self._stages[first].stages[0].cost
        for i in range(first + 1, len(self._groups)):
            group = self._groups[i]
            if group.is_host or i - first - len(chain) >= BETWEEN:
                break
            if i not in taken and self._goes_on(i, strips.rows, made, read) and self._stages[i].stages[0].cost < left:
                chain.append(i)
                self._make(i, made)
                left -= self._stages[i].stages[0].cost
            elif i not in taken and made.keys().isdisjoint(group.reads) and self._old.keys().isdisjoint(group.makes):
                before.append(i)
            else:
                made.update(dict.fromkeys(group.makes, False))
                read |= group.reads
        return Chain(chain, self._wanted(chain, before))

    def _wanted(self, chain: Sequence[int], before: Sequence[int]) -> list[int]:
        """Those that make something that the chain reads."""
        read = {name for i in chain for name in self._groups[i].reads}
        found: list[int] = []
        for i in reversed(before):
            if not read.isdisjoint(self._groups[i].makes):
                found.insert(0, i)
                read |= self._groups[i].reads
        return found

    def _make(self, i: int, made: dict[str, bool]) -> None:
        made.update(dict.fromkeys(self._groups[i].makes, len(self._stages[i].stages) == 1))

    def _goes_on(self, i: int, rows: int, made: Mapping[str, bool], read: set[str]) -> bool:
        """Whether the strips of a group read the rows of theirs that strips of the chain made, and some of them."""
        strips, group = self.strips_of(i), self._groups[i]
        if strips is None or strips.rows != rows or made.keys().isdisjoint(group.reads):
            return False
        if any(self._old.get(name) in read for name in group.makes):
            return False  # it would update a state before that is read
        block, table = self._block, self._tables[i]
        own = {block.root.get(name) for place, name in enumerate(table) if place in strips.reads}
        whole = {block.root.get(name) for place, name in enumerate(table) if place not in strips.reads}
        return all(
            name in own and name not in whole and made[name] and block.types[name].static_shape[0] == rows
            for name in group.reads
            if name in made
        )
