"""The mathematics of cells: states from preactivations, and the gradients.

A preactivation is `x` plus `products`, the product of the states. Gates are in the order of the weights: reset, update,
new for a GRU; input, forget, cell, output for an LSTM.
"""

from __future__ import annotations

from typing import NamedTuple

from runtime.codegen.ir import Value
from runtime.codegen.ir.words import fma
from runtime.codegen.math import sigmoid, tanh


class CellGradients(NamedTuple):
    """The gradients of a step.

    Attributes:
        x: gradient of the term that is added to the product, by gate.
        product: gradient of the product.
        kept: gradient of the state before, without the contribution through the product.
        cell: gradient of the cell before.
    """

    x: list[Value]
    product: list[Value]
    kept: Value | None = None
    cell: Value | None = None


def rnn_sum(x: list[Value], products: list[Value]) -> Value:
    """Return the preactivation, whose tanh is the new state."""
    return products[0] + x[0]


def rnn_back(h: Value, dh: Value) -> CellGradients:
    """Return the gradients of an RNN's step from the new state."""
    d = dh * (1 - h * h)
    return CellGradients([d], [d])


def gru_gates(x: list[Value], products: list[Value]) -> list[Value]:
    """Return reset, update, and the product for the new state before it is reset."""
    return [sigmoid(products[0] + x[0]), sigmoid(products[1] + x[1]), products[2]]


def gru_sum(gates: list[Value], x: Value) -> Value:
    """Return the sum whose tanh is the candidate state; `x` is the term that is added to the product."""
    reset, _, part = gates
    return fma(part, reset, x)


def gru_mix(update: Value, new: Value, old: Value) -> Value:
    """Return the new state: the candidate interpolated with the old state."""
    return fma(old - new, update, new)


def gru_back(gates: list[Value], new: Value, old: Value, dh: Value) -> CellGradients:
    """Return the gradients of a GRU's step from the gates and the candidate state."""
    reset, update, part = gates
    d_update = (old - new) * dh * ((1 - update) * update)
    d_new = dh * (1 - update) * (1 - new * new)
    d_reset = d_new * part * ((1 - reset) * reset)
    return CellGradients([d_reset, d_update, d_new], [d_reset, d_update, d_new * reset], kept=dh * update)


def lstm_gates(x: list[Value], products: list[Value]) -> list[Value]:
    """Return input, forget, cell and output."""
    before = [a + b for a, b in zip(products, x, strict=True)]
    return [sigmoid(before[0]), sigmoid(before[1]), tanh(before[2]), sigmoid(before[3])]


def lstm_cell(gates: list[Value], cell: Value) -> Value:
    """Return the new cell; its tanh times the last gate is the new state."""
    i, f, g, _ = gates
    return fma(f, cell, i * g)


def lstm_back(gates: list[Value], cell: Value, before: Value, dh: Value, dc: Value) -> CellGradients:
    """Return the gradients of an LSTM's step from the gates, and the cells after and before the step."""
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
