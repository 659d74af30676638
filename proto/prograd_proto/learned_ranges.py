"""The names of the states in which quantisation-aware training keeps the range of a weight's factor."""

from __future__ import annotations

from typing import Final

INPUT_LEAST: Final = "input_least"
INPUT_MOST: Final = "input_most"


def is_range(state: str) -> bool:
    """Return True for the name of an end of a range."""
    return state.endswith((f".{INPUT_LEAST}", f".{INPUT_MOST}"))
