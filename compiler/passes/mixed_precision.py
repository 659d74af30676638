"""Pass: round the operands of products to bfloat16, and keep their rounded copies for the backward pass.

1. The operators that declare the trait `lowered` name the operands to round: products of matrices and convolutions,
   with their gradients. A float32 operand `x` becomes `cast(cast(x, bfloat16), float32)`. The product itself is the
   float32 one: a product of two bfloat16 numbers is exact in float32, so its sums alone are rounded.
2. A forward op that `keep` matches, by the name of an operand or of a result, stays as it is, and so do its gradient
   ops and the ops that help to differentiate these.
3. A pointwise gradient op that reads a forward tensor with a rounded copy reads that copy too, so the backward pass
   needs 2 bytes per element. Comparisons do so only with a constant: two rounded tensors may be equal where the tensors
   are not, and a gradient would count twice.
4. All other ops stay float32: losses, softmax, sums, norms, updates, and the states, which are the masters.
5. The op that widens a copy is appended for each reader, so that no float32 copy lives from the forward to the backward
   pass; `merge_identical` merges those that cost no memory.

The lists are those of automatic mixed precision: Micikevicius et al., "Mixed precision training", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from compiler.errors import CompileError
from compiler.passes.eliminate_dead_ops import order_tensors
from compiler.passes.new_tensors import add_tensor, tensor_names
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.tensor_types import tensor_desc
from registry.op import find_op
from registry.table import CONTROL
from runtime.step.arithmetic import is_pointwise

DTYPE: Final = "bfloat16"
"""The only dtype that operands are rounded to."""

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""Stages of the ops of the backward pass."""


def mixed_precision(program: BlockAnalyses, *, dtype: str = "", keep: str = "") -> None:
    """Round the operands of products to bfloat16, and keep activations in it; off unless `dtype` is given.

    Args:
        program: its source blocks, and those inside their ops, are edited.
        dtype: bfloat16, or nothing for a program as it was built.
        keep: patterns of names, with commas between them, of tensors whose ops stay float32, such as head.*
    """
    if not dtype:
        return
    if dtype != DTYPE:
        raise CompileError(f"mixed={dtype!r}: operands can be rounded to {DTYPE} only; write mixed={DTYPE!r}")
    patterns = [pattern for pattern in keep.split(",") if pattern]
    names = {name for number in range(len(program)) for name in program[number].names}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CompileError(f"mixed: keep={pattern!r} matches no tensor; `compiler show` prints their names")
    for number in range(len(program)):
        _Lowering(program[number], patterns).rewrite()


class _Lowering:
    """The rewriting of a block.

    Attributes:
        kept: ids of ops that `keep` leaves as they are.
        forward: float32 tensors that forward ops compute.
        rounded: bfloat16 copies, by the tensor that each is of.
        wide: tensors that only widen a 16-bit float.
    """

    def __init__(self, block: BlockAnalysis, patterns: Sequence[str]) -> None:
        self.block, self.patterns = block, patterns
        self.types: dict[str, TensorType] = dict(block.types)
        self.taken = tensor_names(block.desc)
        self.next_id = 1 + max(block.ids, default=0)
        self.kept: set[int] = set()
        self.forward: set[str] = set()
        self.constants: set[str] = set()
        self.rounded: dict[str, str] = {}
        self.wide: set[str] = set()
        self.ops: list[pb.OpDesc] = []

    def rewrite(self) -> None:
        block = self.block
        for i, old in enumerate(block.ops):
            self._note(i, old)
            op = pb.OpDesc()
            op.CopyFrom(old)
            if op.id not in self.kept:
                op.inputs[:] = [
                    self._lowered(name, op) if position in self._positions(i, old) else name
                    for position, name in enumerate(old.inputs)
                ]
            self.ops.append(op)
        if len(self.ops) == len(block.ops):
            return
        del block.desc.ops[:]
        block.desc.ops.extend(self.ops)
        block.forget()
        order_tensors(block)

    def _note(self, i: int, op: pb.OpDesc) -> None:
        """Record what later ops ask about this one."""
        names = (*op.inputs, *op.outputs)
        if op.gradient_of in self.kept or (
            not op.gradient_of and any(fnmatchcase(name, p) for name in names for p in self.patterns)
        ):
            self.kept.add(op.id)
        if op.stage == pb.STAGE_FORWARD:
            self.forward.update(op.outputs)
        if op.type not in CONTROL and not any(op.inputs):
            self.constants.update(op.outputs)
        if op.type == "cast" and self._is(op.inputs[0], DTYPE) and self._is(op.outputs[0], "float32"):
            self.wide.update(op.outputs)

    def _positions(self, i: int, op: pb.OpDesc) -> set[int]:
        """Return the positions of the operands of an op that are read from rounded copies."""
        if op.type in CONTROL:
            return set()
        definition = find_op(op.type)
        single = {j for j, name in enumerate(op.inputs) if self._is(name, "float32") and name not in self.wide}
        if lowered := definition.traits.lowered:
            return {j for j in single if definition.signature.inputs[j] in lowered}
        if op.stage not in BACKWARD or not is_pointwise(op.type):
            return set()
        read = {j for j in single if op.inputs[j] in self.forward and op.inputs[j] in self.rounded}
        compares = self.types[op.outputs[0]].dtype == "bool"
        if compares and any(name not in self.constants for j, name in enumerate(op.inputs) if j not in read):
            return set()
        return set() if compares and len(read) > 1 else read

    def _lowered(self, name: str, op: pb.OpDesc) -> str:
        """Append what rounds a tensor, unless a copy exists, and what widens the copy; return the result."""
        if name not in self.rounded:
            self.rounded[name] = self._cast(name, DTYPE, op)
        if find_op(op.type).traits.lowered and find_op(op.type).halves:
            return self.rounded[name]
        wide = self._cast(self.rounded[name], "float32", op)
        self.wide.add(wide)
        return wide

    def _cast(self, name: str, dtype: str, op: pb.OpDesc) -> str:
        type = TensorType(dtype, self.types[name].shape)
        made = add_tensor(self.block.desc, tensor_desc(f"{name}.{dtype}", type), self.taken)
        self.types[made] = type
        self.ops.append(
            pb.OpDesc(
                id=self.next_id,
                type="cast",
                inputs=[name],
                outputs=[made],
                attributes=[attribute_message("dtype", "dtype", dtype)],
                stage=op.stage,
                gradient_of=op.gradient_of,
                location=op.location,
            )
        )
        self.next_id += 1
        return made

    def _is(self, name: str, dtype: str) -> bool:
        return bool(name) and self.types[name].dtype == dtype
