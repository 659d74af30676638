"""Recurrent layers, which stay one operator a layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, ordered, permuted, plain
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops

KINDS: Final[dict[str, tuple[Any, int]]] = {
    "lstm": (ops.lstm, 4),
    "gru": (ops.gru, 3),
    "rnn_tanh": (ops.rnn, 1),
}
"""The function of a layer and the number of its gates, by the name of the layer in PyTorch."""


def _weights(given: Sequence[Arranged], has_biases: bool, is_projected: bool = False) -> list[list[Value]]:
    """Return for each layer and direction the weights [c, gates * h] and [h, gates * h], and biases [gates * h].

    With `is_projected`, the last is the weight [h, o] of the projection.
    """
    made: list[list[Value]] = []
    step = (4 if has_biases else 2) + is_projected
    for start in range(0, len(given), step):
        w, r, *rest = given[start : start + step]
        own = [plain(permuted(w, (1, 0))), plain(permuted(r, (1, 0)))]
        if has_biases:
            own += [plain(rest[0]), plain(rest[1])]
        else:
            blank = ops.full.on(w.value.block)(shape=(w.shape[0].plain(),), value=0.0, dtype=w.value.dtype)
            own += [blank, blank]
        made.append([*own, *([plain(permuted(rest[-1], (1, 0)))] if is_projected else [])])
    return made


def _layers(
    kind: str,
    x: Value,
    lengths: Value | None,
    first: Sequence[Arranged],
    weights: Sequence[Arranged],
    has_biases: bool,
    rate: float,
    bidirectional: bool,
) -> list[Value]:
    """Return the outputs [n, t, o] of recurrent layers over x [n, t, c], and their last states."""
    function, gates = KINDS[kind]
    states = {name: plain(state) for name, state in zip(("hidden", "cell"), first, strict=False)}
    if weights[1].shape[1].number * gates != weights[1].shape[0].number:
        own = _weights(weights, has_biases, is_projected=True)
        return _projected(x, lengths, own, states["hidden"], states["cell"], rate, bidirectional)
    flat = [w for own in _weights(weights, has_biases) for w in own]
    return function(x, *flat, **states, lengths=lengths, bidirectional=bidirectional, dropout=rate)


def _projected(
    x: Value,
    lengths: Value | None,
    weights: Sequence[Sequence[Value]],
    hidden: Value,
    cell: Value,
    rate: float,
    bidirectional: bool,
) -> list[Value]:
    """Return the results of an LSTM whose states h are projections m @ p of those of an ordinary one, m [n, t, h].

    Its product of states, (m @ p) @ r, is that of the weights p @ r. The first h is no projection, so its product with
    r is added to the first step, and the first m is 0.
    """
    directions = 2 if bidirectional else 1
    last: list[list[Value]] = [[], []]
    counts = None if lengths is None else ops.unsqueeze(lengths, axis=(-1,))
    steps = ops.range.on(x.block)(stop=int(x.shape[1]), dtype="int64")
    for number in range(0, len(weights), directions):
        x = ops.dropout(x, ratio=rate) if number and rate else x
        results: list[Value] = []
        for at in range(number, number + directions):
            w, r, bias, other, p = weights[at]
            reverse = at > number
            end = int(x.shape[1]) - 1 if counts is None else counts - 1
            is_first = ops.unsqueeze(ops.equal(steps, end if reverse else 0), axis=(-1,))
            before = ops.unsqueeze(hidden[at] @ r, axis=(1,))
            inner = ops.matmul(x, w) + (bias + other) + ops.where(is_first, before, 0.0)
            mask = None if counts is None else steps < counts
            zero = ops.full_like(cell[at], 0.0)
            m, c = ops.lstm_layer(inner, p @ r, zero, cell[at], mask, reverse=reverse)
            h, place = ops.matmul(m, p), 0 if reverse else -1
            results.append(h if mask is None else ops.where(ops.unsqueeze(mask, axis=(-1,)), h, 0.0))
            last[0].append(h[:, place])
            last[1].append(c[:, place])
        x = results[0] if directions == 1 else ops.concat(*results, axis=-1)
    return [x, *(ops.stack(*states) for states in last)]


def _recurrent(kind: str) -> Mapping:
    def mapped(
        call: Call,
        x: Arranged,
        first: Sequence[Arranged] | Arranged,
        weights: Sequence[Arranged],
        has_biases: bool,
        layers: int,
        rate: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Arranged, ...]:
        given = [first] if isinstance(first, Arranged) else list(first)
        sequence = ordered(x, (0, 1, 2) if batch_first else (1, 0, 2))
        made = _layers(kind, sequence, None, given, weights, has_biases, rate if train else 0.0, bidirectional)
        y, *last = map(arranged, made)
        return (y if batch_first else permuted(y, (1, 0, 2)), *last)

    return mapped


def _by_lengths(
    call: Call,
    kind: str,
    x: Arranged,
    lengths: Arranged,
    first: Sequence[Arranged],
    weights: Sequence[Arranged],
    has_biases: bool,
    layers: int,
    rate: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Arranged, ...]:
    drops = rate if train else 0.0
    made = _layers(kind, plain(x), plain(lengths), first, weights, has_biases, drops, bidirectional)
    return tuple(map(arranged, made))


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.lstm.input": _recurrent("lstm"),
    "aten.gru.input": _recurrent("gru"),
    "aten.rnn_tanh.input": _recurrent("rnn_tanh"),
    "prograd.recurrent_by_lengths.default": _by_lengths,
}
