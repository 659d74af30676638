"""Functions of PyTorch, with its names and defaults, spelled with operators of prograd.

A spelling takes the arguments of a sample, with a Value for each tensor, and gives the Values of the results in
PyTorch's order. Nothing here imports PyTorch, so that the table can be looked at without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Spelling = Callable[..., Any]
Call = tuple[list[Any], dict[str, Any]]
Inputs = Callable[[np.random.Generator], list[Call]]


class UnsupportedSampleError(Exception):
    """A sample asks for what prograd does not have; the text is the reason that the page gives."""


@dataclass(frozen=True)
class Peer:
    """A function of PyTorch and its spelling."""

    function: str  # of PyTorch: the name of an OpInfo, or with `inputs` the path of a function below `torch`
    operators: tuple[str, ...]  # operators and spelled functions of prograd that the spelling is there to compare
    spelling: Spelling
    inputs: Inputs | None  # our own, for a function that has no OpInfo
    variant: str  # of the OpInfo
    tolerance: float
    orders: int
    note: str  # why a tolerance or an order is other than that of most

    def __str__(self) -> str:
        return f"{self.function}-{self.variant}" if self.variant else self.function


PEERS: list[Peer] = []
"""All of them, in the order of the files."""


def peer(
    function: str,
    *operators: str,
    variant: str = "",
    inputs: Inputs | None = None,
    tolerance: float = 1e-9,
    orders: int = 2,
    note: str = "",
) -> Callable[[Spelling], Spelling]:
    """Note that the decorated function spells that function of PyTorch."""

    def note_it(spelling: Spelling) -> Spelling:
        PEERS.append(Peer(function, operators, spelling, inputs, variant, tolerance, orders, note))
        return spelling

    return note_it


def unless(condition: bool, reason: str) -> None:
    """Leave the sample out for that reason if the condition holds."""
    if condition:
        raise UnsupportedSampleError(reason)


def many(number: int | Sequence[int] | None, count: int) -> tuple[int, ...]:
    """One number for each axis, as PyTorch spreads a single one; () for none."""
    if number is None:
        return ()
    numbers = [number] if isinstance(number, int) else list(number)
    return tuple(numbers * count if len(numbers) == 1 else numbers)


def axes_of(dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """The axes that a `dim` names; () stands for all."""
    if dim is None:
        return ()
    return (dim,) if isinstance(dim, int) else tuple(dim)
