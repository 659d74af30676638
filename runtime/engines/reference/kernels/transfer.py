"""Copies between the arena and the file beside it; the executor decides when they run.

Copied bytes are given back to the system part by part, so that no tensor is ever in memory twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from runtime.contract import FILE
from runtime.engines.spill_file import expect, give_back
from runtime.kernel import Array, Effect, kernel

COPY_BYTES: Final = 1 << 20
"""Bytes that are copied at a time, a multiple of every page size."""


@kernel(effects=(Effect(FILE, "writes", confined=True),))
def spill(x: Array, *, out: Array) -> None:
    for source, target in _parts(x, out):
        np.copyto(target, source)
        give_back(target)


@kernel(effects=(Effect(FILE, "reads", confined=True),))
def reload(x: Array, *, out: Array) -> None:
    expect(x)
    for source, target in _parts(x, out):
        np.copyto(target, source)
        give_back(source)


def _parts(*arrays: Array) -> Iterator[list[Array]]:
    """Yield the bytes of contiguous arrays of one size, part by part."""
    flat = [array.reshape(-1).view(np.uint8) for array in arrays]
    for start in range(0, len(flat[0]), COPY_BYTES):
        yield [each[start : start + COPY_BYTES] for each in flat]
