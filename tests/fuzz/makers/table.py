"""The table of makers: for each operator and spelled function, what draws operands and attributes and calls it."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.drawing import Draw

Maker = Callable[[Draw], object]

MAKERS: dict[str, list[Maker]] = {}
"""The functions that draw a call of each operator."""


def maker(*names: str) -> Callable[[Maker], Maker]:
    """Note that the decorated function makes calls of these."""

    def note(function: Maker) -> Maker:
        for name in names:
            MAKERS.setdefault(name, []).append(function)
        return function

    return note


def each(names: str, make: Callable[[str], Maker]) -> None:
    """Register the same maker for several operators."""
    for name in names.split():
        MAKERS.setdefault(name, []).append(make(name))


NOT_DRAWN = {
    "constant": "every Python number that is an operand makes one",
    "non_max_suppression": "it has a loop, which these programs have not; tests/operators/test_order.py draws",
    "spill": "only the planner puts it into a program: the variants with a file have it",
    "reload": "only the planner puts it into a program: the variants with a file have it",
}
"""Operators that no maker calls, with the reason."""
