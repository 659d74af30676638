"""Calls of recurrent layers and of CTC. The gradients of layers are called with what their layer gives."""

from __future__ import annotations

from fuzz.drawing import INDICES, Draw, Ref
from fuzz.makers.table import maker

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


@maker("rnn_layer", "gru_layer", "lstm_layer", "rnn_layer_gradient", "gru_layer_gradient", "lstm_layer_gradient")
def layer(d: Draw) -> None:
    kind = d.choice(list(GATES))
    gates, n, steps, units = GATES[kind], d.size(1, 3), d.int(1, 3), d.int(1, 3)
    x = d.tensor((n, steps, gates * units))
    same = [x] if x.shape == (n, steps, gates * units) and n == units and steps == 1 else []
    r = d.tensor((units, gates * units), x.dtype)
    bias = [d.tensor((gates * units,), x.dtype)] if kind == "gru" else []
    h0 = d.tensor((n, units), x.dtype)
    first = [h0, *([h0 if d.chance(0.5) else d.tensor((n, units), x.dtype)] if kind == "lstm" else [])]
    del same
    mask = d.bools((n, steps)) if d.chance(0.4) else None
    how = dict(reverse=d.chance(0.4))
    states = d.call(f"{kind}_layer", x, r, *bias, *first, mask, **how)
    if d.chance(0.25):
        shape = (n, steps, units)
        dh = states[0] if d.chance(0.2) else d.tensor(shape, x.dtype)
        grads = [dh, *([dh if d.chance(0.5) else d.tensor(shape, x.dtype)] if kind == "lstm" else [])]
        d.call(f"{kind}_layer_gradient", x, r, *bias, *first, *states, *grads, mask, **how)
    elif kind == "lstm" and d.chance(0.5):  # both results in one gradient
        d.one("square", d.one("add", *states))


@maker("rnn", "gru", "lstm")
def network(d: Draw) -> None:
    kind = d.choice(list(GATES))
    gates, n, steps, units, c = GATES[kind], d.int(1, 2), d.int(1, 3), d.int(1, 2), d.int(1, 2)
    layers, both = d.choice([1, 1, 2]), d.chance(0.3)
    directions = 2 if both else 1
    x = d.tensor((n, steps, c))
    weights: list[Ref] = []
    for number in range(layers):
        for _ in range(directions):
            wide = c if number == 0 else units * directions
            weights += [d.tensor((wide, gates * units), x.dtype), d.tensor((units, gates * units), x.dtype)]
            bias = d.tensor((gates * units,), x.dtype)
            weights += [bias, bias if d.chance(0.3) else d.tensor((gates * units,), x.dtype)]
    more: dict[str, object] = {}
    if d.chance(0.5):
        more["hidden"] = d.tensor((layers * directions, n, units), x.dtype)
        if kind == "lstm":
            more["cell"] = more["hidden"] if d.chance(0.4) else d.tensor((layers * directions, n, units), x.dtype)
    if d.chance(0.4):
        lengths = d.below((n,), steps + 1)
        more["lengths"] = d.one("maximum", lengths, 1)
    d.call(kind, x, *weights, bidirectional=both, dropout=d.choice([0.0, 0.0, 0.25]), **more)


@maker("ctc", "ctc_gradient", "ctc_loss")
def ctc(d: Draw) -> None:
    n, steps, classes, length = d.size(1, 2), d.int(1, 4), d.int(2, 4), d.int(0, 2)
    blank = d.choice([0, classes - 1])
    logarithms = d.tensor((n, steps, classes), kind="logarithms")
    labels = d.below((n, length), classes - 1, INDICES)
    if blank == 0:
        labels = d.one("add", labels, 1)
    inputs = d.one("minimum", d.one("add", d.below((n,), steps, ("int64",)), 1), steps) if d.chance(0.5) else None
    lengths = d.below((n,), length + 1, ("int64",)) if d.chance(0.5) else None
    match d.int(0, 3):
        case 0:
            d.call("ctc", logarithms, labels, inputs, lengths, blank=blank)
        case 1:
            d.call("ctc_gradient", logarithms, labels, d.tensor((n,), logarithms.dtype), inputs, lengths, blank=blank)
        case _:
            how = dict(zero_infinity=d.chance(0.7), reduction=d.choice(["mean", "sum", "none"]))
            d.call("ctc_loss", logarithms, labels, inputs, lengths, blank=blank, **how)
