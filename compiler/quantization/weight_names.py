"""The names of the states that stand for a weight, and the patterns of names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

CODES: Final = "codes"
SCALES: Final = "scales"
INPUT_SCALE: Final = "input_scale"
INPUT_ZERO: Final = "input_zero"


def matches(name: str, pattern: str) -> bool:
    """Return True if a pattern matches the name of a parameter, or its name without the last word."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(".")[0], pattern)
