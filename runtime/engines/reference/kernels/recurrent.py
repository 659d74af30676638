"""Recurrent layers: a loop over time steps, each computed for the whole batch and all units at once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.state_product import StateProduct, product_types, state_product
from runtime.engines.reference.kernels.time_steps import (
    drop,
    hidden,
    keep,
    not_in,
    one_step,
    state_before,
    steps,
)
from runtime.engines.reference.kernels.windows import BUFFER
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, RowRule, each_operand, has_rows


def one_pass(x: TensorType, r: TensorType) -> int:
    """Return the operations of a layer with one recurrent product per time step."""
    return 2 * prod(x.static_shape[:2]) * prod(r.static_shape) + prod(x.static_shape)


def two_passes(x: TensorType, r: TensorType) -> int:
    """Return the operations of a layer with two recurrent products per time step."""
    return 4 * prod(x.static_shape[:2]) * prod(r.static_shape) + prod(x.static_shape)


def layer_rows(weights: int) -> RowRule:
    """Return the row rule of a layer whose operands after the sequences begin with `weights` weights.

    Sequences, first states and the mask have rows; weights are the same for all.
    """

    def rule(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
        sequences, rest = operands[0], operands[1 + weights :]
        is_shared = not any(has_rows(x) for x in operands[1 : 1 + weights])
        return is_shared and each_operand([sequences, *rest], result, attributes)

    return rule


def rnn_scratch(r: TensorType, h0: TensorType, mask: TensorType | None) -> list[TensorType]:
    return [*product_types(r, h0), h0, *hidden(mask)]


@kernel(scratch=rnn_scratch, rows=layer_rows(1), operations=one_pass)
def rnn_layer(
    x: Array, r: Array, h0: Array, mask: Array | None, *, reverse: bool, out: Array, scratch: list[Array]
) -> None:
    product, scratch = state_product(r, scratch)
    gate, *hides = scratch
    hides = not_in(mask, hides)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, before in steps(x, reverse):
            old = h0 if before is None else out[:, before]
            product.forwards(old, gate)
            np.add(gate, x[:, t], gate)
            np.tanh(gate, out[:, t])
            keep(old, hides, t, out[:, t])


def rnn_gradient_scratch(r: TensorType, h0: TensorType, mask: TensorType | None) -> list[TensorType]:
    return [*product_types(r, h0), h0, h0, *hidden(mask)]


@kernel(scratch=rnn_gradient_scratch, operations=one_pass)
def rnn_layer_gradient(
    x: Array,
    r: Array,
    h0: Array,
    h: Array,
    dh: Array,
    mask: Array | None,
    *,
    reverse: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    dx, state = out
    product, scratch = state_product(r, scratch)
    kept, slope, *hides = scratch
    hides = not_in(mask, hides)
    state.fill(0)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, _ in steps(x, not reverse):
            np.add(state, dh[:, t], state)
            np.copyto(kept, state)
            np.multiply(h[:, t], h[:, t], slope)
            np.subtract(1, slope, slope)
            np.multiply(state, slope, dx[:, t])
            drop(hides, t, dx[:, t])
            product.backwards(dx[:, t], state)
            keep(kept, hides, t, state)


def gated_scratch(x: TensorType, r: TensorType, h0: TensorType, mask: TensorType | None) -> list[TensorType]:
    return [*product_types(r, h0), one_step(x), *hidden(mask)]


@kernel(scratch=gated_scratch, rows=layer_rows(2), operations=one_pass)
def gru_layer(
    x: Array, r: Array, bias: Array, h0: Array, mask: Array | None, *, reverse: bool, out: Array, scratch: list[Array]
) -> None:
    product, scratch = state_product(r, scratch)
    gates, *hides = scratch
    hides = not_in(mask, hides)
    size = h0.shape[1]
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, before in steps(x, reverse):
            old = h0 if before is None else out[:, before]
            new = out[:, t]
            gru_gates(x[:, t], product, bias, old, gates)
            reset, update, _ = np.split(gates, 3, 1)
            np.multiply(gates[:, 2 * size :], reset, new)
            np.add(new, x[:, t, 2 * size :], new)
            np.tanh(new, new)
            np.subtract(old, new, reset)
            np.multiply(reset, update, reset)
            np.add(new, reset, new)
            keep(old, hides, t, new)


def gated_gradient_scratch(x: TensorType, r: TensorType, h0: TensorType, mask: TensorType | None) -> list[TensorType]:
    return [*product_types(r, h0), one_step(x), *[h0] * 4, *hidden(mask)]


@kernel(scratch=gated_gradient_scratch, operations=two_passes)
def gru_layer_gradient(
    x: Array,
    r: Array,
    bias: Array,
    h0: Array,
    h: Array,
    dh: Array,
    mask: Array | None,
    *,
    reverse: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    dx, da, state = out
    product, scratch = state_product(r, scratch)
    gates, kept, new, slope, through, *hides = scratch
    hides = not_in(mask, hides)
    size = h0.shape[1]
    state.fill(0)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, _ in steps(x, not reverse):
            old = state_before(h, h0, t, reverse)
            gru_gates(x[:, t], product, bias, old, gates)
            reset, update, a = np.split(gates, 3, 1)
            np.multiply(a, reset, new)
            np.add(new, x[:, t, 2 * size :], new)
            np.tanh(new, new)
            np.add(state, dh[:, t], state)
            np.copyto(kept, state)
            d_reset, d_update, d_new = np.split(dx[:, t], 3, 1)
            np.subtract(old, new, slope)
            np.multiply(slope, state, d_update)
            times_logistic_slope(d_update, update, slope)
            np.subtract(1, update, slope)
            np.multiply(state, slope, d_new)
            np.multiply(new, new, slope)
            np.subtract(1, slope, slope)
            np.multiply(d_new, slope, d_new)
            np.multiply(d_new, a, d_reset)
            times_logistic_slope(d_reset, reset, slope)
            drop(hides, t, dx[:, t])
            np.copyto(da[:, t], dx[:, t])
            np.multiply(d_new, reset, da[:, t, 2 * size :])
            drop(hides, t, da[:, t])  # where the gate to reset is NaN
            np.multiply(state, update, through)
            product.backwards(da[:, t], state)
            np.add(state, through, state)
            keep(kept, hides, t, state)


@kernel(scratch=gated_scratch, rows=layer_rows(1), operations=one_pass)
def lstm_layer(
    x: Array,
    r: Array,
    h0: Array,
    c0: Array,
    mask: Array | None,
    *,
    reverse: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    h, c = out
    product, scratch = state_product(r, scratch)
    gates, *hides = scratch
    hides = not_in(mask, hides)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, before in steps(x, reverse):
            old, cell = (h0, c0) if before is None else (h[:, before], c[:, before])
            i, f, g, o = lstm_gates(x[:, t], product, old, gates)
            np.multiply(i, g, i)
            np.multiply(f, cell, c[:, t])
            np.add(c[:, t], i, c[:, t])
            np.tanh(c[:, t], h[:, t])
            np.multiply(h[:, t], o, h[:, t])
            keep(old, hides, t, h[:, t])
            keep(cell, hides, t, c[:, t])


@kernel(scratch=gated_gradient_scratch, operations=two_passes)
def lstm_layer_gradient(
    x: Array,
    r: Array,
    h0: Array,
    c0: Array,
    h: Array,
    c: Array,
    dh: Array,
    dc: Array,
    mask: Array | None,
    *,
    reverse: bool,
    out: list[Array],
    scratch: list[Array],
) -> None:
    dx, state, cell = out
    product, scratch = state_product(r, scratch)
    gates, kept, kept_cell, bent, slope, *hides = scratch
    hides = not_in(mask, hides)
    state.fill(0)
    cell.fill(0)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for t, _ in steps(x, not reverse):
            i, f, g, o = lstm_gates(x[:, t], product, state_before(h, h0, t, reverse), gates)
            d_i, d_f, d_g, d_o = np.split(dx[:, t], 4, 1)
            np.add(state, dh[:, t], state)
            np.add(cell, dc[:, t], cell)
            np.copyto(kept, state)
            np.copyto(kept_cell, cell)
            np.tanh(c[:, t], bent)
            np.multiply(state, bent, d_o)
            times_logistic_slope(d_o, o, slope)
            np.multiply(bent, bent, slope)
            np.subtract(1, slope, slope)
            np.multiply(slope, state, slope)
            np.multiply(slope, o, slope)
            np.add(cell, slope, cell)
            np.multiply(cell, g, d_i)
            times_logistic_slope(d_i, i, slope)
            np.multiply(cell, state_before(c, c0, t, reverse), d_f)
            times_logistic_slope(d_f, f, slope)
            np.multiply(g, g, slope)
            np.subtract(1, slope, slope)
            np.multiply(cell, i, d_g)
            np.multiply(d_g, slope, d_g)
            drop(hides, t, dx[:, t])
            np.multiply(cell, f, cell)
            product.backwards(dx[:, t], state)
            keep(kept, hides, t, state)
            keep(kept_cell, hides, t, cell)


def gru_gates(x: Array, product: StateProduct, bias: Array, old: Array, out: Array) -> None:
    """Compute the reset and update gates, then the contribution of the old state before its reset."""
    two = 2 * old.shape[1]
    product.forwards(old, out)
    np.add(out, bias, out)
    np.add(out[:, :two], x[:, :two], out[:, :two])
    logistic(out[:, :two])


def lstm_gates(x: Array, product: StateProduct, old: Array, out: Array) -> list[Array]:
    """Return the views input, forget, cell and output of `out`."""
    size = old.shape[1]
    product.forwards(old, out)
    np.add(out, x, out)
    logistic(out[:, : 2 * size])
    np.tanh(out[:, 2 * size : 3 * size], out[:, 2 * size : 3 * size])
    logistic(out[:, 3 * size :])
    return np.split(out, 4, 1)


def logistic(x: Array) -> None:
    """Replace x by 1 / (1 + e**-x), which tanh computes without overflow."""
    np.multiply(x, 0.5, x)
    np.tanh(x, x)
    np.multiply(x, 0.5, x)
    np.add(x, 0.5, x)


def times_logistic_slope(x: Array, y: Array, part: Array) -> None:
    """Multiply x by y * (1 - y), in place."""
    np.subtract(1, y, part)
    np.multiply(part, y, part)
    np.multiply(x, part, x)
