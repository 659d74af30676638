"""Restarts of the exact search: a part that one order cannot decide in a few states, another order often can.

1. An attempt has a limit of states and starts with the items in some order: by products of powers of life, size and
   busiest section, now and then perturbed.
2. Most attempts glue items with the same life into one item. This may exclude solutions, but removes those that differ
   only in the order of such items.
3. Every eighth attempt glues nothing and has twice the limit of the previous such attempt. So where there is no
   solution, that is proven in the end.
4. Sections that ended branches are visited sooner in the next attempts.

The orders come from a pseudo-random sequence with a fixed start, so the result depends only on the part and the effort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runtime.placement.rankings import peaks_of, ranking_of
from runtime.placement.search import Outcome, Search
from runtime.placement.sections import Item, Part

WHOLE_EVERY = 8


class Tried(NamedTuple):
    """The outcome of the attempts, the offsets if they found some, and the number of visited sections."""

    outcome: Outcome
    offsets: list[int]
    visits: int


def attempt(part: Part, capacity: int, visits: int) -> Tried:
    """Try to place the part below the capacity with at most `visits` visited sections of states."""
    numbers = _draws()
    blame = [1.0] * part.sections
    limit = 2 * len(part.items) + 1000
    used = number = 0
    while used < visits:
        whole = number % WHOLE_EVERY == 0
        glued, stacks = (part, [[i] for i in range(len(part.items))]) if whole else _glued(part, numbers)
        order = _order(glued, numbers) if number else ranking_of(part, ("peak", "life", "area"))
        nodes = min(limit << number // WHOLE_EVERY if whole else limit, (visits - used) // part.sections + 1)
        search = Search(glued, order, capacity, nodes, blame)
        outcome = search.run()
        used += search.used * part.sections
        if outcome is Outcome.FOUND:
            return Tried(outcome, _unglued(part, stacks, search.offsets), used)
        if outcome is Outcome.IMPOSSIBLE and whole:
            return Tried(outcome, [], used)
        mean = sum(blame) / len(blame)
        blame = [1.0 + count / mean for count in blame]
        number += 1
    return Tried(Outcome.STOPPED, [], used)


def _glued(part: Part, numbers: Iterator[int]) -> tuple[Part, list[list[int]]]:
    """Return the part with most groups of items of equal life glued into one item, and the items of each."""
    together: dict[tuple[int, int], list[int]] = {}
    for i, (first, last, _) in enumerate(part.items):
        together.setdefault((first, last), []).append(i)
    stacks: list[list[int]] = []
    for _, group in sorted(together.items()):
        stacks += [group] if next(numbers) % 10 < 7 else [[i] for i in group]
    items = [Item(*part.items[stack[0]][:2], sum(part.items[i].size for i in stack)) for stack in stacks]
    return Part(items, part.buffers, part.sections), stacks


def _unglued(part: Part, stacks: Sequence[Sequence[int]], bottoms: Sequence[int]) -> list[int]:
    offsets = [0] * len(part.items)
    for stack, bottom in zip(stacks, bottoms, strict=True):
        for i in stack:
            offsets[i] = bottom
            bottom += part.items[i].size
    return offsets


def _order(part: Part, numbers: Iterator[int]) -> list[int]:
    """Return the items ordered by a product of powers, perturbed or not; integers give the same order everywhere."""
    of_life, of_size = ((0, 1, 2, 4, 8)[next(numbers) % 5] for _ in range(2))
    of_peak = (0, 4, 12)[next(numbers) % 3]
    spread = (0, 150, 450)[next(numbers) % 3]
    weights: list[int] = []
    for (first, last, size), peak in zip(part.items, peaks_of(part), strict=True):
        disturbed = 1000 - spread + next(numbers) % (2 * spread + 1)
        weights.append((last - first) ** of_life * size**of_size * peak**of_peak * disturbed**4)
    return sorted(range(len(weights)), key=lambda i: (-weights[i], i))


def _draws() -> Iterator[int]:
    """Yield the upper 31 bits of a linear congruential sequence with Knuth's constants, the same on every machine."""
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield state >> 33
