"""Every operator, one line per interesting case: what the generic tests of test_ops.py run.

A sample names an operator, the types of its operands in order, and its attributes. Operand words:
a shape alone is a float64 tensor of normal numbers; `ints(shape, below)` are int64 in [0, below);
`positive(shape)`, `distinct(shape)` (no ties, away from kinks) and `bools(shape)` are what they say;
`None` is an absent optional operand; `typed(dtype, shape)` has another dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Operand:
    """How to make one operand."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    kind: str = "normal"  # normal, positive, distinct, below
    below: int = 2

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """An array of it."""
        match self.kind:
            case "positive":
                array = rng.uniform(0.5, 2.0, self.shape)
            case "distinct":
                count = int(np.prod(self.shape))
                array = (rng.permutation(count).reshape(self.shape) - count / 2 + 0.25) * 0.37
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
    order: int = 2  # up to which order the gradient is checked; 0 for non-differentiable ones

    def __str__(self) -> str:
        shapes = "x".join("-" if o is None else f"{o.dtype}{list(o.shape)}" for o in self.operands)
        return f"{self.op}-{shapes}-{self.attributes}".replace(" ", "")


def ints(shape: tuple[int, ...], below: int) -> Operand:
    return Operand(shape, "int64", "below", below)


def bools(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, "bool", "below", 2)


def positive(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="positive")


def distinct(shape: tuple[int, ...]) -> Operand:
    return Operand(shape, kind="distinct")


def typed(dtype: str, shape: tuple[int, ...]) -> Operand:
    return replace(Operand(shape), dtype=dtype)


def sample(op: str, *operands: Operand | tuple[int, ...] | None, order: int = 2, **attributes: Any) -> Sample:
    made = tuple(Operand(o) if isinstance(o, tuple) else o for o in operands)
    return Sample(op, made, attributes, order)
