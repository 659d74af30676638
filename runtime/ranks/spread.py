"""The steps of an evaluation, dealt out to the ranks.

1. Of each round of n steps, rank r of n makes step number r.
2. Then all ranks get the fetches of all steps of the round, in the order of the steps. What a step contributes to the
   result is combined in that order, as one process does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np

from runtime.dtypes import Array
from runtime.ranks.group import Group

Step = TypeVar("Step")

Fetches = Mapping[str, Array]


def spread(
    group: Group,
    steps: Iterator[Step],
    make: Callable[[Step], Fetches],
    like: Callable[[Step], Fetches],
    between: Callable[[], None],
) -> Iterator[tuple[Step, Fetches]]:
    """Yield each step with its fetches, in order.

    Args:
        group: the ranks; all have the same steps.
        steps: the steps.
        make: makes a step, and returns its fetches.
        like: returns arrays with the dtypes and shapes of a step's fetches, without making it.
        between: called before each round.
    """
    while round := list(islice(steps, group.size)):
        between()
        own = _packed(make(round[group.rank])) if group.rank < len(round) else np.empty(0, np.uint8)
        counts = [sum(array.nbytes for array in like(step).values()) for step in round]
        counts += [0] * (group.size - len(round))
        everything = np.empty(sum(counts), np.uint8)
        group.all_gather(own, everything, counts)
        ends = np.cumsum([0, *counts])
        for step, (start, stop) in zip(round, pairwise(ends), strict=False):
            yield step, _unpacked(everything[start:stop], like(step))


def _packed(fetches: Fetches) -> Array:
    """Return the bytes of all fetches, one after another."""
    return np.concatenate(
        [np.frombuffer(array.tobytes(), np.uint8) for array in fetches.values()] or [np.empty(0, "u1")]
    )


def _unpacked(packed: Array, like: Fetches) -> dict[str, Array]:
    found: dict[str, Array] = {}
    start = 0
    for name, array in like.items():
        part = packed[start : start + array.nbytes]
        found[name] = np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape)
        start += array.nbytes
    return found
