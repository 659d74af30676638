"""Recurrent layers and networks, CTC by its definition: the sum over all paths."""

from __future__ import annotations

from itertools import product

import torch

from fuzz.torch_ops.layers import gradient
from fuzz.torch_ops.table import TORCH, spelled


def steps(x, first, mask, reverse, step):
    """The states after each step."""
    old, made = list(first), {}
    order = range(x.shape[1])
    for t in reversed(order) if reverse else order:
        new = step(x[:, t], old)
        if mask is not None:
            seen = mask[:, t].unsqueeze(-1)
            new = [torch.where(seen, a, b) for a, b in zip(new, old, strict=True)]
        made[t] = old = new
    return tuple(torch.stack([made[t][i] for t in order], 1) for i in range(len(first)))


def rnn_step(r):
    return lambda x, old: [torch.tanh(x + old[0] @ r)]


def gru_step(r, bias, more=None):
    def step(x, old):
        a = old[0] @ r + bias
        xr, xz, xn = x.chunk(3, -1)
        ar, az, an = a.chunk(3, -1)
        update = torch.sigmoid(xz + az)
        new = torch.tanh(xn + torch.sigmoid(xr + ar) * an)
        return [(1 - update) * new + update * old[0]]

    return step


def lstm_step(r):
    def step(x, old):
        i, f, g, o = (x + old[0] @ r).chunk(4, -1)
        c = torch.sigmoid(f) * old[1] + torch.sigmoid(i) * torch.tanh(g)
        return [torch.sigmoid(o) * torch.tanh(c), c]

    return step


@spelled("rnn_layer")
def rnn_layer(x, r, h0, mask=None, *, reverse=False):
    return steps(x, [h0], mask, reverse, rnn_step(r))[0]


@spelled("gru_layer")
def gru_layer(x, r, bias, h0, mask=None, *, reverse=False):
    return steps(x, [h0], mask, reverse, gru_step(r, bias))[0]


@spelled("lstm_layer")
def lstm_layer(x, r, h0, c0, mask=None, *, reverse=False):
    return steps(x, [h0, c0], mask, reverse, lstm_step(r))


@spelled("rnn_layer_gradient")
def rnn_layer_gradient(x, r, h0, h, dh, mask=None, *, reverse=False):
    return gradient(lambda x, h0: rnn_layer(x, r, h0, mask, reverse=reverse), (x, h0), (dh,))


@spelled("gru_layer_gradient")
def gru_layer_gradient(x, r, bias, h0, h, dh, mask=None, *, reverse=False):
    """Return also the gradient of a = h_before @ r + bias, which each addend of a step has."""
    more = torch.zeros_like(x, requires_grad=True)

    def layer(x, more, h0):
        both = torch.cat([x, more], -1)

        def step(xs, old):
            x, extra = xs.chunk(2, -1)
            return gru_step(r, bias + extra)(x, old)

        return steps(both, [h0], mask, reverse, step)[0]

    return gradient(layer, (x, more, h0), (dh,))


@spelled("lstm_layer_gradient")
def lstm_layer_gradient(x, r, h0, c0, h, c, dh, dc, mask=None, *, reverse=False):
    return gradient(lambda x, h0, c0: lstm_layer(x, r, h0, c0, mask, reverse=reverse), (x, h0, c0), (dh, dc))


def network(kind):
    def call(x, *weights, hidden=None, cell=None, lengths=None, bidirectional=False, dropout=0.0):
        if dropout and len(weights) > (8 if bidirectional else 4):
            raise NotImplementedError("dropout between layers draws numbers")
        directions = 2 if bidirectional else 1
        n, t, _ = x.shape
        units = weights[1].shape[0]
        kinds = 2 if kind == "lstm" else 1
        firsts = [hidden, cell][:kinds]
        mask = None if lengths is None else torch.arange(t).unsqueeze(0) < lengths.unsqueeze(-1)
        last = [[] for _ in range(kinds)]
        for layer in range(len(weights) // 4 // directions):
            results = []
            for direction in range(directions):
                at = layer * directions + direction
                wx, r, bx, bh = weights[4 * at : 4 * at + 4]
                begin = [torch.zeros(n, units, dtype=x.dtype) if f is None else f[at] for f in firsts]
                wide = x @ wx + bx if kind == "gru" else x @ wx + bx + bh
                step = {"rnn": lambda r, b: rnn_step(r), "gru": gru_step, "lstm": lambda r, b: lstm_step(r)}[kind](
                    r, bh
                )
                states = steps(wide, begin, mask, direction == 1, step)
                results.append(states[0] if mask is None else torch.where(mask.unsqueeze(-1), states[0], 0.0))
                for kept, after in zip(last, states, strict=True):
                    kept.append(after[:, 0 if direction else -1])
            x = torch.cat(results, -1)
        return (x, *(torch.stack(kept) for kept in last))

    return call


TORCH |= {kind: network(kind) for kind in ("rnn", "gru", "lstm")}


def spells(path, blank):
    merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
    return [c for c in merged if c != blank]


@spelled("ctc")
def ctc(logarithms, labels, input_lengths=None, label_lengths=None, *, blank=0):
    made = []
    n, t, classes = logarithms.shape
    for row in range(n):
        steps_ = t if input_lengths is None else int(input_lengths[row])
        wanted = labels[row].tolist()[: labels.shape[1] if label_lengths is None else int(label_lengths[row])]
        paths = [path for path in product(range(classes), repeat=steps_) if spells(path, blank) == wanted]
        if not paths:
            made.append(torch.full((), torch.inf, dtype=logarithms.dtype))
            continue
        at = torch.tensor(paths, dtype=torch.int64).reshape(len(paths), steps_)
        made.append(-torch.logsumexp(logarithms[row, torch.arange(steps_), at].sum(-1), 0))
    return torch.stack(made) if made else logarithms.new_zeros((0,))


@spelled("ctc_gradient")
def ctc_gradient(logarithms, labels, dy, input_lengths=None, label_lengths=None, *, blank=0):
    def finite(x):
        loss = ctc(x, labels, input_lengths, label_lengths, blank=blank)
        return torch.where(torch.isinf(loss), x.sum() * 0.0, loss)

    return gradient(finite, (logarithms,), (dy,))[0]


@spelled("ctc_loss")
def ctc_loss(
    logarithms, labels, input_lengths=None, label_lengths=None, *, blank=0, zero_infinity=False, reduction="mean"
):
    loss = ctc(logarithms, labels, input_lengths, label_lengths, blank=blank)
    loss = torch.where(torch.isinf(loss), torch.zeros_like(loss), loss) if zero_infinity else loss
    if reduction == "mean":
        lengths = torch.full(loss.shape, labels.shape[1]) if label_lengths is None else label_lengths
        return (loss / lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss
