"""The type of a rule of `simplify`, its declaration, its questions about a block, and the replacement of an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from typing import Final

from compiler.passes.rewrite import EDITED
from prograd_proto import Attribute, TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.dtypes import NAMES
from prograd_proto.elements import scalar_bytes
from registry.op import find_op


class Scope:
    """The questions of a rule about a block: types, and the ops that define tensors."""

    def __init__(self, block: BlockAnalysis) -> None:
        self._types = block.types
        self._makers = block.use_def.makers  # no rule changes the op that defines a tensor
        self._ops = block.ops

    def type(self, name: str) -> TensorType:
        """Return the type of a tensor."""
        return self._types[name]

    def result(self, op: pb.OpDesc) -> TensorType:
        """Return the type of an op's first output."""
        return self.type(op.outputs[0])

    def inner(self, op: pb.OpDesc, *types: str) -> pb.OpDesc | None:
        """Return the op that defines the first operand, if it has one of these types."""
        maker = self._maker(op.inputs[0])
        return maker if maker is not None and maker.type in types else None

    def holds(self, name: str, number: float) -> bool:
        """Return True if every element of a tensor is known to be that number, including the sign of a zero."""
        maker = self._maker(name)
        while maker is not None and find_op(maker.type).traits.repeats:
            maker = self._maker(maker.inputs[0])
        if maker is None:
            return False
        if maker.type == "constant":
            value = maker.attributes[0].tensor_value
            element = scalar_bytes(NAMES[value.dtype], number)
            return value.data == element * (len(value.data) // len(element))
        if maker.type == "full":
            value = attributes_of(maker)["value"]
            return value == number and copysign(1, float(str(value))) == copysign(1, number)
        return False

    def _maker(self, name: str) -> pb.OpDesc | None:
        """Return the op that defines a tensor, after earlier rules; None for a parameter."""
        i = self._makers.get(name)
        return None if i is None else self._ops[i]


Rewrite = Callable[[Scope, pb.OpDesc], Sequence[str] | None]
"""A rule: returns tensors with the bits of the op's outputs, `EDITED` if it changed the op, or None."""


REWRITES: Final[dict[str, tuple[Rewrite, ...]]] = {}
"""Rules for particular operators, in the order in which they are tried."""


def rewrites(*op_types: str) -> Callable[[Rewrite], Rewrite]:
    """Declare the rule as one for these operators; rules that follow from a trait need no declaration."""

    def declared(rule: Rewrite) -> Rewrite:
        for op_type in op_types:
            REWRITES[op_type] = (*REWRITES.get(op_type, ()), rule)
        return rule

    return declared


def write_anew(op: pb.OpDesc, type: str, operand: str, **attributes: Attribute) -> Sequence[str]:
    """Turn an op, with its id and names, into one of that type with one operand."""
    specs = find_op(type).signature.attributes
    op.type, op.inputs[:] = type, [operand]
    del op.attributes[:]
    op.attributes.extend(attribute_message(name, spec.kind, attributes[name]) for name, spec in specs.items())
    return EDITED
