"""Pass: compute products with bfloat16 operands, and keep activations in bfloat16.

1. Lower: the operators with the trait `lowered`, products of matrices and convolutions with their gradients, read
   bfloat16 copies of their operands and add in float32.
2. Follow: a result is narrow if it comes from bfloat16 numbers. These are results of lowered ops, of pointwise ops and
   of ops with the trait `follows`, such as norms and pooling, whose large operands are narrow, and of ops that only
   move narrow elements. A narrow tensor that has to be in memory is rounded once, by the op that makes it, and all ops
   read the rounded one. It is a tensor that a lowered op reads, or that goes from the forward to the backward pass, or
   a product that no single pointwise op takes in registers. Pointwise ops compute in float32 between a widening load
   and a rounding store.
3. Keep: all other ops stay float32: losses, softmax, reductions and statistics, updates and the states, which are the
   masters. Results that they make are not narrow. If the backward pass reads such a tensor, or a sum of it and a narrow
   one, by ops that follow, they read a rounded copy, and forward ops read the tensor.
   A forward product with fewer than `MIN_COLUMNS` columns of a result, whose large operands are float32, stays float32
   as well: rounding the operands takes longer than the product gains.
4. A forward op that `keep` matches, by the name of an operand or of a result, stays as it is, and so do its gradient
   ops and the ops that help to differentiate these. Results of an op that `lower` matches are narrow.
5. Gradients of states are not narrow, nor is what a model makes after its last product, such as logits and losses.
   Tensors that are compared with one another are read as they are: two rounded tensors may be equal where the tensors
   are not, and a gradient would count twice.
6. A copy of a state is made for each reader, and the op that widens a copy is appended for each reader, so that neither
   lives from the forward to the backward pass; `merge_identical` merges those that cost no memory.

The lists are those of automatic mixed precision: Micikevicius et al., "Mixed precision training", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import prod
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

MIN_COLUMNS: Final = 32
"""Least number of columns of the result of a product whose operands are rounded for it alone: two vectors."""

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""Stages of the ops of the backward pass."""


def mixed_precision(program: BlockAnalyses, *, dtype: str = "", keep: str = "", lower: str = "") -> None:
    """Compute products with bfloat16 operands, and keep activations in bfloat16; off unless `dtype` is given.

    Args:
        program: its source blocks, and those inside their ops, are edited.
        dtype: bfloat16, or nothing for a program as it was built.
        keep: patterns of names, with commas between them, of tensors whose ops stay float32, such as head.*
        lower: patterns of names, likewise, of results that are rounded although an operand is not.
    """
    if not dtype:
        for option, patterns in (("keep", keep), ("lower", lower)):
            if patterns:
                raise CompileError(f"mixed: {option}={patterns!r} needs mixed precision; give {DTYPE!r} as mixed too")
        return
    if dtype != DTYPE:
        raise CompileError(f"mixed={dtype!r}: operands can be rounded to {DTYPE} only; write mixed={DTYPE!r}")
    names = {name for number in range(len(program)) for name in program[number].names}
    found = {"keep": _patterns("keep", keep, names), "lower": _patterns("lower", lower, names)}
    for number in range(len(program)):
        _Lowering(program[number], found["keep"], found["lower"]).rewrite()


def _patterns(option: str, text: str, names: set[str]) -> list[str]:
    """Return the patterns of an option; raise CompileError if one matches no tensor."""
    patterns = [pattern for pattern in text.split(",") if pattern]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CompileError(f"mixed: {option}={pattern!r} matches no tensor; `compiler show` prints their names")
    return patterns


class _Lowering:
    """The rewriting of a block.

    Attributes:
        kept: ids of ops that `keep` leaves as they are.
        narrow: float32 tensors that come from bfloat16 numbers.
        fresh: narrow tensors that a product and pointwise ops after it compute, and that are in no memory so far.
        rounded: bfloat16 copies, by the tensor that each is of.
        replaced: tensors that all later ops read from their rounded copies.
        looped: results of ops that round the operands of their products themselves, such as recurrent layers: only
            products, and ops that follow or move elements, read their rounded copies.
        weights: bfloat16 copies of states that such an op and its gradient read, by state and op.
        wide: tensors that only widen a 16-bit float.
    """

    def __init__(self, block: BlockAnalysis, keep: Sequence[str], lower: Sequence[str]) -> None:
        self.block, self.keep, self.lower = block, keep, lower
        self.types: dict[str, TensorType] = dict(block.types)
        self.taken = tensor_names(block.desc)
        self.next_id = 1 + max(block.ids, default=0)
        self.states, self.ends = set(block.state_of), set(block.ends)
        self.forward = {
            name for i, outputs in enumerate(block.outputs) if self._is_forward(i) for name in outputs if name
        }
        self.constants: set[str] = set()
        for i, inputs in enumerate(block.inputs):
            if not any(inputs) or (self._is_move(i) and self.constants.issuperset(filter(None, inputs))):
                self.constants.update(block.outputs[i])
        self.readers: dict[str, list[tuple[int, int]]] = {}
        for i, inputs in enumerate(block.inputs):
            for j, name in enumerate(inputs):
                self.readers.setdefault(name, []).append((i, j))
        self.kept = self._kept()
        self.compared = {name for i in range(len(block.ops)) if self._compares(i) for name in block.inputs[i] if name}
        self.gradients = self._gradients_of_states()
        self.feeding = self._feeding()
        self.narrow: set[str] = set()
        self.fresh: set[str] = set()
        self.rounded: dict[str, str] = {}
        self.replaced: set[str] = set()
        self.looped: set[str] = set()
        self.weights: dict[tuple[str, int], str] = {}
        self.wide: set[str] = set()
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
            op = pb.OpDesc()
            op.CopyFrom(old)
            op.inputs[:] = [self._operand(i, j, name, op) for j, name in enumerate(old.inputs)]
            self.ops.append(op)
            self._note(i, op)
        if len(self.ops) == len(block.ops):
            return
        del block.desc.ops[:]
        block.desc.ops.extend(self.ops)
        block.forget()
        order_tensors(block)

    # Facts about the block as it is.

    def _is_forward(self, i: int) -> bool:
        return self.block.ops[i].stage == pb.STAGE_FORWARD

    def _kept(self) -> set[int]:
        """Return the positions of the ops that `keep` matches, and of those that help to differentiate them."""
        ops = enumerate(self.block.ops)
        return self._with_gradients({i for i, op in ops if not op.gradient_of and self._matches(op, self.keep)})

    def _with_gradients(self, found: set[int]) -> set[int]:
        """Return the positions of these ops, and of those that help to differentiate them."""
        ids = {self.block.ops[i].id for i in found}
        for i, op in enumerate(self.block.ops):
            if op.gradient_of in ids:
                found.add(i)
                ids.add(op.id)
        return found

    def _is_small(self, i: int) -> bool:
        """Return True if a forward product has few columns, and operands that would be rounded for it alone."""
        op = self.block.ops[i]
        if not self._is_forward(i) or not self._is_product(i) or self._has_loop(i) or self._matches(op, self.lower):
            return False
        columns, states = self.types[op.outputs[0]].shape[-1], self.states
        large = [name for name in self.block.inputs[i] if name and name not in states and self._is(name, "float32")]
        is_narrow = any(name in self.narrow or name in self.rounded for name in large)
        return isinstance(columns, int) and columns < MIN_COLUMNS and bool(large) and not is_narrow

    def _matches(self, op: pb.OpDesc, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern) for name in (*op.inputs, *op.outputs) for pattern in patterns)

    def _compares(self, i: int) -> bool:
        """Return True if an op compares two tensors."""
        op = self.block.ops[i]
        if op.type in CONTROL or not op.outputs or self.types[op.outputs[0]].dtype != "bool":
            return False
        return sum(name not in self.constants for name in op.inputs if name) > 1

    def _gradients_of_states(self) -> set[str]:
        """Return the tensors that updates read, and those that these are computed from, element by element."""
        block = self.block
        found = {name for i, op in enumerate(block.ops) if op.stage == pb.STAGE_UPDATE for name in block.inputs[i]}
        found |= self.ends
        for i in reversed(range(len(block.ops))):
            if found.isdisjoint(block.outputs[i]) or not (self._is_pointwise(i) or self._is_move(i)):
                continue
            size = self._size(block.outputs[i][0])
            found.update(name for name in block.inputs[i] if name and self._size(name) == size)
        return found

    def _feeding(self) -> set[str]:
        """Return the forward tensors from which the forward pass comes to a product; the rest is heads and losses."""
        found: set[str] = set()
        for i in reversed(range(len(self.block.ops))):
            if self._is_forward(i) and (self._is_product(i) or not found.isdisjoint(self.block.outputs[i])):
                found.update(self.block.inputs[i])
        return found

    def _is_pointwise(self, i: int) -> bool:
        return is_pointwise(self.block.op_types[i]) and self.block.op_types[i] != "cast"

    def _is_move(self, i: int) -> bool:
        """Return True if an op only moves elements of its operands."""
        type = self.block.op_types[i]
        if type in CONTROL or is_pointwise(type):
            return False
        definition = find_op(type)
        return definition.halves and not definition.traits.lowered and bool(self.block.inputs[i])

    def _size(self, name: str) -> tuple[int, tuple[str, ...]]:
        """Return the number of elements of a tensor: the known part, and the symbols."""
        shape = self.types[name].shape
        symbols = tuple(sorted(extent for extent in shape if isinstance(extent, str)))
        return prod(extent for extent in shape if isinstance(extent, int)), symbols

    # Operands.

    def _operand(self, i: int, j: int, name: str, op: pb.OpDesc) -> str:
        """Return what an op reads as its operand `j`; append the casts that this takes."""
        if not self._is(name, "float32"):
            return name
        if i not in self.kept and self._is_lowered(i, j) and name not in self.wide:
            return self._weights_of_loop(name, op) if self._has_loop(i) else self._copy(name, op)
        if name in self.looped and not self._follows(i, j):
            return name
        if name in self.replaced or (name in self.rounded and self._follows(i, j) and self._goes_back(i, name)):
            return self._widened(name, op)
        return name

    def _is_lowered(self, i: int, j: int) -> bool:
        if self.block.op_types[i] in CONTROL:
            return False
        definition = find_op(self.block.op_types[i])
        names = definition.signature.inputs
        return j < len(names) and names[j] in definition.traits.lowered

    def _has_loop(self, i: int) -> bool:
        """Return True if an op rounds the first operand of its products itself, step by step."""
        if self.block.op_types[i] in CONTROL:
            return False
        definition = find_op(self.block.op_types[i])
        return bool(definition.traits.lowered) and definition.signature.inputs[0] not in definition.traits.lowered

    def _is_for_loop(self, i: int) -> bool:
        """Return True if an op is such an op, or only moves elements for it."""
        if self._has_loop(i) or not self._is_move(i):
            return self._has_loop(i)
        readers = [reader for name in self.block.outputs[i] for reader, _ in self.readers.get(name, [])]
        return bool(readers) and all(self._is_for_loop(reader) for reader in readers)

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

    def _goes_back(self, i: int, name: str) -> bool:
        """Return True if an op of the backward pass reads a tensor of the forward pass."""
        return self.block.ops[i].stage in BACKWARD and name in self.forward

    # Results.

    def _note(self, i: int, op: pb.OpDesc) -> None:
        """Record what later ops ask about the results of an op, and round those that have to be."""
        if op.type == "cast" and self._is(op.inputs[0], DTYPE) and self._is(op.outputs[0], "float32"):
            self.wide.update(op.outputs)
            self.narrow.update(op.outputs)
            return
        if not self._may_be_narrow(i, op):
            return
        name = op.outputs[0]
        if self._makes_narrow(i, op) and name not in self.gradients and name not in self.compared:
            self._note_narrow(i, name, op)
        elif self._goes_back_rounded(name):
            self._copy(name, op)

    def _may_be_narrow(self, i: int, op: pb.OpDesc) -> bool:
        """Return True for a matrix of float32 that no kept op makes, and from which the forward pass goes on."""
        if i in self.kept or op.type in CONTROL or not op.outputs or op.type == "cast":
            return False
        name = op.outputs[0]
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

    def _is_product(self, i: int) -> bool:
        return self.block.op_types[i] not in CONTROL and bool(find_op(self.block.op_types[i]).traits.lowered)

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

    def _is_taken(self, name: str, reader: int) -> bool:
        """Return True if a pointwise op may take a tensor in registers: it is its last large operand that is made."""
        if not self._is_pointwise(reader):
            return False
        others = [x for x in self.block.inputs[reader] if x and x != name and self._size(x) == self._size(name)]
        makers = self.block.use_def.makers
        return all(makers.get(other, -1) < makers[name] for other in others)

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
        op = pb.OpDesc()
        op.CopyFrom(old)
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

    def _is(self, name: str, dtype: str) -> bool:
        return bool(name) and self.types[name].dtype == dtype
