"""How the next code of a text is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Final

from prograd_proto.spelling import closest_or_all
from runtime.errors import UsageError

MOST_CHOICES: Final = 256
"""The number of codes with the largest scores among which an entry draws: the largest `top_k`."""


@dataclass(frozen=True)
class Choices:
    """How the next code of a text is chosen, from the scores of all codes.

    Attributes:
        temperature: divides the scores; 0 takes the code with the largest one.
        top_k: the number of codes with the largest scores that are left, 1 to 256.
        top_p: of these, the fewest whose shares reach this number are left, above 0 to 1.
        repetition_penalty: divides positive scores of codes that the text has, and multiplies negative ones.
        seed: the numbers that draw, from 0 on.
    """

    temperature: float = 0.0
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0


_RANGES: Final[Mapping[str, tuple[float, float, str]]] = {
    "temperature": (0, 100, "from 0 to 100"),
    "top_k": (1, MOST_CHOICES, f"a whole number from 1 to {MOST_CHOICES}"),
    "top_p": (1e-6, 1, "above 0 and at most 1"),
    "repetition_penalty": (1e-3, 100, "above 0 and at most 100"),
    "seed": (0, (1 << 63) - 1, "a whole number from 0 on"),
}

NAMES: Final = tuple(_RANGES)
"""The names of the fields."""


def choices_of(given: Mapping[str, float], defaults: Mapping[str, float]) -> Choices:
    """Return choices from numbers by name, in place of those that the model's folder has.

    Raises UsageError for a name that there is not, or a number out of its range.
    """
    known = {field.name for field in fields(Choices)}
    made: dict[str, float] = {}
    for name, value in {**{k: v for k, v in defaults.items() if k in known}, **given}.items():
        if name not in _RANGES:
            raise UsageError(f"there is no choice {name!r}{closest_or_all(name, NAMES)}")
        least, most, words = _RANGES[name]
        whole = name in ("top_k", "seed")
        if not (isfinite(value) and least <= value <= most) or (whole and value != int(value)):
            raise UsageError(f"{name}={value:g} is not {words}")
        made[name] = int(value) if whole else float(value)
    return Choices(**made)  # pyright: ignore[reportArgumentType]: whole numbers where they are asked for
