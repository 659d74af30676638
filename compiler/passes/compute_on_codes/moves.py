"""Codes that are moved in place of the numbers that they stand for, and codes that are quantised again."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from compiler.passes.compute_on_codes.new_ops import NewOps
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from registry.op import find_op

CHOOSING: Final = ("gather", "max_pool2d")
"""Operators that choose elements of their first operand, as those with the trait `repeats` repeat or move them."""

LEAST_SCALE: Final = 2.0**-100
LARGEST_SCALE: Final = 2.0**100
"""Scales whose products with nine-bit integers are neither denormal nor infinite."""


class Codes(NamedTuple):
    """The codes of a tensor of numbers, the tensors of their scale and zero point, and the bytes of these."""

    codes: str
    scale: str
    zero: str
    parameters: tuple[bytes, bytes]


def move_codes(block: BlockAnalysis) -> None:
    """Edit a block: moves of numbers of codes become moves of codes."""
    moving = _Moving(block)
    for i in range(len(block.ops)):
        moving.visit(i)
    if moving.is_changed:
        moving.new.write()


class _Moving:
    """The ops of a block so far.

    Attributes:
        numbers: the codes of tensors of numbers.
        joined: the operands of concatenations of tensors of numbers with several scales.
    """

    def __init__(self, block: BlockAnalysis) -> None:
        self.block, self.types = block, dict(block.types)
        self.new = NewOps(block)
        self.numbers: dict[str, Codes] = {}
        self.joined: dict[str, pb.OpDesc] = {}
        self.is_changed = False
        self.constants = {
            op.outputs[0]: op.attributes[0].tensor_value.data for op in block.ops if op.type == "constant"
        }
        self.kept = {tensor.name for tensor in block.tensors if tensor.lifespan}

    def visit(self, i: int) -> None:
        """Append an op, or those that replace it."""
        op = self.block.ops[i]
        replace = {"dequantize_linear": self._note, "quantize_linear": self._quantises}.get(op.type, self._moves)
        if not (self.kept.isdisjoint((*op.inputs, *op.outputs)) and replace(op)):
            self.new.ops.append(op)
        else:
            self.is_changed = True

    def _note(self, op: pb.OpDesc) -> bool:
        """Remember that a tensor has the numbers of codes, and return False: its op stays while something reads it."""
        parameters = self._parameters(op)
        if parameters is not None:
            self.numbers[op.outputs[0]] = Codes(op.inputs[0], op.inputs[1], op.inputs[2], parameters)
        return False

    def _parameters(self, op: pb.OpDesc) -> tuple[bytes, bytes] | None:
        """Return the bytes of a scale and a zero point that are constants, and of ordinary size."""
        scale, zero = (self.constants.get(name, b"") for name in op.inputs[1:3])
        if len(scale) != 4 or len(zero) != 1 or self.types[op.inputs[1]].rank or self.types[op.inputs[2]].rank:
            return None
        return (scale, zero) if LEAST_SCALE < struct.unpack("<f", scale)[0] < LARGEST_SCALE else None

    def _moves(self, op: pb.OpDesc) -> bool:
        """Move codes, if the operands are numbers of codes with one scale; else remember a concatenation."""
        if op.type not in (*CHOOSING, "concat") and (op.blocks or not find_op(op.type).traits.repeats):
            return False
        moved = op.inputs if op.type == "concat" else op.inputs[:1]
        found = [self.numbers[name] for name in moved if name in self.numbers]
        if len(found) != len(moved):
            return False
        if len({codes.parameters for codes in found}) > 1:
            self.joined[op.outputs[0]] = op
            return False
        names = [codes.codes for codes in found] + list(op.inputs[len(moved) :])
        made = [self._tensor(name, self.types[name]) for name in op.outputs]
        self.new.add(op, op.type, names, made, op.attributes)
        for name, codes in zip(op.outputs, made, strict=True):
            self.new.add(op, "dequantize_linear", [codes, found[0].scale, found[0].zero], [name])
            self.numbers[name] = found[0]._replace(codes=codes)
        return True

    def _quantises(self, op: pb.OpDesc) -> bool:
        """Replace a quantisation of numbers of codes, or of a concatenation of them; return False if it stays."""
        parameters, x = self._parameters(op), op.inputs[0]
        if parameters is None:
            return False
        if x in self.numbers and self.numbers[x].parameters == parameters:
            self.new.add(op, "identity", [self.numbers[x].codes], op.outputs)
            return True
        if x not in self.joined:
            return False
        join, parts = self.joined[x], list[str]()
        for name in join.inputs:
            parts.append(self._tensor(op.outputs[0], self.types[name]))
            quantise = pb.OpDesc(type=op.type, inputs=[name, *op.inputs[1:]], outputs=parts[-1:])
            quantise.stage, quantise.location = op.stage, op.location
            if not self._quantises(quantise):
                self.new.add(op, op.type, quantise.inputs, quantise.outputs)
        self.new.add(op, "concat", parts, op.outputs, join.attributes)
        return True

    def _tensor(self, name: str, type: TensorType) -> str:
        """Describe a tensor of codes with the shape of a type."""
        codes = TensorType("uint8", type.shape)
        made = self.new.tensor(f"{name}.codes", codes)
        self.types[made] = codes
        return made
