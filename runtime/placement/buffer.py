"""The unit of placement: a number of bytes that are needed during an interval of the clock."""

from __future__ import annotations

from typing import NamedTuple


class Buffer(NamedTuple):
    """A buffer of `nbytes` bytes that are needed during the half-open interval [start, stop) of the clock."""

    name: str
    nbytes: int
    start: int
    stop: int
