"""What is placed: a number of bytes that are needed for some time."""

from __future__ import annotations

from typing import NamedTuple


class Buffer(NamedTuple):
    """`nbytes` bytes that are needed during the half-open interval [start, stop) of the clock."""

    name: str
    nbytes: int
    start: int
    stop: int
