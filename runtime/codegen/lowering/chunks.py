"""Chunks: ranges of the work items of a kernel step, enough for threads to share; no result depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as joined
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from runtime.codegen.costs import MAX_MERGED_STEP_CYCLES, MIN_CHUNK_CYCLES

if TYPE_CHECKING:  # an engine that binds compiled code shares rows by this file alone
    from runtime.codegen.lowering.phases import Phases
    from runtime.codegen.rules import KernelStep, KernelSteps

CHUNKS_PER_THREAD: Final = 4
"""Number of chunks for each thread, so that a late thread finds some left."""

NO_CHAIN: Final[tuple[list[int], int, int, bool]] = ([], 1, 1, False)

Kind = TypeVar("Kind")


class ItemRange(NamedTuple):
    """Work items of a step from `start` to before `stop`; steps are numbered as in `KernelSteps.all`."""

    group: int
    step: int
    start: int
    stop: int


Chunk = tuple[ItemRange, ...]
"""Ranges that one thread computes one after the other."""


def chunks_of(kernel_steps: Sequence[KernelSteps], phases: Phases, threads: int) -> list[list[Chunk]]:
    """Return the chunks of every phase, in the order in which threads take them."""
    found: list[list[tuple[list[Chunk], float]]] = [[] for _ in range(phases.count)]
    chains = zip(phases.tiled_chains, phases.tiles, phases.runs, phases.backwards, strict=True)
    chain_of = {i: chain for chain in chains for i in chain[0]}
    for i, steps in enumerate(kernel_steps):
        for j, kernel_step in enumerate(steps.steps):
            chain, tiles, runs, backwards = chain_of.get(i, NO_CHAIN) if j == steps.tiled else NO_CHAIN
            if not chain:
                number = len(steps.prepacked) + j
                chunks: list[Chunk] = [(ItemRange(i, number, *items),) for items in item_ranges(kernel_step, threads)]
                found[phases.first[i] + j].append((chunks, kernel_step.cost))
            elif i == chain[0]:
                cost = sum(tiled_step(kernel_steps[link]).cost for link in chain)
                tiled = tiled_chunks(kernel_steps, chain, tiles, runs)
                found[phases.first[i] + j].append((_backwards(tiled, threads) if backwards else tiled, cost))
    return [in_order(_merge_tiny(phase)) for phase in found]


def _backwards(chunks: list[Chunk], threads: int) -> list[Chunk]:
    """Return the chunks in the order in which threads find those first that they took last before."""
    middle = len(chunks) // 2 if threads > 1 else len(chunks)
    return [*reversed(chunks[:middle]), *reversed(chunks[middle:])]


def _merge_tiny(steps: Sequence[tuple[list[Chunk], float]]) -> list[tuple[list[Chunk], float]]:
    """Merge kernel steps that have one chunk and take next to no time into one chunk."""
    tiny = [(chunks[0], cost) for chunks, cost in steps if len(chunks) == 1 and cost < MAX_MERGED_STEP_CYCLES]
    others = [(chunks, cost) for chunks, cost in steps if len(chunks) > 1 or cost >= MAX_MERGED_STEP_CYCLES]
    together = tuple(stretch for chunk, _ in tiny for stretch in chunk)
    return [*others, ([together], sum(cost for _, cost in tiny))] if tiny else others


def tiled_chunks(steps: Sequence[KernelSteps], chain: Sequence[int], tiles: int, runs: int) -> list[Chunk]:
    """Return a chain of groups as a chunk for each run of tiles: for each tile, its share of each group's work items.

    Tiles of a run are computed in order: some groups add to the sums of the tile before.
    """
    tiled = {i: tiled_step(steps[i]) for i in chain}
    of_tile = [
        tuple(
            ItemRange(
                i,
                len(steps[i].prepacked) + (steps[i].tiled or 0),
                kernel_step.first + kernel_step.work_items * n // tiles,
                kernel_step.first + kernel_step.work_items * (n + 1) // tiles,
            )
            for i, kernel_step in tiled.items()
        )
        for n in range(tiles)
    ]
    each = tiles // runs
    return [tuple(joined.from_iterable(of_tile[n : n + each])) for n in range(0, tiles, each)]


def tiled_step(steps: KernelSteps) -> KernelStep:
    """Return the kernel step whose work items are row tiles."""
    assert steps.tiled is not None, "a group of a chain has row tiles"
    return steps.steps[steps.tiled]


def item_ranges(kernel_step: KernelStep, threads: int) -> list[tuple[int, int]]:
    """Return the work items of a kernel step in ranges of nearly equal size."""
    cost = min(kernel_step.cost, threads * MIN_CHUNK_CYCLES) if kernel_step.prefers_ranges else kernel_step.cost
    each, first = kernel_step.in_order, kernel_step.first
    ranges = split_items(kernel_step.work_items // each, cost, threads)
    return [(first + start * each, first + stop * each) for start, stop in ranges]


def in_order(steps: Sequence[tuple[list[Kind], float]]) -> list[Kind]:
    """Return the chunks of a phase in the order in which threads take them.

    `steps` has the chunks of each kernel step, and its cycles. Half of the threads take chunks from the start, half
    from the end. Therefore the first halves of all kernel steps come first and the second halves last: in every phase a
    thread gets the same part of each. Chunks that cannot be shared are in the middle, for threads that are done, unless
    they take so long that others would have to wait.
    """
    long = sum(cost for _, cost in steps) / 4
    placed: list[tuple[float, Kind]] = []
    for chunks, cost in steps:
        if len(chunks) == 1:
            placed.append((0.0 if cost > long else 0.5, chunks[0]))
        else:
            placed += [((i + 0.5) / len(chunks), chunk) for i, chunk in enumerate(chunks)]
    return [chunk for _, chunk in sorted(placed, key=lambda pair: pair[0])]


def split_items(items: int, cost: float, threads: int) -> list[tuple[int, int]]:
    """Return ranges of `items` work items, which take `cost` cycles all together, as chunks."""
    count = min(items, threads * CHUNKS_PER_THREAD, round(cost / MIN_CHUNK_CYCLES)) if threads > 1 else 1
    count -= count % threads if count > threads else 0  # the same number for each thread
    return list(pairwise(items * i // max(count, 1) for i in range(max(count, 1) + 1)))
