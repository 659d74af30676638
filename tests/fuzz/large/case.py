"""A case: operators on operands of which one has a large extent; and the choices that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeVar

import numpy as np

from compiler import Value

T = TypeVar("T")

Array = np.ndarray[Any, np.dtype[Any]]

SMALL: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33, 40, 48, 49, 63, 64, 65, 97, 128, 130)
"""Extents around those of vectors and tiles of registers."""

DEPTH_BLOCKS: Final = (256, 512, 640)
"""Upper bounds on blocks of depths of `runtime/codegen/kernels`."""

BLOCKS: Final = (1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 60, 63, 64, 65, 100, 120, 127, 128)
"""Numbers of such blocks."""

LARGE: Final = (256, 384, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Extents around which blocks and work items change: shares of caches, pages, rows of a group, ranges."""

MAX_MULTIPLY_ADDS: Final = 40_000_000
"""Upper bound on the products of a case of one large extent."""

MAX_ELEMENTS: Final = 3_000_000
"""Upper bound on the elements of an operand."""

FLOATS: Final = ("float32", "float64")
HALVES: Final = ("float32", "float64", "tiles", "pairs", "tiles", "pairs")
"""Precisions: the last ones are operands of bfloat16, whose products add in the order of that name."""


@dataclass(frozen=True)
class Operand:
    """An input of a case.

    Attributes:
        shape: its shape.
        kind: "number", "bool", "code", "below N" for indices, "single" and "positive" for numbers of float32,
            "small" for small ones, "near one"; or "half" for numbers that are bfloat16 where the precision says so.
    """

    shape: tuple[int, ...]
    kind: str = "number"


@dataclass(frozen=True)
class Case:
    """Operators, their operands, and what may be demanded of results.

    Attributes:
        label: the operators and their attributes.
        operands: the inputs by name.
        write: function from the inputs to the results.
        precisions: those that it has, see `HALVES`.
        is_exact: True if whole numbers give whole results, which no order of additions changes.
        has_gradients: True if it also computes the gradients of its numbers.
        has_kinks: True if gradients jump where rounding changes a sign, so that only whole numbers are compared.
        tolerance: difference from the exact results, as a part of the largest one, of float32.
    """

    label: str
    operands: Mapping[str, Operand]
    write: Callable[[dict[str, Value]], Sequence[Value]]
    precisions: Sequence[str] = FLOATS
    is_exact: bool = False
    has_gradients: bool = True
    has_kinks: bool = False
    tolerance: float = 3e-5

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {list(operand.shape)} {operand.kind}" for name, operand in self.operands.items())
        return f"{self.label} of {shapes}"


@dataclass
class Draw:
    """The choices of one seed."""

    seed: int
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng((self.seed, 11))

    def pick(self, things: Sequence[T]) -> T:
        return things[int(self.rng.integers(len(things)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def near(self, extent: int) -> int:
        """Return an extent at most 5 away, or at most 40 behind."""
        low, high = (-5, 5) if self.chance(0.7) else (0, 40)
        return max(extent + int(self.rng.integers(low, high + 1)), 1)

    def small(self, most: int = SMALL[-1]) -> int:
        return self.pick([extent for extent in SMALL if extent <= most])

    def depth(self, most: int = 1 << 17) -> int:
        """Return an extent near a multiple of a block of a depth."""
        found = [block * count for block in DEPTH_BLOCKS for count in BLOCKS if block * count <= most]
        return self.near(self.pick(found))

    def large(self, most: int = LARGE[-1], least: int = LARGE[0]) -> int:
        """Return an extent near a large one, or near a multiple of vectors and tiles up to `most`."""
        if self.chance(0.3):
            unit = self.pick((16, 24, 48, 64, 128))
            return self.near(unit * int(self.rng.integers(least // unit, most // unit + 1)))
        return self.near(self.pick([extent for extent in LARGE if least <= extent <= most]))

    def fitting(self, make: Callable[[], tuple[T, Sequence[int], int]], most: int = MAX_MULTIPLY_ADDS) -> T:
        """Return the first result of `make` with few enough elements of operands, and at most `most` products."""
        while True:
            found, sizes, products = make()
            if max(sizes) <= MAX_ELEMENTS and products <= most:
                return found


def elements(*shapes: Sequence[int]) -> list[int]:
    """Return the numbers of elements."""
    return [prod(shape) for shape in shapes]
