"""The facts about a block that mixed precision asks while it rewrites the block."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Final

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from registry.control.control_op import CONTROL
from registry.op import find_op
from runtime.step.arithmetic import is_pointwise

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""Stages of the ops of the backward pass."""


class BlockFacts:
    """The facts about a block as it was before it is rewritten; ops are positions in it.

    Attributes:
        types: types of tensors, also of those that are added.
        states, ends: states, and tensors that are read after the block.
        forward: tensors of the forward pass.
        constants: tensors that follow from no operand.
        readers: readers of a tensor, each with the number of the operand.
        compared: tensors that an op compares with another one.
        gradients: tensors that updates read, and those that these are computed from, element by element.
        feeding: forward tensors that a later product of the forward pass depends on; the rest is heads and losses.
    """

    def __init__(self, block: BlockAnalysis) -> None:
        self.block = block
        self.types: dict[str, TensorType] = dict(block.types)
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
        self.compared = {name for i in range(len(block.ops)) if self._compares(i) for name in block.inputs[i] if name}
        self.gradients = self._gradients_of_states()
        self.feeding = self._feeding()

    def _is_forward(self, i: int) -> bool:
        return self.block.ops[i].stage == pb.STAGE_FORWARD

    def _with_gradients(self, found: set[int]) -> set[int]:
        """Return the positions of these ops, and of those that help to differentiate them."""
        ids = {self.block.ops[i].id for i in found}
        for i, op in enumerate(self.block.ops):
            if op.gradient_of in ids:
                found.add(i)
                ids.add(op.id)
        return found

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
        """Return the forward tensors that a later product of the forward pass depends on.

        The rest is heads and losses.
        """
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
        """Return True if an op loops over its products, or only moves elements for such ops."""
        if self._has_loop(i) or not self._is_move(i):
            return self._has_loop(i)
        readers = [reader for name in self.block.outputs[i] for reader, _ in self.readers.get(name, [])]
        return bool(readers) and all(self._is_for_loop(reader) for reader in readers)

    def _is_product(self, i: int) -> bool:
        return self.block.op_types[i] not in CONTROL and bool(find_op(self.block.op_types[i]).traits.lowered)

    def _goes_back(self, i: int, name: str) -> bool:
        """Return True if an op of the backward pass reads a tensor of the forward pass."""
        return self.block.ops[i].stage in BACKWARD and name in self.forward

    def _is_taken(self, name: str, reader: int) -> bool:
        """Return True if a pointwise op may read a tensor from registers.

        Of its large operands, it is computed last.
        """
        if not self._is_pointwise(reader):
            return False
        others = [x for x in self.block.inputs[reader] if x and x != name and self._size(x) == self._size(name)]
        makers = self.block.use_def.makers
        return all(makers.get(other, -1) < makers[name] for other in others)

    def _is(self, name: str, dtype: str) -> bool:
        return bool(name) and self.types[name].dtype == dtype
