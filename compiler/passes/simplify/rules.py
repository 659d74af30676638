"""What a rule of `simplify` is, what it can ask, and how it writes an op anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import copysign

from compiler.passes.rewrite import EDITED
from prograd_proto import Attribute, TensorType, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.dtypes import NAMES
from registry.block import scalar_bytes
from registry.op import find_op


@dataclass(frozen=True)
class Scope:
    """The tensors of a block, and the ops behind those that were visited."""

    tensors: dict[str, pb.TensorDesc]
    makers: dict[str, pb.OpDesc]

    def type(self, name: str) -> TensorType:
        """The type of a tensor."""
        return type_of(self.tensors[name])

    def result(self, op: pb.OpDesc) -> TensorType:
        """The type of an op's first output."""
        return self.type(op.outputs[0])

    def inner(self, op: pb.OpDesc, *types: str) -> pb.OpDesc | None:
        """The op behind the first operand, if it is of one of these types."""
        maker = self.makers.get(op.inputs[0])
        return maker if maker is not None and maker.type in types else None

    def holds(self, name: str, number: float) -> bool:
        """Whether every element of a tensor is known to be that number, the sign of a zero included."""
        maker = self.makers.get(name)
        while maker is not None and find_op(maker.type).traits.repeats:
            maker = self.makers.get(maker.inputs[0])
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


Rule = Callable[[Scope, pb.OpDesc], Sequence[str] | None]
"""Tensors that have the bits of the op's outputs, `EDITED` if it is another op now, None if it stays as it is."""


def write_anew(op: pb.OpDesc, type: str, operand: str, **attributes: Attribute) -> Sequence[str]:
    """Let an op, under its id and its names, be one of that type with one operand."""
    specs = find_op(type).signature.attributes
    op.type, op.inputs[:] = type, [operand]
    del op.attributes[:]
    op.attributes.extend(attribute_message(name, spec.kind, attributes[name]) for name, spec in specs.items())
    return EDITED
