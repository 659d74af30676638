"""Recurrent networks: LSTM and GRU, one layer or several, in one direction or both."""

from __future__ import annotations

from prograd import Value, ops, zeros
from prograd.layers.asked import Initial, channels, layer, program_of


@layer
def lstm(
    x: Value,
    name: str,
    size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Value | None = None,
    dropout: float = 0.0,
    initial: Initial = None,
) -> tuple[Value, Value, Value]:
    """Return the outputs of an LSTM at each step of the sequences x [n, t, c], and its last states.

    Args:
        x: sequences of floats, first step first. Their program declares for each layer and direction the parameters
            `input` [c, 4 * size], `state` [size, 4 * size], `input_bias` and `state_bias` [4 * size], gates in the
            order input, forget, cell, output. Their names begin with `name`, followed by `.layer0`, `.layer1` … if
            there are several layers, and by `.back` for the backward direction.
        name: name of the network.
        size: size of the state.
        layers: number of layers; each reads the outputs of the one before.
        bidirectional: add a second network from the last step to the first; its result is concatenated to the first
            one's.
        lengths: integers [n], the valid steps of each sequence.
        dropout: probability of dropout between layers.
        initial: initial value of `input` and `state`; Glorot's uniform values by default.

    Returns:
        The outputs [n, t, size], twice as wide in both directions, and the last h and c, each [layers * directions, n,
        size].
    """
    weights = _weights(f"lstm {name!r}", name, x, 4 * size, size, layers, bidirectional, initial)
    return ops.lstm(x, *weights, lengths=lengths, bidirectional=bidirectional, dropout=dropout)


@layer
def gru(
    x: Value,
    name: str,
    size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Value | None = None,
    dropout: float = 0.0,
    initial: Initial = None,
) -> tuple[Value, Value]:
    """Return the result of `lstm` with GRU gates in the order reset, update, new, without c: Cho et al., 2014."""
    weights = _weights(f"gru {name!r}", name, x, 3 * size, size, layers, bidirectional, initial)
    return ops.gru(x, *weights, lengths=lengths, bidirectional=bidirectional, dropout=dropout)


def _weights(
    what: str,
    name: str,
    x: Value,
    gates: int,
    size: int,
    layers: int,
    bidirectional: bool,
    initial: Initial,
) -> list[Value]:
    """Return four weights for each layer and direction, in the order of `ops.lstm`."""
    program, width = program_of(what, x), channels(what, x, rank=3)
    made: list[Value] = []
    for i in range(layers):
        layer = name if layers == 1 else f"{name}.layer{i}"
        for part in (layer, f"{layer}.back") if bidirectional else (layer,):
            made += [
                program.parameter(f"{part}.input", (width, gates), initial, dtype=x.dtype),
                program.parameter(f"{part}.state", (size, gates), initial, dtype=x.dtype),
                program.parameter(f"{part}.input_bias", (gates,), zeros(), dtype=x.dtype),
                program.parameter(f"{part}.state_bias", (gates,), zeros(), dtype=x.dtype),
            ]
        width = size * (2 if bidirectional else 1)
    return made
