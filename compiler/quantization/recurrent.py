"""Recurrent layers whose states are multiplied as codes: a loop over time in place of one operator.

Each step quantises the states by one scale and zero point for all steps, multiplies their codes exactly by those of the
weight, and scales the sums to float32. The gates are those of the operator, in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from compiler.train.written_ops import written_all
from prograd_proto import attributes_of
from prograd_proto import program_pb2 as pb
from registry import Block, Value, ops
from registry.ops.recurrent import CELLS


class Layer(NamedTuple):
    """A weight as tensors of a block: its codes and their scales, and the scale and the zero point of its operand."""

    codes: Value
    scales: Value
    scale: Value
    zero: Value

    @property
    def is_turned(self) -> bool:
        """True if products multiply by the transpose of the weight, so that its rows have the scales."""
        return self.scales.rank > 1

    @property
    def channel_scales(self) -> Value:
        """The scales as a vector."""
        return ops.reshape(self.scales, shape=(-1,)) if self.is_turned else self.scales


def operands_of(op: pb.OpDesc) -> list[str]:
    """Return the tensors that a weight multiplies: the operand of a product, or the states of a recurrent layer."""
    if op.type not in CELLS:
        return [op.inputs[0]]
    return [op.outputs[0], op.inputs[CELLS[op.type].first[0]]]


def steps_of_codes(block: Block, op: pb.OpDesc, layer: Layer, zero: Callable[[Block], Value]) -> list[pb.OpDesc]:
    """Return the ops of a loop over the steps of a layer, under the names of its results.

    `zero` writes the zero point of weights.
    """
    cell = CELLS[op.type]
    operands = [block.value(name) if name else None for name in op.inputs]
    has_mask = len(operands) > cell.mask and operands[cell.mask] is not None
    rows = [block.value(op.inputs[i]) for i in (0, cell.mask)[: 1 + has_mask]]
    bias = None if cell.bias is None else operands[cell.bias]

    def write() -> list[Value]:
        w_zero, factor = zero(block), layer.scale * layer.channel_scales

        def step(old: tuple[Value, ...], row: tuple[Value, ...]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
            codes = ops.quantize_linear(old[0], layer.scale, layer.zero)
            a = ops.cast(ops.integer_matmul(codes, layer.codes, layer.zero, w_zero), dtype="float32") * factor
            new = cell.gates(row[0], a if bias is None else a + bias, list(old))
            if has_mask:
                flag = ops.unsqueeze(row[1], axis=(-1,))
                new = [ops.where(flag, *pair) for pair in zip(new, old, strict=True)]
            return tuple(new), tuple(new)

        first = tuple(block.value(op.inputs[i]) for i in cell.first)
        steps = tuple(_swapped(row) for row in rows)
        _, after = ops.scan(step, first, steps, reverse=bool(attributes_of(op)["reverse"]))
        return [_swapped(each) for each in after]

    block.at(op.location)
    made = written_all(block, op.outputs, write)
    block.at(None)
    return made


def _swapped(x: Value) -> Value:
    """Return sequences by step, or steps by sequence."""
    return ops.transpose(x, axis=(1, 0, *range(2, x.rank)))
