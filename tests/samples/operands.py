"""The words of samples: one case of an operator, and what its operands hold.

`ints(shape, below)` are int64 in [0, below); `codes(shape)` are any uint8; `positive(shape)` lies in 0.5 ... 2,
`inside(shape)` in -0.9 ... 0.9 and `above(shape)` in 1.5 ... 3; `distinct(shape)` has no ties and is away from kinks;
`bools(shape)` are what they say; `typed(dtype, shape)` are normal numbers of another dtype; `regular(shape)` are
matrices with an inverse, and `definite(shape)` are symmetric and positive definite. `given(1, 2)` are these numbers,
int64.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler.reference import CHECKED_ORDER

BOUNDS = {"positive": (0.5, 2.0), "inside": (-0.9, 0.9), "above": (1.5, 3.0)}


@dataclass(frozen=True)
class Operand:
    """Recipe for one operand."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    kind: str = "normal"  # normal, positive, distinct, inside, above, below, regular, definite, given
    below: int = 2
    given: tuple[int, ...] = ()

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """An array of it."""
        match self.kind:
            case "positive" | "inside" | "above":
                array = rng.uniform(*BOUNDS[self.kind], self.shape)
            case "distinct":
                count = int(np.prod(self.shape))
                array = (rng.permutation(count).reshape(self.shape) - count / 2 + 0.25) * 0.37
            case "regular":
                array = rng.normal(size=self.shape) * 0.3 + 2 * np.eye(self.shape[-1])
            case "definite":
                array = rng.normal(size=self.shape)
                array = array @ array.swapaxes(-1, -2) + np.eye(self.shape[-1])
            case "given":
                array = np.array(self.given)
            case "below":
                array = rng.integers(0, self.below, self.shape)
            case _:
                array = rng.normal(size=self.shape) * (3 if self.dtype in ("int32", "int64") else 1)
        return np.asarray(array).astype(self.dtype)


@dataclass(frozen=True)
class Sample:
    """One case of an operator."""

    op: str
    operands: tuple[Operand | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    order: int = CHECKED_ORDER  # up to which order the gradient is checked; 0 for non-differentiable ones

    def __str__(self) -> str:
        shapes = "x".join("-" if o is None else f"{o.dtype}{list(o.shape)}" for o in self.operands)
        return f"{self.op}-{shapes}-{self.attributes}".replace(" ", "")


def ints(shape: tuple[int, ...], below: int) -> Operand:
    return Operand(shape, "int64", "below", below)


def codes(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, "uint8", "below", 256)


def regular(shape: tuple[int, ...], dtype: str = "float64") -> Operand:
    return Operand(shape, dtype, "regular")


def definite(shape: tuple[int, ...], dtype: str = "float64") -> Operand:
    return Operand(shape, dtype, "definite")


def given(*numbers: int, dtype: str = "int64") -> Operand:
    return Operand((len(numbers),), dtype, "given", given=numbers)


def bools(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, "bool", "below", 2)


def positive(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="positive")


def inside(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="inside")


def above(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="above")


def distinct(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="distinct")


def typed(dtype: str, shape: tuple[int, ...]) -> Operand:
    return replace(Operand(shape), dtype=dtype)


def sample(
    op: str, *operands: Operand | tuple[int, ...] | None, order: int = CHECKED_ORDER, **attributes: Any
) -> Sample:
    made = tuple(Operand(o) if isinstance(o, tuple) else o for o in operands)
    return Sample(op, made, attributes, order)


def positive_ints(shape: tuple[int, ...], dtype: str = "int64") -> Operand:
    return Operand(shape, dtype, "below", 9)
