"""Tiled chains: groups whose work items are row tiles of the same rows, which depend on nothing else of each other.

A thread that computed a row tile of one group continues with that of the next group, whose data are in its caches, and
waits for no other thread: all groups are in one phase. So each thread computes a network of small layers for its rows
of the batch, forwards and back, up to the sums over all rows, which follow.

A group joins the chain of an earlier one if no group between the two computes an operand of it; it then moves next to
the others of its chain. A group that reads nothing of the chain, such as one that reads labels, may move before it.
Updates of states are in a later kernel step, or in no chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from runtime.codegen.costs import MAX_CHAIN_CYCLES
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.nodes import Nodes
from runtime.codegen.rules import KernelSteps, RowTiles

MAX_GROUPS_BETWEEN: Final = 16
"""Upper bound on the groups between two of a chain."""


Tables = Sequence[Sequence[str]]
"""For each group, the tensors that it reads and writes, as its row tiles count them."""


class TiledChain(NamedTuple):
    """Positions of groups: those of a chain, and those between them that may move before it."""

    links: list[int]
    moved_before: list[int]


def tiled_chains(
    block: Nodes, groups: Sequence[Group], tables: Tables, steps: Sequence[KernelSteps], threads: int
) -> list[TiledChain]:
    """Return the chains of at least two groups that run on `threads` threads."""
    search = _Search(block, groups, tables, steps, threads)
    found: list[TiledChain] = []
    taken: set[int] = set()
    for first in range(len(groups)):
        if first not in taken and search.row_tiles_of(first) is not None:
            chain = search.chain_from(first, taken)
            if len(chain.links) > 1:
                found.append(chain)
                taken.update(chain.links, chain.moved_before)
    return found


def chained_order(count: int, chains: Sequence[TiledChain]) -> list[int]:
    """Return the positions of `count` groups in an order in which those of each chain are neighbours."""
    begins = {chain.links[0]: [*chain.moved_before, *chain.links] for chain in chains}
    taken = {i for moved in begins.values() for i in moved}
    return [i for first in range(count) for i in begins.get(first, () if first in taken else (first,))]


class _Search:
    def __init__(
        self, block: Nodes, groups: Sequence[Group], tables: Tables, steps: Sequence[KernelSteps], threads: int
    ) -> None:
        self._block, self._groups, self._tables, self._steps, self._threads = block, groups, tables, steps, threads
        tensor_of = {state: tensor for tensor, state in block.state_of.items()}
        updates = block.block.desc.updates
        self._old = {block.root[u.tensor]: tensor_of.get(u.state, "") for u in updates}

    def row_tiles_of(self, i: int) -> RowTiles | None:
        """Return the row tiles of a group, if each thread gets as many of them, and they update no state."""
        steps = self._steps[i].steps
        row_tiles = steps[0].row_tiles if steps else None
        if row_tiles is None or row_tiles.parts % self._threads or row_tiles.rows % self._threads:
            return None
        updates = len(steps) == 1 and not self._old.keys().isdisjoint(self._groups[i].outputs)
        return None if updates else row_tiles

    def chain_from(self, first: int, taken: set[int]) -> TiledChain:
        """Return the chain of the group at this position and those that continue with its row tiles."""
        chain, before, row_tiles = [first], list[int](), self.row_tiles_of(first)
        assert row_tiles is not None, "only asked of what has strips"
        is_tiled: dict[
            str, bool
        ] = {}  # by root, True if row tiles compute it; otherwise it is complete after this phase
        read = set[str]()  # by groups between
        self._note_outputs(first, is_tiled)
        left = MAX_CHAIN_CYCLES - self._steps[first].steps[0].cost
        for i in range(first + 1, len(self._groups)):
            group = self._groups[i]
            if group.is_host or i - first - len(chain) >= MAX_GROUPS_BETWEEN:
                break
            if (
                i not in taken
                and self._goes_on(i, row_tiles.rows, is_tiled, read)
                and self._steps[i].steps[0].cost < left
            ):
                chain.append(i)
                self._note_outputs(i, is_tiled)
                left -= self._steps[i].steps[0].cost
            elif (
                i not in taken
                and is_tiled.keys().isdisjoint(group.reads)
                and self._old.keys().isdisjoint(group.outputs)
            ):
                before.append(i)
            else:
                is_tiled.update(dict.fromkeys(group.outputs, False))
                read |= group.reads
        return TiledChain(chain, self._wanted(chain, before))

    def _wanted(self, chain: Sequence[int], before: Sequence[int]) -> list[int]:
        """Return the groups that compute operands of the chain."""
        read = {name for i in chain for name in self._groups[i].reads}
        found: list[int] = []
        for i in reversed(before):
            if not read.isdisjoint(self._groups[i].outputs):
                found.insert(0, i)
                read |= self._groups[i].reads
        return found

    def _note_outputs(self, i: int, is_tiled: dict[str, bool]) -> None:
        is_tiled.update(dict.fromkeys(self._groups[i].outputs, len(self._steps[i].steps) == 1))

    def _goes_on(self, i: int, rows: int, is_tiled: Mapping[str, bool], read: set[str]) -> bool:
        """Return True if row tiles of a group read rows of the chain, and only those that the same tile computed."""
        row_tiles, group = self.row_tiles_of(i), self._groups[i]
        if row_tiles is None or row_tiles.rows != rows or is_tiled.keys().isdisjoint(group.reads):
            return False
        if any(self._old.get(name) in read for name in group.outputs):
            return False  # it would update a state before that is read
        block, table = self._block, self._tables[i]
        own = {block.root.get(name) for index, name in enumerate(table) if index in row_tiles.reads}
        whole = {block.root.get(name) for index, name in enumerate(table) if index not in row_tiles.reads}
        return all(
            name in own and name not in whole and is_tiled[name] and block.types[name].static_shape[0] == rows
            for name in group.reads
            if name in is_tiled
        )
