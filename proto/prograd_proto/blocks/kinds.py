"""Ops of one kind: facts that follow from an op's type, attributes and tensor types, computed once per kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import Attribute, attributes_of
from prograd_proto.tensor_types import TensorType


@dataclass(frozen=True, eq=False)
class Kind:
    """The facts that the ops of one kind share; a deep program has many ops of few kinds.

    Two ops of one kind have the same object. In rare cases two equal objects exist.
    """

    op_type: str
    inputs: tuple[TensorType | None, ...]  # None for an absent operand
    outputs: tuple[TensorType, ...]
    written: tuple[bytes, ...]  # the attributes, serialized

    @cached_property
    def messages(self) -> list[pb.AttrDesc]:
        """The attributes as messages."""
        return [pb.AttrDesc.FromString(attribute) for attribute in self.written]

    @cached_property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes by name; raises ProgramError for one without a value."""
        return attributes_of(pb.OpDesc(attributes=self.messages))
