"""A block as Python's lists: what several questions about it ask, read once, because messages are slow to read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType, type_of


@dataclass(frozen=True)
class Reading:
    """What a block says, for as long as nobody edits it; lists have an element for each op, in order."""

    desc: pb.BlockDesc

    @cached_property
    def types(self) -> dict[str, TensorType]:
        """The types of the tensors; raises ProgramError for an unknown dtype."""
        return {tensor.name: type_of(tensor) for tensor in self.tensors}

    @cached_property
    def tensors(self) -> list[pb.TensorDesc]:
        """The descriptions of the tensors."""
        return self.desc.tensors[:]

    @cached_property
    def ops(self) -> list[pb.OpDesc]:
        """The messages."""
        return self.desc.ops[:]

    @cached_property
    def op_types(self) -> list[str]:
        """The names of the operators."""
        return [op.type for op in self.ops]

    @cached_property
    def inputs(self) -> list[list[str]]:
        """The operands; "" is an absent one."""
        return [op.inputs[:] for op in self.ops]

    @cached_property
    def outputs(self) -> list[list[str]]:
        """The results."""
        return [op.outputs[:] for op in self.ops]

    @cached_property
    def attributes(self) -> list[list[bytes]]:
        """The attributes as they are written: equal bytes are equal attributes."""
        return [[attribute.SerializeToString() for attribute in op.attributes] for op in self.ops]

    @cached_property
    def in_place(self) -> list[list[tuple[int, int]]]:
        """The pairs (output, input) that are the same memory."""
        return [[(pair.output, pair.input) for pair in op.in_place] if op.in_place else [] for op in self.ops]
