"""The most bytes that Python objects and arrays took at once, as `tracemalloc` counts them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Allocation:
    """The measurement of a `traced` block: `peak_bytes` is 0 until the block ends."""

    peak_bytes: int = 0


@contextmanager
def traced() -> Generator[Allocation]:
    """Measure the block's peak; tracing ends with the block, because it makes everything five times as slow."""
    allocation = Allocation()
    tracemalloc.start()
    try:
        yield allocation
        _, allocation.peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
