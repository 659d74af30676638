"""The order in which items are tried: the static orders of the placement algorithms.

The keys are the busiest section an item lives in, how long it lives, its size, and its area (size by life), in various
orders of importance, as in Moffitt, "MiniMalloc" (2023). Ties go to the first item of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from runtime.placement.sections import Part

RANKINGS: Final = (("size", "life"), ("peak", "life", "area"), ("area", "life"), ("life", "area"), ("peak", "area"))
"""The rankings in the order in which they are tried; the first two are the cheapest for long programs."""


def ranking_of(part: Part, by: Sequence[str]) -> list[int]:
    """Return the items' indices, from the first choice to the last."""
    first, last, size = (np.array(column, np.int64) for column in zip(*part.items, strict=True))
    life = last - first
    columns = {"size": size, "life": life, "area": _area(part)}
    if "peak" in by:
        columns["peak"] = np.array(peaks_of(part), np.int64)
    return np.lexsort([-columns[name] for name in reversed(by)]).tolist()


def peaks_of(part: Part) -> list[int]:
    """Return the bytes of the busiest section that each item lives in."""
    load = np.array(part.load, np.int64)
    return [int(load[item.first : item.last].max()) for item in part.items]


def _area(part: Part) -> np.ndarray:
    """Return size by life as ranks, since the products may not fit 64 bits."""
    areas = [(item.last - item.first) * item.size for item in part.items]
    ranks = {area: rank for rank, area in enumerate(sorted(set(areas)))}
    return np.array([ranks[area] for area in areas], np.int64)
