"""The spelling of operators' parameters in Python, where it differs from the attribute that a file has.

Files of format version 1 keep the names of attributes. A parameter with one of these annotations has another name,
which is mapped once, when a call is bound to its attributes. One number is taken for a tuple of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Axis = int | tuple[int, ...]
"""One axis, or several; the attribute `axes`."""

Numbers = int | tuple[int, ...]
"""A number for each axis of a window, or one for all; not the name of another attribute."""

Ratio = float
"""The share of elements that dropout leaves out; the attribute `rate`."""


@dataclass(frozen=True)
class Spelling:
    """The attribute that a parameter becomes: its name in files, and its kind."""

    attribute: str
    kind: str


SPELLINGS: Final = {"Axis": Spelling("axes", "ints"), "Ratio": Spelling("rate", "float")}
"""The spelling by the annotation of a parameter."""


def as_tuple(numbers: Axis) -> tuple[int, ...]:
    """Return the numbers as a tuple."""
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)
