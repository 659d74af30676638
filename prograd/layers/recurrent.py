"""Recurrent networks: LSTM and GRU, one layer or several, in one direction or both."""

from __future__ import annotations

from prograd import Program, Value, ops, zeros
from prograd.layers.asked import Initial, channels, layer


@layer
def lstm(
    program: Program,
    name: str,
    x: Value,
    size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Value | None = None,
    rate: float = 0.0,
    initial: Initial = None,
) -> tuple[Value, Value, Value]:
    """What an LSTM gives at each step of the sequences x [n, t, c], and its last states.

    Args:
        program: declares for each layer and direction the parameters `input` [c, 4 * size], `state` [size, 4 * size],
            `input_bias` and `state_bias` [4 * size], gates in the order input, forget, cell, output. They lie under
            `name`, under `name.layer0`, `name.layer1` … if there are several layers, and those of the way back under
            `.back` behind that.
        name: of the network.
        x: sequences of floats, first step first.
        size: of the state.
        layers: how many; each but the first reads what the one before gives.
        bidirectional: a second network goes from the last step to the first; its result is beside the first one's.
        lengths: whole numbers [n]: how many steps of each sequence count.
        rate: of dropout between layers.
        initial: of `input` and `state`; Glorot's uniform values unless given.

    Returns:
        The results [n, t, size], twice as wide in both directions, and the last h and c, each
        [layers * directions, n, size].
    """
    weights = _weights(program, f"lstm {name!r}", name, x, 4 * size, size, layers, bidirectional, initial)
    return ops.lstm(x, *weights, lengths=lengths, bidirectional=bidirectional, rate=rate)


@layer
def gru(
    program: Program,
    name: str,
    x: Value,
    size: int,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    lengths: Value | None = None,
    rate: float = 0.0,
    initial: Initial = None,
) -> tuple[Value, Value]:
    """As `lstm`, with three gates in the order reset, update, new, and without the states c: Cho et al., 2014."""
    weights = _weights(program, f"gru {name!r}", name, x, 3 * size, size, layers, bidirectional, initial)
    return ops.gru(x, *weights, lengths=lengths, bidirectional=bidirectional, rate=rate)


def _weights(
    program: Program,
    what: str,
    name: str,
    x: Value,
    gates: int,
    size: int,
    layers: int,
    bidirectional: bool,
    initial: Initial,
) -> list[Value]:
    """Four for each layer and direction, in the order of `ops.lstm`."""
    width = channels(program, what, x, rank=3)
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
