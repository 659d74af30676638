"""DynamicQuantizeLSTM: both products of each step multiply integers of eight bits, whose operands get own scales.

As ONNX Runtime computes it, one range for the inputs of all steps, and one for the states of each step, both over the
whole batch. Backwards, the first step of each sequence is the last one of its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import arranged
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.onnx_operators.integers import array_of, dynamic_codes
from compiler.onnx_operators.recurrent import DEFAULTS, Step, activations, first_state
from compiler.onnx_operators.shape import reversed_sequences
from registry import Value, ops

KIND: Final = "LSTM"

SCALES_AND_ZEROS: Final = (8, 9, 10, 11)
"""Operands that are scales and zero points of both matrices."""


class _Product:
    """A quantised matrix of a direction; it multiplies rows that are quantised by their own range."""

    def __init__(self, node: Node, matrix: int, scale: int, zero: int, direction: int) -> None:
        zeros = array_of(node, zero)[direction].reshape(-1)
        self.codes = node.new(np.ascontiguousarray(array_of(node, matrix)[direction]))
        self.zero = node.new(zeros[0] if (zeros == zeros[0]).all() else zeros)
        self.scales = node.value(scale)[direction]

    def __call__(self, x: Value) -> Value:
        codes, scale, zero = dynamic_codes(x)
        sums = ops.integer_matmul(codes, self.codes, zero, self.zero)
        return ops.cast(sums, dtype="float32") * (scale * self.scales)


def _lstm(node: Node) -> Any:
    stored = all(isinstance(node.operands[number], Constant) for number in (1, 2, 9, 11))
    if not stored:
        raise CompileError(f"{node.operator} whose matrices or zero points are computed, which is not supported")
    directions, _, gates = node.sizes(2)
    for number in SCALES_AND_ZEROS:
        if node.sizes(number) not in ((directions,), (directions, gates)):
            raise CompileError(
                f"{node.operator} with scales or zero points of the shape {node.sizes(number)}; it takes "
                f"({directions},), or ({directions}, {gates}) for one of each column"
            )
    x, hidden = node.value(0), gates // 4
    batch, steps = x.shape[1], node.range(node.shape()[0])
    words = [str(word).lower() for word in node.attribute("activations", DEFAULTS[KIND] * directions)]
    bias, lengths = node.optional_value(3), node.optional_value(4)
    peepholes = node.optional_value(7)
    firsts = [first_state(node, number) if node.has(number) else None for number in (5, 6)]
    zero = node.full((batch, hidden), 0.0, x.dtype)
    rows: list[Value] = []
    lasts: list[Sequence[Value]] = []
    for d in range(directions):
        own = bias[d] if bias is not None else node.full((2 * gates,), 0.0, x.dtype)
        inputs = _Product(node, 1, 8, 9, d)(x)
        product = _Product(node, 2, 10, 11, d)
        both = own[:gates] + own[gates:]
        step = Step(
            node, KIND, activations(node, KIND, words, d), product, both, None if peepholes is None else peepholes[d]
        )
        first = tuple(zero if each is None else each[d] for each in firsts)
        backward = node.attribute("direction", "forward") == "reverse" or d == 1
        if lengths is None:
            last, y = ops.scan(_body(step), first, (inputs,), reverse=backward)
        else:
            inputs = reversed_sequences(inputs, steps, lengths) if backward else inputs
            (*last, _), y = ops.scan(_limited(step, zero), (*first, first[0]), (inputs, _running(steps, lengths)))
            y = reversed_sequences(y, steps, lengths) if backward else y
        rows.append(y)
        lasts.append(last)
    ends = [ops.stack(*(last[i] for last in lasts), axis=0) for i in range(2)]
    return (arranged(ops.stack(*rows, axis=1)), *map(arranged, ends))


def _body(step: Step) -> Any:
    """Return the body of a loop over steps."""

    def body(old: tuple[Value, Value], row: tuple[Value]) -> tuple[tuple[Value, Value], Value]:
        h, c = step(*row, *old)
        return (h, c), h

    return body


def _limited(step: Step, zero: Value) -> Any:
    """Return the body of a loop over steps that keeps the states of sequences that have ended.

    The result of an ended sequence is 0, so that the range of the next step, which quantises results, is that of the
    other sequences.
    """

    def body(old: tuple[Value, ...], row: tuple[Value, Value]) -> tuple[tuple[Value, ...], Value]:
        (h, c, y), (x, runs) = old, row
        new_h, new_c = step(x, y, c)
        y = ops.where(runs, new_h, zero)
        return (ops.where(runs, new_h, h), ops.where(runs, new_c, c), y), y

    return body


def _running(steps: Value, lengths: Value) -> Value:
    """Return for each step the sequences that have it, [t, n, 1]."""
    counts = ops.reshape(cast(lengths, "int64"), shape=(1, lengths.shape[0]))
    return ops.unsqueeze(ops.unsqueeze(steps, axis=(-1,)) < counts, axis=(-1,))


IMPORTS: Final[dict[str, Mapping]] = {"com.microsoft.DynamicQuantizeLSTM": _lstm}
