"""A tensor of a program as a tensor of a graph of ONNX, whose axes may lie in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prograd_proto import TensorType


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of the program in the graph.

    Attributes:
        type: its type in the program.
        order: axis j of the graph's tensor is axis `order[j]` of the program's.
        name: its name in the graph; "" while it is only an array.
        array: its elements in the program's order, if they are known while exporting.
        origins: names of the states that the elements come from.
        state: the name of the state that it is; "" if it is not a state.
        is_zero: True if all elements are known to be 0.
    """

    type: TensorType
    order: tuple[int, ...]
    name: str = ""
    array: Any = None
    origins: tuple[str, ...] = ()
    state: str = ""
    is_zero: bool = False

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def dtype(self) -> str:
        """The dtype."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The shape in the program."""
        return self.type.shape


def identity_order(rank: int) -> tuple[int, ...]:
    """Return the order of axes that changes nothing."""
    return tuple(range(rank))


def moved(order: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation of a Transpose from one order of axes to another."""
    return tuple(order.index(axis) for axis in wanted)


def channels_first(rank: int) -> tuple[int, ...]:
    """Return the order [n, c, ...] of a tensor [n, ..., c]."""
    return (0, rank - 1, *range(1, rank - 1)) if rank > 2 else identity_order(rank)
