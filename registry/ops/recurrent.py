"""Recurrent networks: plain, GRU and LSTM, with PyTorch's formulas and order of gates.

Sequences are [n, t, c]. The input projections of all steps are one product. `rnn_layer`, `gru_layer` and `lstm_layer`
are the loops over time that remain, an op for each layer and direction. The state does not change at steps whose `mask`
is false. The gradients run backwards through the steps and recompute the gates.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Final, NamedTuple

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import size_known
from registry.composite import gradients_of
from registry.errors import require
from registry.op import op
from registry.ops.arrange import stack, unsqueeze
from registry.ops.copy import as_factor
from registry.ops.fill import full, full_like, range
from registry.ops.linalg import matmul, outer_sum
from registry.ops.pointwise import sigmoid, tanh, where
from registry.ops.random import dropout
from registry.ops.reduce import sum
from registry.ops.shape import concat, split
from registry.spelled import spelled
from registry.traits import checked_through, example, lowered
from registry.value import Value

Layer = Callable[[Value, list[Value], list[Value], Value | None, bool], list[Value]]
"""A function from sequence, weights, initial states, mask and direction to the states after each step."""


@lowered("r")
@example((1, 1, 2), (2, 2), (1, 2), (1, 1))
@op("h")
def rnn_layer(x: Value, r: Value, h0: Value, mask: Value | None = None, *, reverse: bool = False) -> TensorType:
    """Return h = tanh(x + h_before @ r) after each step: x [n, t, h], r [h, h], h0 [n, h], mask bool [n, t].

    `r` may be bfloat16 if the others are float32: the product then rounds the states, and sums are float32.
    """
    ...


@rnn_layer.gradient
def rnn_layer_gradient_rule(
    x: Value, r: Value, h0: Value, mask: Value | None, h: Value, dh: Value, *, reverse: bool
) -> tuple[Value | None, ...]:
    dx, dh0 = rnn_layer_gradient(x, r, h0, h, dh, mask, reverse=reverse)
    return dx, _weights_gradient(h, h0, r, dx, reverse), dh0, None


@lowered("r")
@checked_through("rnn_layer")
@example((1, 1, 2), (2, 2), (1, 2), (1, 1, 2), (1, 1, 2), (1, 1))
@op("dx", "dh0", no_gradient=("h",))
def rnn_layer_gradient(
    x: Value, r: Value, h0: Value, h: Value, dh: Value, mask: Value | None = None, *, reverse: bool = False
) -> tuple[TensorType, TensorType]:
    """Return the gradients of rnn_layer for x and h0; h is its result, and r has its own product."""
    ...


@rnn_layer_gradient.gradient
def rnn_layer_gradient_gradient(
    x: Value,
    r: Value,
    h0: Value,
    dh: Value,
    mask: Value | None,
    ddx: Value | None,
    ddh0: Value | None,
    *,
    reverse: bool,
) -> tuple[Value | None, ...]:
    def first(x: Value, r: Value, h0: Value, dh: Value) -> list[Value]:
        cell = CELLS["rnn_layer"]
        return _present(gradients_of(lambda *xs: _steps(cell, xs[0], r, [xs[1]], mask, reverse), [x, h0], [dh]))

    gx, gr, gh0, gdh = gradients_of(first, [x, r, h0, dh], [ddx, ddh0])
    return gx, gr, gh0, None, gdh, None


@lowered("r")
@example((1, 1, 6), (2, 6), (6,), (1, 2), (1, 1))
@op("h")
def gru_layer(
    x: Value, r: Value, bias: Value, h0: Value, mask: Value | None = None, *, reverse: bool = False
) -> TensorType:
    """Return the states of a GRU after each step: x [n, t, 3 * h], r [h, 3 * h], bias [3 * h], h0 [n, h].

    `mask` is bool [n, t]. With a = h_before @ r + bias and the gates in the order reset, update, new: reset = sigmoid(x
    + a), update = sigmoid(x + a), new = tanh(x + reset * a), h = (1 - update) * new + update * h_before. Cho et al.,
    2014.
    """
    ...


@gru_layer.gradient
def gru_layer_gradient_rule(
    x: Value, r: Value, bias: Value, h0: Value, mask: Value | None, h: Value, dh: Value, *, reverse: bool
) -> tuple[Value | None, ...]:
    dx, da, dh0 = gru_layer_gradient(x, r, bias, h0, h, dh, mask, reverse=reverse)
    return dx, _weights_gradient(h, h0, r, da, reverse), sum(da, axis=(0, 1)), dh0, None


@lowered("r")
@checked_through("gru_layer")
@example((1, 1, 6), (2, 6), (6,), (1, 2), (1, 1, 2), (1, 1, 2), (1, 1))
@op("dx", "da", "dh0", no_gradient=("h",))
def gru_layer_gradient(
    x: Value,
    r: Value,
    bias: Value,
    h0: Value,
    h: Value,
    dh: Value,
    mask: Value | None = None,
    *,
    reverse: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the gradients of gru_layer for x, for a = h_before @ r + bias and for h0; h is its result."""
    ...


@gru_layer_gradient.gradient
def gru_layer_gradient_gradient(
    x: Value,
    r: Value,
    bias: Value,
    h0: Value,
    dh: Value,
    mask: Value | None,
    ddx: Value | None,
    dda: Value | None,
    ddh0: Value | None,
    *,
    reverse: bool,
) -> tuple[Value | None, ...]:
    def first(x: Value, r: Value, bias: Value, h0: Value, dh: Value) -> list[Value]:
        cell, more = CELLS["gru_layer"], full_like(x, 0.0)
        return _present(
            gradients_of(lambda *xs: _steps(cell, xs[0], r, [xs[2]], mask, reverse, (bias, xs[1])), [x, more, h0], [dh])
        )

    gx, gr, gbias, gh0, gdh = gradients_of(first, [x, r, bias, h0, dh], [ddx, dda, ddh0])
    return gx, gr, gbias, gh0, None, gdh, None


@lowered("r")
@example((1, 1, 8), (2, 8), (1, 2), (1, 2), (1, 1))
@op("h", "c")
def lstm_layer(
    x: Value, r: Value, h0: Value, c0: Value, mask: Value | None = None, *, reverse: bool = False
) -> tuple[TensorType, TensorType]:
    """Return h and c of an LSTM after each step: x [n, t, 4 * h], r [h, 4 * h], h0 and c0 [n, h].

    `mask` is bool [n, t]. With a = x + h_before @ r and the gates in the order input, forget, cell, output: c =
    sigmoid(forget) * c_before + sigmoid(input) * tanh(cell), h = sigmoid(output) * tanh(c). Hochreiter and Schmidhuber,
    1997.
    """
    ...


@lstm_layer.gradient
def lstm_layer_gradient_rule(
    x: Value,
    r: Value,
    h0: Value,
    c0: Value,
    mask: Value | None,
    h: Value,
    c: Value,
    dh: Value | None,
    dc: Value | None,
    *,
    reverse: bool,
) -> tuple[Value | None, ...]:
    dh, dc = (full_like(h, 0.0) if grad is None else grad for grad in (dh, dc))
    dx, dh0, dc0 = lstm_layer_gradient(x, r, h0, c0, h, c, dh, dc, mask, reverse=reverse)
    return dx, _weights_gradient(h, h0, r, dx, reverse), dh0, dc0, None


@lowered("r")
@checked_through("lstm_layer")
@example((1, 1, 8), (2, 8), (1, 2), (1, 2), (1, 1, 2), (1, 1, 2), (1, 1, 2), (1, 1, 2), (1, 1))
@op("dx", "dh0", "dc0", no_gradient=("h", "c"))
def lstm_layer_gradient(
    x: Value,
    r: Value,
    h0: Value,
    c0: Value,
    h: Value,
    c: Value,
    dh: Value,
    dc: Value,
    mask: Value | None = None,
    *,
    reverse: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the gradients of lstm_layer for x, h0 and c0; h and c are its results."""
    ...


@lstm_layer_gradient.gradient
def lstm_layer_gradient_gradient(
    x: Value,
    r: Value,
    h0: Value,
    c0: Value,
    dh: Value,
    dc: Value,
    mask: Value | None,
    ddx: Value | None,
    ddh0: Value | None,
    ddc0: Value | None,
    *,
    reverse: bool,
) -> tuple[Value | None, ...]:
    def first(x: Value, r: Value, h0: Value, c0: Value, dh: Value, dc: Value) -> list[Value]:
        cell = CELLS["lstm_layer"]
        return _present(
            gradients_of(lambda *xs: _steps(cell, xs[0], r, [*xs[1:]], mask, reverse), [x, h0, c0], [dh, dc])
        )

    gx, gr, gh0, gc0, gdh, gdc = gradients_of(first, [x, r, h0, c0, dh, dc], [ddx, ddh0, ddc0])
    return gx, gr, gh0, gc0, None, None, gdh, gdc, None


@spelled
def rnn(
    x: Value,
    *weights: Value,
    hidden: Value | None = None,
    lengths: Value | None = None,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> tuple[Value, Value]:
    """Return the outputs and last states of plain recurrent layers; operands are those of `lstm` with one gate."""

    def layer(x: Value, w: list[Value], first: list[Value], mask: Value | None, reverse: bool) -> list[Value]:
        return [rnn_layer(matmul(x, w[0]) + (w[2] + w[3]), w[1], first[0], mask, reverse=reverse)]

    y, [last] = _layers(x, list(weights), [hidden], lengths, bidirectional, dropout, layer)
    return y, last


@spelled
def gru(
    x: Value,
    *weights: Value,
    hidden: Value | None = None,
    lengths: Value | None = None,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> tuple[Value, Value]:
    """Return the outputs and last states of GRU layers; operands are those of `lstm` with three gates and no cell."""

    def layer(x: Value, w: list[Value], first: list[Value], mask: Value | None, reverse: bool) -> list[Value]:
        return [gru_layer(matmul(x, w[0]) + w[2], w[1], w[3], first[0], mask, reverse=reverse)]

    y, [last] = _layers(x, list(weights), [hidden], lengths, bidirectional, dropout, layer)
    return y, last


@spelled
def lstm(
    x: Value,
    *weights: Value,
    hidden: Value | None = None,
    cell: Value | None = None,
    lengths: Value | None = None,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> tuple[Value, Value, Value]:
    """Return the outputs of LSTM layers over x [n, t, c] at each step, and the last states h and c.

    Args:
        x: the sequences, first step first.
        weights: for each layer, and with `bidirectional` for each of its two directions: the input weights [c, 4 * h],
            the state weights [h, 4 * h] and their biases [4 * h]; gates in the order of lstm_layer.
        hidden: the initial h [layers * directions, n, h]; zeros by default.
        cell: the initial c [layers * directions, n, h]; zeros by default.
        lengths: the valid steps of each sequence, int [n]. After them the result is 0, the last state is that of the
            last valid step, and the backward direction begins there.
        bidirectional: add a second network from the last step to the first; its result is concatenated to the first
            one's.
        dropout: probability of dropout of the outputs of each layer but the last.
    """

    def layer(x: Value, w: list[Value], first: list[Value], mask: Value | None, reverse: bool) -> list[Value]:
        return list(lstm_layer(matmul(x, w[0]) + (w[2] + w[3]), w[1], first[0], first[1], mask, reverse=reverse))

    y, [last_hidden, last_cell] = _layers(x, list(weights), [hidden, cell], lengths, bidirectional, dropout, layer)
    return y, last_hidden, last_cell


def _layers(
    x: Value,
    weights: list[Value],
    first: list[Value | None],
    lengths: Value | None,
    bidirectional: bool,
    rate: float,
    layer: Layer,
) -> tuple[Value, list[Value]]:
    """Return the result of the last layer, and the last states of every layer and direction, by kind of state."""
    require(x.rank == 3, f"x has {x.rank} axes; sequences are [n, t, c]")
    require(0 <= rate < 1, f"dropout={rate} is not in [0, 1)")
    directions = 2 if bidirectional else 1
    count = len(weights) // 4
    fits = len(weights) > 0 and len(weights) % (4 * directions) == 0
    require(fits, f"{len(weights)} weights are not four for each layer{' and direction' if bidirectional else ''}")
    ranks = [2, 2, 1, 1] * count
    fits = [w.rank for w in weights] == ranks
    require(fits, "the weights of a layer are not two matrices and two vectors")
    mask = None if lengths is None else _counted(x, lengths)
    last: list[list[Value]] = [[] for _ in first]
    for number in _to(count // directions):
        x = dropout(x, ratio=rate) if number and rate else x
        results: list[Value] = []
        for direction in _to(directions):
            at = number * directions + direction
            own = weights[4 * at : 4 * at + 4]
            begin = [_first_state(x, own[1], states, at, count) for states in first]
            states = layer(x, own, begin, mask, direction == 1)
            results.append(states[0] if mask is None else where(unsqueeze(mask, axis=(-1,)), states[0], 0.0))
            for kept, after in zip(last, states, strict=True):
                kept.append(after[:, 0 if direction else -1])
        x = results[0] if directions == 1 else concat(*results, axis=-1)
    return x, [stack(*states) for states in last]


def _counted(x: Value, lengths: Value) -> Value:
    steps = range.on(x.block)(stop=size_known(x.shape[1], "the number of steps"), dtype=lengths.dtype)
    return steps < unsqueeze(lengths, axis=(-1,))


def _first_state(x: Value, r: Value, states: Value | None, at: int, count: int) -> Value:
    if states is None:
        return full.on(x.block)(shape=(x.shape[0], r.shape[0]), value=0.0, dtype=x.dtype)
    require(states.rank == 3 and states.shape[0] == count, f"first states are {states.type}, not [{count}, n, h]")
    return states[at]


def _weights_gradient(h: Value, h0: Value, r: Value, da: Value, reverse: bool) -> Value:
    """Return the gradient of the weights; its factors are rounded like those of the layer's product."""
    return outer_sum(as_factor(_before(h, h0, reverse), r), as_factor(da, r))


def _before(h: Value, h0: Value, reverse: bool) -> Value:
    """Return the state before each step."""
    begin = unsqueeze(h0, axis=(1,))
    if h.shape[1] == 1:
        return begin
    return concat(h[:, 1:], begin, axis=1) if reverse else concat(begin, h[:, :-1], axis=1)


def rnn_gates(x: Value, a: Value, old: list[Value]) -> list[Value]:
    """Return the next state of a plain recurrent layer, from the row of a step and the product of the state."""
    return [tanh(x + a)]


def gru_gates(x: Value, a: Value, old: list[Value]) -> list[Value]:
    """Return the next state of a GRU; `a` has its bias."""
    size = size_known(old[0].shape[1], "the number of units")
    [xr, xz, xn] = split(x, sizes=(size,) * 3, axis=1)
    [ar, az, an] = split(a, sizes=(size,) * 3, axis=1)
    update, new = sigmoid(xz + az), tanh(xn + sigmoid(xr + ar) * an)
    return [new + update * (old[0] - new)]


def lstm_gates(x: Value, a: Value, old: list[Value]) -> list[Value]:
    """Return the next state and the next cell of an LSTM."""
    size = size_known(old[0].shape[1], "the number of units")
    [i, f, g, o] = split(x + a, sizes=(size,) * 4, axis=1)
    c = sigmoid(f) * old[1] + sigmoid(i) * tanh(g)
    return [sigmoid(o) * tanh(c), c]


class Cell(NamedTuple):
    """A recurrent operator step by step: its gates, and the numbers of its operands.

    Attributes:
        gates: function from the row of a step, the product of the states and the old states to the new ones.
        first: operands that are states before the first step.
        mask: the operand that is the mask.
        bias: the operand that is added to the product of the states, if there is one.
    """

    gates: Callable[[Value, Value, list[Value]], list[Value]]
    first: tuple[int, ...]
    mask: int
    bias: int | None = None


CELLS: Final = {
    "rnn_layer": Cell(rnn_gates, (2,), 3),
    "gru_layer": Cell(gru_gates, (3,), 4, 2),
    "lstm_layer": Cell(lstm_gates, (2, 3), 4),
}
"""The recurrent operators; operand 1 is the weight that multiplies the states."""


def _steps(
    cell: Cell, x: Value, r: Value, first: list[Value], mask: Value | None, reverse: bool,
    added: tuple[Value, Value] | None = None,
) -> list[Value]:  # fmt: skip
    """Return a layer composed of ordinary operators, for gradients of higher order.

    `added` are a bias of the product of the states, and a tensor [n, t, gates * h] that has a gradient of its own.
    """
    count = size_known(x.shape[1], "the number of steps")
    after: list[list[Value]] = [first] * count
    old = first
    for t in reversed(_to(count)) if reverse else _to(count):
        a = matmul(as_factor(old[0], r), r)
        a = a if added is None else a + added[0] + added[1][:, t]
        new = cell.gates(x[:, t], a, old)
        if mask is not None:
            new = [where(mask[:, t : t + 1], *pair) for pair in zip(new, old, strict=True)]
        after[t] = old = new
    return [stack(*states, axis=1) for states in zip(*after, strict=True)]


def _present(grads: list[Value | None]) -> list[Value]:
    return [grad for grad in grads if grad is not None]


def _to(count: int) -> list[int]:
    return [*builtins.range(count)]
