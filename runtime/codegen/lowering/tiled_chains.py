"""Tiled chains: groups whose work items are row tiles of the same rows, which depend on nothing else of each other.

A thread that computed a row tile of one group continues with that of the next group, whose data are in its caches, and
waits for no other thread: all groups are in one phase. There are two kinds of chains.

* Chains of small groups, on several threads. Each thread has one tile: it computes a network of small layers for its
  rows of the batch, forwards and back, up to the sums over all rows, which follow.
* Chains of large tensors, on any number of threads. Each thread takes tile after tile, so small that the next group
  finds in a cache what would otherwise have to come from memory: the gradient of a batch norm for a few images, the
  two gradients of the convolution before it for the same images, and the sums of the next batch norm over these.

A group joins the chain of an earlier one if no group between the two computes an operand of it; it then moves next to
the others of its chain. A group that reads nothing of the chain, such as one that reads labels, may move before it.
Updates of states are in a later kernel step, or in no chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, inf
from typing import Final, NamedTuple

from runtime.codegen.costs import MAX_CHAIN_CYCLES, MAX_TILE_BYTES, MIN_LONE_TILED_BYTES, MIN_TILED_BYTES
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.rules import KernelSteps, RowTiles

MAX_GROUPS_BETWEEN: Final = 16
"""Upper bound on the groups between two of a chain."""

MAX_TILES: Final = 1024
"""Upper bound on the row tiles of a chain, each of which is an entry of a table of the compiled step."""

Tables = Sequence[Sequence[str]]
"""For each group, the tensors that it reads and writes, as its row tiles count them."""


class TiledChain(NamedTuple):
    """Positions of groups.

    Attributes:
        links: the groups of the chain.
        moved_before: groups between them that may move before the chain.
        tiles: number of row tiles.
        runs: number of equal ranges of row tiles that threads take one by one, because some groups add to the sums of
            the tile before.
        is_large: True if the groups pass on large tensors, tile by tile.
    """

    links: list[int]
    moved_before: list[int]
    tiles: int
    runs: int
    is_large: bool


def tiled_chains(
    block: Nodes, groups: Sequence[Group], tables: Tables, steps: Sequence[KernelSteps], threads: int
) -> list[TiledChain]:
    """Return the chains of at least two groups that run on `threads` threads."""
    search = _Search(block, groups, tables, steps, threads)
    found: list[TiledChain] = []
    taken: set[int] = set()
    for first in range(len(groups)):
        if first in taken:
            continue
        chain = search.small_chain_from(first, taken) or search.large_chain_from(first, taken)
        if chain is not None:
            found.append(chain)
            taken.update(chain.links, chain.moved_before)
    return found


def chained_order(count: int, chains: Sequence[TiledChain]) -> list[int]:
    """Return the positions of `count` groups in an order in which those of each chain are neighbours."""
    begins = {chain.links[0]: [*chain.moved_before, *chain.links] for chain in chains}
    taken = {i for moved in begins.values() for i in moved}
    return [i for first in range(count) for i in begins.get(first, () if first in taken else (first,))]


class _Growth(NamedTuple):
    """Limits of a chain on the groups that join it.

    Attributes:
        tiles: number of its row tiles.
        runs: number of equal ranges of them that one thread computes in order.
        threads: number of threads, each of which gets as many runs.
        cycles: upper bound on the cycles of the row tiles of a group.
        min_bytes: least size of the largest tensor that a group reads from the chain; 0 if each thread has one tile.
    """

    tiles: int
    runs: int
    threads: int
    cycles: float
    min_bytes: int

    def with_tiles(self, row_tiles: RowTiles) -> _Growth | None:
        """Return the limits of a chain with these row tiles too; None if threads cannot share them evenly."""
        tiles = gcd(self.tiles, row_tiles.parts, row_tiles.rows)
        runs = gcd(self.runs, row_tiles.runs, tiles)
        if runs % self.threads or tiles == 1 or (not self.min_bytes and tiles != self.tiles):
            return None
        return self._replace(tiles=tiles, runs=runs)


class _Search:
    def __init__(
        self, block: Nodes, groups: Sequence[Group], tables: Tables, steps: Sequence[KernelSteps], threads: int
    ) -> None:
        self._block, self._groups, self._tables, self._steps, self._threads = block, groups, tables, steps, threads
        tensor_of = {state: tensor for tensor, state in block.state_of.items()}
        updates = block.block.desc.updates
        self._old = {block.root[u.tensor]: tensor_of.get(u.state, "") for u in updates}

    def small_chain_from(self, first: int, taken: set[int]) -> TiledChain | None:
        """Return the chain of a group with a tile for each thread, if several threads compute it in little time."""
        if self._threads == 1 or self._steps[first].tiled != 0:
            return None
        return self._chain_from(first, taken, _Growth(self._threads, self._threads, self._threads, MAX_CHAIN_CYCLES, 0))

    def large_chain_from(self, first: int, taken: set[int]) -> TiledChain | None:
        """Return the chain of a group whose groups pass on large tensors, tile by tile."""
        row_tiles = self._row_tiles_of(first)
        if row_tiles is None:
            return None
        tiles = gcd(row_tiles.parts, row_tiles.rows)
        while tiles > MAX_TILES and tiles % 2 == 0:
            tiles //= 2
        if tiles > MAX_TILES:
            return None
        return self._chain_from(first, taken, _Growth(tiles, tiles, self._threads, inf, MIN_TILED_BYTES))

    def _chain_from(self, first: int, taken: set[int], growth: _Growth) -> TiledChain | None:
        """Return the chain that begins with the group at this position; None if the group has no such row tiles."""
        row_tiles = self._row_tiles_of(first)
        begun = row_tiles and growth.with_tiles(row_tiles)
        if row_tiles is None or begun is None:
            return None
        chain, before = [first], list[int]()
        is_tiled: dict[str, bool] = {}  # by root: True if row tiles compute it, else it is complete after this phase
        read = set[str]()  # by groups between
        self._note_outputs(first, is_tiled)
        growth = begun._replace(cycles=begun.cycles - self._cycles(first))
        for i in range(first + 1, len(self._groups)):
            group = self._groups[i]
            if group.is_host or i - first - len(chain) >= MAX_GROUPS_BETWEEN:
                break
            grown = None if i in taken else self._grown(i, row_tiles.rows, is_tiled, read, growth)
            if grown is not None:
                chain.append(i)
                self._note_outputs(i, is_tiled)
                growth = grown
            elif (
                i not in taken
                and is_tiled.keys().isdisjoint(group.reads)
                and self._old.keys().isdisjoint(group.outputs)
            ):
                before.append(i)
            else:
                is_tiled.update(dict.fromkeys(group.outputs, False))
                read |= group.reads
        if len(chain) < 2 and not (growth.min_bytes and self._is_large(first)):
            return None
        return TiledChain(chain, self._wanted(chain, before), growth.tiles, growth.runs, bool(growth.min_bytes))

    def _is_large(self, i: int) -> bool:
        """Return True if a group reads or writes a tensor of which a part stays in the last-level cache."""
        names = (*self._groups[i].reads, *self._groups[i].outputs)
        return any(self._block.types[name].nbytes >= MIN_LONE_TILED_BYTES for name in names)

    def _row_tiles_of(self, i: int) -> RowTiles | None:
        """Return the row tiles of a group, if they update no state."""
        steps = self._steps[i]
        if steps.tiled is None:
            return None
        updates = self._is_tiled_to_the_end(i) and not self._old.keys().isdisjoint(self._groups[i].outputs)
        return None if updates else steps.steps[steps.tiled].row_tiles

    def _is_tiled_to_the_end(self, i: int) -> bool:
        """Return True if row tiles compute the results of a group, not a step after them."""
        return self._steps[i].tiled == len(self._steps[i].steps) - 1

    def _cycles(self, i: int) -> float:
        steps = self._steps[i]
        return steps.steps[steps.tiled].cost if steps.tiled is not None else inf

    def _grown(
        self, i: int, rows: int, is_tiled: Mapping[str, bool], read: set[str], growth: _Growth
    ) -> _Growth | None:
        """Return the limits for further groups if this one joins the chain; None if it cannot."""
        row_tiles = self._row_tiles_of(i)
        if not growth.min_bytes and self._steps[i].tiled:
            return None
        if row_tiles is None or not self._goes_on(i, row_tiles, rows, is_tiled, read):
            return None
        grown, passed = growth.with_tiles(row_tiles), self._passed_bytes(i, is_tiled)
        if grown is None or passed < growth.min_bytes or self._cycles(i) >= growth.cycles:
            return None
        if growth.min_bytes and (passed > grown.tiles * MAX_TILE_BYTES or self._reads_to_prepare(i, is_tiled)):
            return None
        return grown._replace(cycles=growth.cycles - self._cycles(i))

    def _passed_bytes(self, i: int, is_tiled: Mapping[str, bool]) -> int:
        """Return the size of the largest tensor that a group reads from the chain."""
        return max((self._block.types[name].nbytes for name in self._groups[i].reads if name in is_tiled), default=0)

    def _reads_to_prepare(self, i: int, is_tiled: Mapping[str, bool]) -> bool:
        """Return True if steps before the row tiles may read what the chain computes."""
        first, steps = self._groups[i].nodes[0], self._steps[i]
        inputs = first.inputs
        numbers = {n for step in steps.steps[: steps.tiled] if step.prepack for n in step.prepack.reads}
        return any(n >= len(inputs) or self._block.root.get(inputs[n], inputs[n]) in is_tiled for n in numbers)

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
        is_tiled.update(dict.fromkeys(self._groups[i].outputs, self._is_tiled_to_the_end(i)))

    def _goes_on(self, i: int, row_tiles: RowTiles, rows: int, is_tiled: Mapping[str, bool], read: set[str]) -> bool:
        """Return True if row tiles of a group read rows of the chain, and only those that the same tile computed."""
        group = self._groups[i]
        if row_tiles.rows != rows or is_tiled.keys().isdisjoint(group.reads):
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
