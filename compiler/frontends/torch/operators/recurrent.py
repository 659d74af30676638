"""Recurrent layers, which stay one operator a layer and direction."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, ordered, permuted, plain
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops


def _weights(given: Sequence[Arranged], has_biases: bool, gates: int) -> list[Value]:
    """Return input weights, state weights and biases, [c, gates * h] and [gates * h], of each layer and direction."""
    if given[1].shape[1].number * gates != given[1].shape[0].number:
        raise CompileError("proj_size projects the states of an LSTM, which no operator does; leave it out")
    made: list[Value] = []
    step = 4 if has_biases else 2
    for start in range(0, len(given), step):
        w, r = given[start : start + 2]
        made += [plain(permuted(w, (1, 0))), plain(permuted(r, (1, 0)))]
        if has_biases:
            made += [plain(given[start + 2]), plain(given[start + 3])]
        else:
            blank = ops.full.on(w.value.block)(shape=(w.shape[0].plain(),), value=0.0, dtype=w.value.dtype)
            made += [blank, blank]
    return made


def _recurrent(function: Any, states: int, gates: int) -> Mapping:
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
        names = ("hidden", "cell")[:states]
        sequence = ordered(x, (0, 1, 2) if batch_first else (1, 0, 2))
        made = function(
            sequence,
            *_weights(weights, has_biases, gates),
            **{name: plain(state) for name, state in zip(names, given, strict=True)},
            bidirectional=bidirectional,
            dropout=rate if train else 0.0,
        )
        y, *last = map(arranged, made)
        return (y if batch_first else permuted(y, (1, 0, 2)), *last)

    return mapped


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.lstm.input": _recurrent(ops.lstm, 2, 4),
    "aten.gru.input": _recurrent(ops.gru, 1, 3),
    "aten.rnn_tanh.input": _recurrent(ops.rnn, 1, 1),
}
