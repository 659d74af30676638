"""The rewriting of a block: which operands are rounded, and which results are narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.passes.eliminate_dead_ops import order_tensors
from compiler.passes.mixed_precision.facts import BlockFacts
from compiler.passes.new_tensors import add_tensor, tensor_names
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import copy_of
from prograd_proto.tensor_types import tensor_desc
from registry.control.control_op import CONTROL
from registry.op import find_op

DTYPE: Final = "bfloat16"
"""The only dtype that operands are rounded to."""

MIN_COLUMNS: Final = 32
"""Least number of columns of the result of a product whose operands are rounded for it alone: two vectors."""


class Lowering(BlockFacts):
    """The rewriting of a block.

    Attributes:
        kept: ids of ops that `keep` leaves as they are.
        narrow: float32 tensors that come from bfloat16 numbers.
        fresh: narrow tensors that a product and pointwise ops after it compute, and that were not stored so far.
        rounded: bfloat16 copies, by the tensor that each is of.
        replaced: tensors that all later ops read from their rounded copies.
        looped: results of ops that round the operands of their products themselves, such as recurrent layers: only
            products, and ops that follow or move elements, read their rounded copies.
        weights: bfloat16 copies of states that such an op and its gradient read, by state and op.
        wide: tensors that only widen a 16-bit float.
        sources: by wide tensor of the program, the bfloat16 tensor that it widens; products read that.
    """

    def __init__(self, block: BlockAnalysis, keep: Sequence[str], lower: Sequence[str]) -> None:
        super().__init__(block)
        self.keep, self.lower = keep, lower
        self.taken = tensor_names(block.desc)
        self.next_id = 1 + max(block.ids, default=0)
        self.kept = self._kept()
        self.narrow: set[str] = set()
        self.fresh: set[str] = set()
        self.rounded: dict[str, str] = {}
        self.replaced: set[str] = set()
        self.looped: set[str] = set()
        self.weights: dict[tuple[str, int], str] = {}
        self.wide: set[str] = set()
        self.sources: dict[str, str] = {}
        self.ops: list[pb.OpDesc] = []

    def rewrite(self) -> None:
        """Rewrite the block, op by op."""
        block = self.block
        for i, old in enumerate(block.ops):
            if self._is_small(i):
                self.kept |= self._with_gradients({i})
            if self._moves_narrow(i):
                self._move(old)
                continue
            op = copy_of(old)
            op.inputs[:] = [self._operand(i, j, name, op) for j, name in enumerate(old.inputs)]
            self.ops.append(op)
            self._note(i, op)
        unread = self._unread()
        if len(self.ops) == len(block.ops) and not unread:
            return
        self.ops = [op for op in self.ops if unread.isdisjoint(op.outputs)]
        del block.desc.ops[:]
        block.desc.ops.extend(self.ops)
        block.forget()
        order_tensors(block)

    def _unread(self) -> set[str]:
        """Return the widened tensors without readers, because all products read the tensors that they widen."""
        desc = self.block.desc
        ends = {*desc.results, *(fetch.tensor for fetch in desc.fetches), *(update.tensor for update in desc.updates)}
        return set(self.sources) - ends - {name for op in self.ops for name in op.inputs}

    # Operators that stay float32.

    def _kept(self) -> set[int]:
        """Return the positions of the ops that `keep` matches, and of those that help to differentiate them."""
        ops = enumerate(self.block.ops)
        return self._with_gradients({i for i, op in ops if not op.gradient_of and self._matches(op, self.keep)})

    def _is_small(self, i: int) -> bool:
        """Return True if a forward product has few columns, and operands that would be rounded for it alone."""
        op = self.block.ops[i]
        if not self._is_forward(i) or not self._is_product(i) or self._has_loop(i) or self._matches(op, self.lower):
            return False
        columns, states = self.types[op.outputs[0]].shape[-1], self.states
        large = [name for name in self.block.inputs[i] if name and name not in states and self._is(name, "float32")]
        is_narrow = any(name in self.narrow or name in self.rounded for name in large)
        return isinstance(columns, int) and columns < MIN_COLUMNS and bool(large) and not is_narrow

    # Operands.

    def _operand(self, i: int, j: int, name: str, op: pb.OpDesc) -> str:
        """Return the tensor that an op reads as operand `j`; append the casts for it."""
        if not self._is(name, "float32"):
            return name
        if i not in self.kept and self._is_lowered(i, j) and name in self.sources:
            return self.sources[name]
        if i not in self.kept and self._is_lowered(i, j) and name not in self.wide:
            return self._weights_of_loop(name, op) if self._has_loop(i) else self._copy(name, op)
        if name in self.looped and not self._follows(i, j):
            return name
        if name in self.replaced or (name in self.rounded and self._follows(i, j) and self._goes_back(i, name)):
            return self._widened(name, op)
        return name

    def _weights_of_loop(self, name: str, op: pb.OpDesc) -> str:
        """Return the copy of a state that a recurrent layer and its gradient read."""
        key = (name, op.gradient_of or op.id)
        if name not in self.states:
            return self._copy(name, op)
        if key not in self.weights:
            self.weights[key] = self._copy(name, op)
        return self.weights[key]

    def _follows(self, i: int, j: int) -> bool:
        """Return True if an op may read a rounded copy of an operand."""
        if i in self.kept or self.block.op_types[i] in CONTROL or self._compares(i):
            return False
        definition = find_op(self.block.op_types[i])
        names = definition.signature.inputs
        return self._is_pointwise(i) or (j < len(names) and names[j] in definition.traits.follows)

    # Results.

    def _note(self, i: int, op: pb.OpDesc) -> None:
        """Record the facts that later ops need about the results of an op, and round the results where necessary."""
        if op.type == "cast" and self._is(op.inputs[0], DTYPE) and self._is(op.outputs[0], "float32"):
            self.wide.update(op.outputs)
            self.narrow.update(op.outputs)
            self.sources[op.outputs[0]] = op.inputs[0]
            return
        if i in self.kept or op.type in CONTROL or op.type == "cast":
            return
        has_products_only = self._is_product(i) and not self._has_loop(i)
        for name in op.outputs if has_products_only else op.outputs[:1]:
            self._note_result(i, name, op)

    def _note_result(self, i: int, name: str, op: pb.OpDesc) -> None:
        if not self._may_be_narrow(i, name):
            return
        if self._makes_narrow(i, op) and name not in self.gradients and name not in self.compared:
            self._note_narrow(i, name, op)
        elif self._goes_back_rounded(name):
            self._copy(name, op)

    def _may_be_narrow(self, i: int, name: str) -> bool:
        """Return True for a float32 matrix that a later product of the forward pass depends on."""
        if not self._is(name, "float32") or len(self.types[name].shape) < 2 or name in self.states:
            return False
        return name in self.feeding or not self._is_forward(i)

    def _note_narrow(self, i: int, name: str, op: pb.OpDesc) -> None:
        self.narrow.add(name)
        if self._has_loop(i):
            self.looped.add(name)
        elif self._is_product(i) or not self.fresh.isdisjoint(self.block.inputs[i]):
            self.fresh.add(name)
        if self._has_to_be_rounded(name):
            self._copy(name, op)
            self.replaced.add(name)
            self.fresh.discard(name)

    def _makes_narrow(self, i: int, op: pb.OpDesc) -> bool:
        """Return True if the first result of an op comes from bfloat16 numbers."""
        definition = find_op(op.type)
        if definition.traits.lowered or self._matches(op, self.lower):
            return True
        if not (self._is_pointwise(i) or definition.traits.follows):
            return False
        size = self._size(op.outputs[0])
        names = [
            name
            for j, name in enumerate(self.block.inputs[i])
            if self._is(name, "float32")
            and (self._size(name) == size or not self._is_pointwise(i))
            and (self._is_pointwise(i) or definition.signature.inputs[j] in definition.traits.follows)
        ]
        return bool(names) and all(name in self.narrow for name in names)

    def _has_to_be_rounded(self, name: str) -> bool:
        """Return True if a narrow tensor has to be in memory, and some reader does not insist on float32."""
        readers = self.readers.get(name, [])
        if any(self._is_lowered(i, j) and i not in self.kept for i, j in readers):
            return True
        if all(self._is_for_loop(i) for i, _ in readers):
            return False
        if any(self._goes_back(i, name) and (self._follows(i, j) or self._is_move(i)) for i, j in readers):
            return True
        if name not in self.fresh or (len(readers) == 1 and self._is_taken(name, readers[0][0])):
            return False
        return any(self._follows(i, j) or self._is_move(i) for i, j in readers)

    def _goes_back_rounded(self, name: str) -> bool:
        """Return True if the backward pass reads a float32 tensor of the forward pass by ops that follow alone."""
        back = [(i, j) for i, j in self.readers.get(name, []) if self._goes_back(i, name)]
        if name in self.wide or not back:
            return False
        return all(self._follows(i, j) or (self._is_lowered(i, j) and i not in self.kept) for i, j in back)

    # Moves of bfloat16.

    def _moves_narrow(self, i: int) -> bool:
        """Return True if an op moves elements of tensors that are read from their rounded copies."""
        if i in self.kept or not self._is_move(i):
            return False
        names = [name for name in self.block.inputs[i] if self._is(name, "float32")]
        outputs = self.block.outputs[i]
        moved = any(name in self.replaced for name in names)
        moved = moved and all(name in self.replaced or name in self.constants for name in names)
        return moved and all(self._is(name, "float32") and name not in self.gradients for name in outputs)

    def _move(self, old: pb.OpDesc) -> None:
        """Append an op that moves bfloat16 elements; its results are read from bfloat16."""
        op = copy_of(old)
        op.inputs[:] = [self._copy(name, old) if self._is(name, "float32") else name for name in old.inputs]
        for j, name in enumerate(old.outputs):
            op.outputs[j] = self.rounded[name] = self._tensor(name, DTYPE)
            self.narrow.add(name)
            self.replaced.add(name)
        self.ops.append(op)

    # Casts.

    def _copy(self, name: str, op: pb.OpDesc) -> str:
        """Return the rounded copy of a tensor; append the cast unless there is one. States have one for each reader."""
        if name in self.states:
            return self._cast(name, DTYPE, op)
        if name not in self.rounded:
            self.rounded[name] = self._cast(name, DTYPE, op)
        return self.rounded[name]

    def _widened(self, name: str, op: pb.OpDesc) -> str:
        wide = self._cast(self.rounded[name], "float32", op)
        self.wide.add(wide)
        return wide

    def _tensor(self, name: str, dtype: str) -> str:
        type = TensorType(dtype, self.types[name].shape)
        made = add_tensor(self.block.desc, tensor_desc(f"{name}.{dtype}", type), self.taken)
        self.types[made] = type
        return made

    def _cast(self, name: str, dtype: str, op: pb.OpDesc) -> str:
        made = self._tensor(name, dtype)
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
