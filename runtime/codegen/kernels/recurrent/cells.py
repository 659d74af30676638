"""The mathematics of cells: what a step makes of preactivations, and the gradients of that.

`x` is what is added to a product, `made` the product. Gates are in the order of the weights: reset, update, new of a
GRU; input, forget, cell, output of an LSTM.
"""

from __future__ import annotations

from typing import NamedTuple

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import fma
from runtime.codegen.math import sigmoid, tanh


class CellGradients(NamedTuple):
    """The gradients of a step.

    Attributes:
        x: of what was added to the product, by gate.
        product: of the product.
        kept: of the state before, past the product.
        cell: of the cell before.
    """

    x: list[Value]
    product: list[Value]
    kept: Value | None = None
    cell: Value | None = None


def rnn_sum(x: list[Value], made: list[Value]) -> Value:
    """Of which tanh is the new state."""
    return made[0] + x[0]


def rnn_back(h: Value, dh: Value) -> CellGradients:
    """From the new state."""
    d = dh * (1 - h * h)
    return CellGradients([d], [d])


def gru_gates(x: list[Value], made: list[Value]) -> list[Value]:
    """Reset, update, and what the state before adds to the new one before it is reset."""
    return [sigmoid(made[0] + x[0]), sigmoid(made[1] + x[1]), made[2]]


def gru_sum(gates: list[Value], x: Value) -> Value:
    """Of which tanh is the new state before it is mixed with the old one; `x` is what was added for it."""
    reset, _, part = gates
    return fma(part, reset, x)


def gru_mix(update: Value, new: Value, old: Value) -> Value:
    """The new state, mixed."""
    return fma(old - new, update, new)


def gru_back(gates: list[Value], new: Value, old: Value, dh: Value) -> CellGradients:
    """From the gates, and the new state before it was mixed with the old one."""
    reset, update, part = gates
    d_update = (old - new) * dh * ((1 - update) * update)
    d_new = dh * (1 - update) * (1 - new * new)
    d_reset = d_new * part * ((1 - reset) * reset)
    return CellGradients([d_reset, d_update, d_new], [d_reset, d_update, d_new * reset], kept=dh * update)


def lstm_gates(x: list[Value], made: list[Value]) -> list[Value]:
    """Input, forget, cell and output."""
    before = [a + b for a, b in zip(made, x, strict=True)]
    return [sigmoid(before[0]), sigmoid(before[1]), tanh(before[2]), sigmoid(before[3])]


def lstm_cell(gates: list[Value], cell: Value) -> Value:
    """The new cell; its tanh times the last gate is the new state."""
    i, f, g, _ = gates
    return fma(f, cell, i * g)


def lstm_back(gates: list[Value], cell: Value, before: Value, dh: Value, dc: Value) -> CellGradients:
    """From the gates, and the cells after and before the step."""
    i, f, g, o = gates
    bent = tanh(cell)
    dc = fma((1 - bent * bent) * dh, o, dc)
    d = [
        dc * g * ((1 - i) * i),
        dc * before * ((1 - f) * f),
        dc * i * (1 - g * g),
        dh * bent * ((1 - o) * o),
    ]
    return CellGradients(d, d, cell=dc * f)
