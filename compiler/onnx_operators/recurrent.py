"""Recurrent layers: one operator where ours computes the same, else unrolled steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call, Export
from compiler.exporters.onnx.graph import Graph
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import arranged
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.onnx_operators.flow.written import scan
from prograd_proto import attributes_of
from prograd_proto.tensor_types import TensorType
from registry import Value, ops
from registry.ops.recurrent import CELLS

ORDER: Final = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
"""For each gate of prograd's layer its number in ONNX: z r h and r z n; i o f c and i f c o."""

DEFAULTS: Final = {"RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}
"""Activations of a direction."""

Activation = Callable[[Value], Value]


def _recurrent(node: Node) -> Any:
    kind, directions = node.operator, node.sizes(1)[0]
    words = [str(word).lower() for word in node.attribute("activations", DEFAULTS[kind] * directions)]
    plain = (
        words == DEFAULTS[kind] * directions
        and not any(node.has(i) for i in ((4, 7) if kind == "LSTM" else (4,)))
        and not node.attribute("clip")
        and not node.attribute("input_forget", 0)
        and node.attribute("direction", "forward") != "reverse"
        and (kind != "GRU" or node.attribute("linear_before_reset", 0))
    )
    return _layer(node) if plain else _unrolled(node, words)


def _layer(node: Node) -> Any:
    """Return the results of one of our layers, with the gates of the weights in our order."""
    kind, gates = node.operator, len(ORDER[node.operator])
    x, w, r, bias = node.value(0), node.value(1), node.value(2), node.optional_value(3)
    directions, hidden = node.sizes(1)[0], node.sizes(2)[2]
    x = x if node.attribute("layout", 0) else ops.transpose(x, axis=(1, 0, 2))

    def ordered(v: Value, first: int = 0) -> Value:
        parts = [v[first + g * hidden : first + (g + 1) * hidden] for g in ORDER[kind]]
        return parts[0] if gates == 1 else ops.concat(*parts, axis=0)

    weights: list[Value] = []
    for d in range(directions):
        weights += [ops.transpose(ordered(v[d]), axis=(1, 0)) for v in (w, r)]
        if bias is None:
            weights += [node.full((gates * hidden,), 0.0, x.dtype)] * 2
        else:
            weights += [ordered(bias[d]), ordered(bias[d], gates * hidden)]
    states = {name: first_state(node, i) for i, name in ((5, "hidden"), (6, "cell")) if node.has(i)}
    if kind == "LSTM" and len(states) == 1:
        [known] = states.values()
        zero = node.full(known.shape, 0.0, x.dtype)
        states = {"hidden": zero, "cell": zero} | states
    function: Any = {"RNN": ops.rnn, "GRU": ops.gru, "LSTM": ops.lstm}[kind]
    y, *last = function(x, *weights, **states, bidirectional=directions == 2)
    n, steps = y.shape[:2]
    y = ops.reshape(y, shape=(n, steps, directions, hidden))
    if node.attribute("layout", 0):
        return (arranged(y), *(arranged(ops.transpose(v, axis=(1, 0, 2))) for v in last))
    return (arranged(ops.transpose(y, axis=(1, 2, 0, 3))), *map(arranged, last))


def first_state(node: Node, number: int) -> Value:
    """Return an operand that is the first states of all directions, directions first."""
    v = node.value(number)
    return ops.transpose(v, axis=(1, 0, 2)) if node.attribute("layout", 0) else v


def activations(node: Node, kind: str, words: Sequence[str], direction: int) -> list[Activation]:
    """Return the activations of a direction of a layer of a kind, which clip their operand first."""
    clip = node.attribute("clip")
    alphas, betas = list(node.attribute("activation_alpha", [])), list(node.attribute("activation_beta", []))

    def function(number: int) -> Activation:
        alpha = alphas[number] if number < len(alphas) else None
        beta = betas[number] if number < len(betas) else None
        made: Activation = {
            "sigmoid": ops.sigmoid,
            "tanh": ops.tanh,
            "relu": ops.relu,
            "softsign": ops.softsign,
            "softplus": ops.softplus,
            "affine": lambda v: v * (1.0 if alpha is None else alpha) + (0.0 if beta is None else beta),
            "leakyrelu": lambda v: ops.leaky_relu(v, alpha=0.01 if alpha is None else alpha),
            "elu": lambda v: ops.elu(v, alpha=1.0 if alpha is None else alpha),
            "hardsigmoid": lambda v: ops.hard_sigmoid(
                v, alpha=0.2 if alpha is None else alpha, beta=0.5 if beta is None else beta
            ),
        }[words[number]]
        return (lambda v: made(ops.clip(v, -clip, clip))) if clip else made

    count = len(DEFAULTS[kind])
    return [function(direction * count + i) for i in range(count)]


def _unrolled(node: Node, words: Sequence[str]) -> Any:
    """Return the results of a layer step by step."""
    kind, gates, swapped = node.operator, len(ORDER[node.operator]), bool(node.attribute("layout", 0))
    x = node.value(0)
    x = ops.transpose(x, axis=(1, 0, 2)) if swapped else x
    steps, batch, _ = x.shape
    w, r, bias = node.value(1), node.value(2), node.optional_value(3)
    directions, hidden = node.sizes(1)[0], node.sizes(2)[2]
    lengths = node.optional_value(4)
    hiddens = first_state(node, 5) if node.has(5) else None
    cells = first_state(node, 6) if kind == "LSTM" and node.has(6) else None
    peepholes = node.optional_value(7) if kind == "LSTM" else None
    assert isinstance(steps, int)
    counts = None if lengths is None else ops.reshape(cast(lengths, "int64"), shape=(batch, 1))
    zero = node.full((batch, hidden), 0.0, x.dtype)
    all_ys: list[Value] = []
    finals: list[tuple[Value, Value]] = []
    for d in range(directions):
        functions = activations(node, kind, words, d)
        own = bias[d] if bias is not None else node.full((2 * gates * hidden,), 0.0, x.dtype)
        input_bias, state_bias = own[: gates * hidden], own[gates * hidden :]
        inputs = ops.matmul(x, w[d], transpose_b=True) + input_bias
        step = Step(node, kind, functions, Matrix(r[d]), state_bias, None if peepholes is None else peepholes[d])
        h, c = zero if hiddens is None else hiddens[d], zero if cells is None else cells[d]
        ys: list[Value] = [zero] * steps
        backward = node.attribute("direction", "forward") == "reverse" or d == 1
        for t in reversed(range(steps)) if backward else range(steps):
            new_h, new_c = step(inputs[t], h, c)
            if counts is None:
                h, c, ys[t] = new_h, new_c, new_h
                continue
            runs = counts > t
            ys[t] = ops.where(runs, new_h, zero)
            h, c = ops.where(runs, new_h, h), ops.where(runs, new_c, c)
        all_ys.append(ops.stack(*ys, axis=0))
        finals.append((h, c))
    y = ops.stack(*all_ys, axis=1)
    last = [ops.stack(*(pair[i] for pair in finals), axis=0) for i in range(2 if kind == "LSTM" else 1)]
    if swapped:
        y, last = ops.transpose(y, axis=(2, 0, 1, 3)), [ops.transpose(v, axis=(1, 0, 2)) for v in last]
    return (arranged(y), *map(arranged, last))


class Matrix:
    """The recurrent weights of a direction, [gates * h, h], which multiply the states."""

    def __init__(self, r: Value) -> None:
        self.r = r

    def __call__(self, h: Value) -> Value:
        """Return the product of the states and the weights of all gates."""
        return ops.matmul(h, self.r, transpose_b=True)


class Step:
    """One step of a layer: from the product of the input, the hidden state and the cell to the next two.

    `product` is the product of a state with the recurrent weights, a `Matrix` but for an LSTM.
    """

    def __init__(
        self, node: Node, kind: str, f: Sequence[Activation], product: Any, bias: Value, peepholes: Value | None
    ) -> None:
        self.node, self.kind, self.f, self.product, self.bias, self.p = node, kind, f, product, bias, peepholes
        self.n = int(bias.shape[0]) // len(ORDER[kind])

    def __call__(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """Return the next hidden state and the next cell; `x` has the bias of the inputs."""
        return {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.kind](x, h, c)

    def _part(self, v: Value, gate: int) -> Value:
        return v[..., gate * self.n : (gate + 1) * self.n]

    def _rnn(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        return self.f[0](x + self.product(h) + self.bias), c

    def _gru(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        n, r = self.n, self.product.r
        gates = ops.matmul(h, r[: 2 * n], transpose_b=True) + self.bias[: 2 * n]
        update = self.f[0](self._part(x, 0) + self._part(gates, 0))
        reset = self.f[0](self._part(x, 1) + self._part(gates, 1))
        rest, bias = r[2 * n :], self.bias[2 * n :]
        if self.node.attribute("linear_before_reset", 0):
            state = reset * (ops.matmul(h, rest, transpose_b=True) + bias)
        else:
            state = ops.matmul(reset * h, rest, transpose_b=True) + bias
        new = self.f[1](self._part(x, 2) + state)
        return (1.0 - update) * new + update * h, c

    def _lstm(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        z = x + self.product(h) + self.bias
        i, o, forget, new = (self._part(z, gate) for gate in range(4))
        if self.p is not None:
            i, forget = i + self._part(self.p, 0) * c, forget + self._part(self.p, 2) * c
        i = self.f[0](i)
        forget = 1.0 - i if self.node.attribute("input_forget", 0) else self.f[0](forget)
        c = forget * c + i * self.f[1](new)
        if self.p is not None:
            o = o + self._part(self.p, 1) * c
        return self.f[0](o) * self.f[2](c), c


def _layer_out(kind: str) -> Export:
    """Return the mapping of a recurrent layer, with the product of the inputs before it in the same node."""

    def mapped(call: Call) -> list[Any]:
        r = call.tensor(1)
        state_bias = call.tensor(2) if kind == "GRU" else None
        computed = r.array is None or (state_bias is not None and state_bias.array is None)
        if call.has(CELLS[call.op_type].mask) or computed or (kind == "LSTM" and not _needs_last_cells_only(call)):
            return _stepwise(call, kind)
        inputs, w, bias = _inputs_of(call, kind)
        hidden = int(r.shape[0])
        weights = [_in_order(np.transpose(v.array), kind, hidden)[None] for v in (w, r)]
        names = [call.graph.model.initializer(v, t.origins) for v, t in zip(weights, (w, r), strict=True)]
        names.append(_biases(call, kind, hidden, bias, state_bias))
        starts = [_start_of(call, number) for number in CELLS[call.op_type].first]
        operands = [inputs, *names, *(["", *starts] if any(starts) else [])]
        made = call.graph.several(
            kind, *operands, count=3 if kind == "LSTM" else 2, hint=call.outputs[0], hidden_size=hidden,
            direction="reverse" if call.attributes["reverse"] else None,
            linear_before_reset=1 if kind == "GRU" else None,
        )  # fmt: skip
        y = call.result(call.add("Squeeze", made[0], call.integers(1)), (1, 0, 2))
        return [y, _cells(call, made[2])] if kind == "LSTM" else [y]

    return mapped


def _inputs_of(call: Call, kind: str) -> tuple[str, Tensor, list[Tensor]]:
    """Return the sequences [t, n, c], their weights, and the biases that are added; identity weights for sums."""
    x = call.tensor(0)
    added = call.made_by(0, "add")
    product = added.made_by(0, "matmul") if added is not None else call.made_by(0, "matmul")
    if product is not None and product.tensor(1).array is not None and not product.attributes["transpose_a"]:
        w = product.tensor(1)
        bias = [] if added is None else _summands(added)
        if w.rank == 2 and product.tensor(0).rank == 3 and all(v.array is not None and v.rank == 1 for v in bias):
            turned = bool(product.attributes["transpose_b"])
            w = replace(w, array=np.transpose(w.array) if turned else w.array, state="")
            return call.graph.ordered(product.tensor(0), (1, 0, 2)), w, bias
    wide = int(x.shape[2])
    eye = Tensor(TensorType(x.dtype, (wide, wide)), (0, 1), array=np.eye(wide, dtype=x.dtype))
    return call.ordered(0, (1, 0, 2)), eye, []


def _summands(added: Call) -> list[Tensor]:
    """Return the vectors that are added to a product: one, or two whose sum was added."""
    both = added.made_by(1, "add")
    return [added.tensor(1)] if both is None else [both.tensor(0), both.tensor(1)]


def _in_order(array: Any, kind: str, hidden: int) -> Any:
    """Return the rows of a weight with the gates in the order of ONNX."""
    places = [ORDER[kind].index(gate) for gate in range(len(ORDER[kind]))]
    return np.concatenate([array[place * hidden : (place + 1) * hidden] for place in places])


def _biases(call: Call, kind: str, hidden: int, given: Sequence[Tensor], state_bias: Tensor | None) -> str:
    """Return both biases of a layer, [1, 2 * gates * hidden]."""
    zero = np.zeros(len(ORDER[kind]) * hidden, call.tensor(0).dtype)
    pair = [v.array for v in given] + ([] if state_bias is None else [state_bias.array])
    if state_bias is not None and not given:
        pair = [zero, *pair]
    pair = [*pair, zero, zero][:2]
    origins = [o for v in [*given, *([state_bias] if state_bias is not None else [])] for o in v.origins]
    whole = np.concatenate([_in_order(v, kind, hidden) for v in pair])[None]
    return call.graph.model.initializer(whole, tuple(dict.fromkeys(origins)))


def _start_of(call: Call, number: int) -> str:
    """Return the first states [1, n, h]; "" for zeros, which ONNX takes if none are given."""
    x = call.tensor(number)
    is_zero = x.is_zero or (x.array is not None and not x.origins and not x.array.any())
    return "" if is_zero else call.add("Unsqueeze", call.plain(number), call.integers(0))


def _needs_last_cells_only(call: Call) -> bool:
    """Return True if the cells of the last step are read at most, which are all that ONNX's LSTM gives."""
    steps = int(call.type.shape[1])
    start = 0 if call.attributes["reverse"] else steps - 1
    for reader in call.walk.readers.get(call.outputs[1], []):
        given = attributes_of(reader) if reader is not None and reader.type == "slice" else {}
        if (given.get("axes"), given.get("starts"), given.get("stops")) != ((1,), (start,), (start + 1,)):
            return False
    return True


def _cells(call: Call, last: str) -> Tensor:
    """Note the last cells of an LSTM for the slices that read them."""
    shape = (call.type.shape[0], 1, call.type.shape[2])
    kept = call.graph.result(last, TensorType(call.type.dtype, shape), (1, 0, 2))
    call.walk.finals[call.outputs[1]] = kept
    return replace(kept, type=call.types[1])


def _stepwise(call: Call, kind: str) -> list[str]:
    """Return a layer as a Scan over its steps, which may have a mask, computed weights, and cells that are read."""
    (n, _, hidden), (_, starts, mask, _) = call.type.shape, CELLS[call.op_type]
    rows = [(call.plain(0), TensorType(call.type.dtype, (n, call.tensor(0).shape[2])))]
    if call.has(mask):
        rows.append((call.plain(mask), TensorType("bool", (n,))))

    def step(body: Graph, *names: str) -> list[str]:
        states, row, flags = names[: len(starts)], names[len(starts)], names[len(starts) + 1 :]
        new = STEPS[kind](body, call, row, states)
        if not flags:
            return new
        is_valid = body.add("Unsqueeze", *flags, call.integers(1))
        return [body.add("Where", is_valid, *pair) for pair in zip(new, states, strict=True)]

    states = [(call.plain(number), TensorType(call.type.dtype, (n, hidden))) for number in starts]
    return scan(call, states, rows, 1, step)


def _gates_of(body: Graph, call: Call, x: str, count: int) -> list[str]:
    hidden = int(call.type.shape[2])
    return body.several("Split", x, call.integers(*[hidden] * count), count=count, axis=1)


def _step_of_rnn(body: Graph, call: Call, x: str, states: Sequence[str]) -> list[str]:
    return [body.add("Tanh", body.add("Add", x, body.add("MatMul", states[0], call.plain(1))))]


def _step_of_gru(body: Graph, call: Call, x: str, states: Sequence[str]) -> list[str]:
    xr, xz, xn = _gates_of(body, call, x, 3)
    product = body.add("Add", body.add("MatMul", states[0], call.plain(1)), call.plain(2))
    ar, az, an = _gates_of(body, call, product, 3)
    reset, update = (body.add("Sigmoid", body.add("Add", *pair)) for pair in ((xr, ar), (xz, az)))
    new = body.add("Tanh", body.add("Add", xn, body.add("Mul", reset, an)))
    return [body.add("Add", new, body.add("Mul", update, body.add("Sub", states[0], new)))]


def _step_of_lstm(body: Graph, call: Call, x: str, states: Sequence[str]) -> list[str]:
    total = body.add("Add", x, body.add("MatMul", states[0], call.plain(1)))
    i, forget, cell, o = _gates_of(body, call, total, 4)
    kept = body.add("Mul", body.add("Sigmoid", forget), states[1])
    c = body.add("Add", kept, body.add("Mul", body.add("Sigmoid", i), body.add("Tanh", cell)))
    return [body.add("Mul", body.add("Sigmoid", o), body.add("Tanh", c)), c]


STEPS: Final = {"RNN": _step_of_rnn, "GRU": _step_of_gru, "LSTM": _step_of_lstm}
"""For each kind of layer the nodes of one step: from the input and the states to the next states."""


IMPORTS: Final[dict[str, Mapping]] = {"RNN": _recurrent, "GRU": _recurrent, "LSTM": _recurrent}

EXPORTS: Final[dict[str, Export]] = {
    "lstm_layer": _layer_out("LSTM"),
    "gru_layer": _layer_out("GRU"),
    "rnn_layer": _layer_out("RNN"),
}
