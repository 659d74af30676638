"""An op as the plan of its kernel sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from prograd_proto import TensorType


class OpTypes(NamedTuple):
    """The types and the attributes of an op.

    Attributes:
        inputs: types of the operands, None for absent ones.
        outputs: types of the results.
        attributes: attributes by name.
    """

    inputs: Sequence[TensorType | None]
    outputs: Sequence[TensorType]
    attributes: Mapping[str, Any]

    @property
    def present(self) -> list[TensorType]:
        """The types of the operands that the op has, without absent optional ones."""
        return [x for x in self.inputs if x is not None]

    def operand(self, number: int) -> TensorType:
        """Return the type of an operand that the op has."""
        x = self.inputs[number]
        assert x is not None, f"operand {number} is not optional"
        return x
