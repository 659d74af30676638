"""Ops of one kind: what follows from an op's type, attributes and tensor types is worked out once for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import Attribute, attributes_of
from prograd_proto.tensor_types import TensorType


@dataclass(frozen=True, eq=False)
class Kind:
    """What the ops of one kind have in common; a deep program has very many ops of few kinds.

    Two ops of one kind have the same object. (Two objects may, rarely, say the same.)
    """

    op_type: str
    inputs: tuple[TensorType | None, ...]  # None for an absent one
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
