"""The spelling of operators' parameters in Python, where it differs from the attribute that a file has.

Files of format version 1 keep the names and kinds of attributes. A parameter with one of these annotations has another
name, or takes one number for a tuple of them; both are mapped once, when a call is bound to its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from prograd_proto import Attribute
from prograd_proto.errors import require

Axis = int | tuple[int, ...]
"""One axis, or several; the attribute `axes`."""

Numbers = int | tuple[int, ...]
"""A number for each axis of a window, or one for all; not the name of another attribute."""

Pair = int | tuple[int, ...]
"""Two numbers, (vertical, horizontal), or one for both."""

Edges = int | tuple[int, ...]
"""Four numbers, (top, left, bottom, right), or two for both directions, or one for all."""

Ratio = float
"""The share of elements that dropout leaves out; the attribute `rate`."""


@dataclass(frozen=True)
class Spelling:
    """The attribute that a parameter becomes.

    Attributes:
        attribute: its name in files; "" for the name of the parameter.
        kind: its kind, a word of `prograd_proto.attributes.KINDS`.
        length: elements of the tuple for which one number stands; 0 for as many as the default has.
        stored: returns the value that files have for the value of a call.
    """

    attribute: str
    kind: str
    length: int = 0
    stored: Callable[[Any], Attribute] | None = None


def as_tuple(numbers: Axis) -> tuple[int, ...]:
    """Return the numbers as a tuple."""
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


def four_edges(padding: Edges) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right); two numbers stand for both vertical and both horizontal edges."""
    padding = as_tuple(padding)
    require(
        len(padding) in (2, 4),
        f"padding has {len(padding)} numbers; it is (top, left, bottom, right) or (vertical, horizontal)",
    )
    top, left, bottom, right = padding * (4 // len(padding))
    return top, left, bottom, right


SPELLINGS: Final = {
    "Axis": Spelling("axes", "ints", 1),
    "Pair": Spelling("", "ints", 2),
    "Edges": Spelling("", "ints", 4, stored=four_edges),
    "Ratio": Spelling("rate", "float"),
}
"""The spelling by the annotation of a parameter."""
