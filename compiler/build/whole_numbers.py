"""Checks of integers from a user: counts of steps and epochs, seeds."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex, cast

from registry import OpError
from registry.signature import MAX_INT64


def require_whole(what: str, *, least: int | None = 1, **given: object) -> None:
    """Raise OpError unless each value is an integer of at most 64 bits and at least `least`.

    Args:
        what: the call that the message begins with.
        least: the smallest valid number; None for any.
        given: the numbers by the names of their arguments.
    """
    for name, value in given.items():
        if not is_whole(value):
            raise OpError(f"{what}: {name}={value!r} is not a whole number of at most 64 bits")
        if least is not None and index(cast(SupportsIndex, value)) < least:
            raise OpError(f"{what}: {name}={value}; it starts at {least}")


def is_whole(value: object) -> bool:
    """Return True for an integer of at most 64 bits; booleans are not integers."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or getattr(value, "shape", ()):
        return False
    return -MAX_INT64 - 1 <= index(cast(SupportsIndex, value)) <= MAX_INT64
