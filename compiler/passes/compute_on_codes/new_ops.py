"""The ops of a block that a pass writes anew, some of them in place of others."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.passes.eliminate_dead_ops import drop_dead_ops
from compiler.passes.new_tensors import add_tensor, tensor_names
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.tensor_types import tensor_desc


class NewOps:
    """The new ops of a block, in order.

    Attributes:
        block: the block, which has its old ops until `write`.
        ops: the ops so far.
    """

    def __init__(self, block: BlockAnalysis) -> None:
        self.block = block
        self.ops: list[pb.OpDesc] = []
        self._taken = tensor_names(block.desc)
        self._next_id = 1 + max(block.ids, default=0)

    def tensor(self, name: str, type: TensorType) -> str:
        """Describe a tensor of a type, and return its name, which begins with this one."""
        return add_tensor(self.block.desc, tensor_desc(name, type), self._taken)

    def add(
        self,
        op: pb.OpDesc,
        type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Sequence[pb.AttrDesc] = (),
    ) -> None:
        """Append an op in place of another one."""
        made = pb.OpDesc(id=self._next_id, type=type, inputs=inputs, outputs=outputs, attributes=attributes)
        made.stage, made.gradient_of, made.location = op.stage, op.gradient_of, op.location
        self.ops.append(made)
        self._next_id += 1

    def write(self) -> None:
        """Put the new ops into the block, without those that nothing needs."""
        copies = pb.BlockDesc(ops=self.ops)
        del self.block.desc.ops[:]
        self.block.desc.ops.extend(copies.ops)
        self.block.forget()
        drop_dead_ops(self.block)
