"""Recurrent networks against loops over sequences, steps and units."""

import math

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, computed, evaluate
from subjects.steps import Stepper
from subjects.values import check_orders, define

from compiler import Program, sgd
from compiler.train.backward import gradients
from prograd_proto import TensorType
from registry import Block, OpError, ops

RNG = np.random.default_rng(23)

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def logistic(a):
    return 1 / (1 + math.exp(-a))


def naive_step(kind, x, h, c, weights):
    """The next h and c, lists of numbers, of one sequence."""
    w, r, b, rb = weights
    units = len(h)
    of_x = [sum(x[i] * w[i, j] for i in range(len(x))) + b[j] for j in range(w.shape[1])]
    of_h = [sum(h[i] * r[i, j] for i in range(units)) + rb[j] for j in range(w.shape[1])]
    new_h, new_c = [], []
    for u in range(units):
        gates = [(of_x[u + k * units], of_h[u + k * units]) for k in range(GATES[kind])]
        if kind == "rnn":
            new_h.append(math.tanh(sum(gates[0])))
        elif kind == "gru":
            reset, update = logistic(sum(gates[0])), logistic(sum(gates[1]))
            new = math.tanh(gates[2][0] + reset * gates[2][1])
            new_h.append((1 - update) * new + update * h[u])
        else:
            i, f, o = (logistic(sum(gates[k])) for k in (0, 1, 3))
            new_c.append(f * c[u] + i * math.tanh(sum(gates[2])))
            new_h.append(o * math.tanh(new_c[-1]))
    return new_h, new_c


def naive(kind, x, weights, hidden, cell, lengths, directions):
    """Return the outputs of a network at each step, and its last states."""
    last_h, last_c = np.zeros_like(hidden), np.zeros_like(hidden)
    for layer in range(len(weights) // directions):
        made = np.zeros((*x.shape[:2], directions * hidden.shape[2]))
        for direction in range(directions):
            at = layer * directions + direction
            for n in range(len(x)):
                h, c = list(hidden[at, n]), list(cell[at, n])
                order = range(lengths[n])
                for t in reversed(order) if direction else order:
                    h, c = naive_step(kind, x[n, t], h, c, weights[at])
                    made[n, t, direction * len(h) : (direction + 1) * len(h)] = h
                last_h[at, n] = h
                if kind == "lstm":
                    last_c[at, n] = c
        x = made
    return [x, last_h, last_c] if kind == "lstm" else [x, last_h]


def case(kind, layers, directions, n=3, steps=4, inputs=2, units=3):
    """Sequences, weights of each layer and direction, first states."""
    wide = GATES[kind] * units
    weights = []
    for layer in range(layers):
        size = inputs if layer == 0 else directions * units
        weights += [
            [RNG.normal(size=s) for s in ((size, wide), (units, wide), (wide,), (wide,))] for _ in range(directions)
        ]
    states = [RNG.normal(size=(layers * directions, n, units)) for _ in range(2)]
    return RNG.normal(size=(n, steps, inputs)), weights, *states


def call(kind, values, count, **attributes):
    """The network with the values x, weights, hidden, and for an LSTM cell."""
    x, *rest = values
    weights, states = rest[: 4 * count], rest[4 * count :]
    given = dict(zip(("hidden", "cell"), states, strict=False))
    return list(getattr(ops, kind)(x, *weights, **given, **attributes))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", [None, np.array([4, 1, 2])])
def test_a_network_takes_its_steps(kind, layers, directions, lengths):
    x, weights, hidden, cell = case(kind, layers, directions)
    states = [hidden, cell] if kind == "lstm" else [hidden]
    arrays = [x, *(array for four in weights for array in four), *states]
    counts = [] if lengths is None else [lengths]

    def network(*values):
        values, given = values[: len(arrays)], values[len(arrays) :]
        more = {"lengths": given[0]} if given else {}
        return call(kind, values, len(weights), bidirectional=directions == 2, **more)

    found = evaluate(network, *arrays, *counts)
    expected = naive(kind, x, weights, hidden, cell, [4, 4, 4] if lengths is None else lengths, directions)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", GATES)
def test_first_states_are_zeros_if_not_given(kind):
    x, weights, hidden, cell = case(kind, 1, 1)
    found = evaluate(lambda x, *w: list(getattr(ops, kind)(x, *w)), x, *weights[0])
    expected = naive(kind, x, weights, 0 * hidden, 0 * cell, [4, 4, 4], 1)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("part", [0, 1, 2])
def test_gradients_flow_through_every_output_into_every_operand(kind, part):
    x, weights, hidden, cell = case(kind, 1, 2)
    states = [hidden, cell] if kind == "lstm" else [hidden]
    if part > len(states):
        part = 0
    arrays = [x, *(array for four in weights for array in four), *states]
    lengths = np.array([4, 1, 2])
    block, values = block_of((*arrays, lengths))
    made = call(kind, values[:-1], 2, bidirectional=True, lengths=values[-1])[part]
    grads = gradients(made, values[:-1])
    found = computed(block, grads, (*arrays, lengths))
    for i, grad in enumerate(found):
        change = RNG.normal(size=arrays[i].shape)
        sums = []
        for step in (1e-5, -1e-5):
            moved = [array + step * change if i == j else array for j, array in enumerate(arrays)]
            four = [moved[1:5], moved[5:9]]
            first = [*moved[9:], cell][:2]
            sums.append(naive(kind, moved[0], four, *first, lengths, 2)[part].sum())
        slope = (sums[0] - sums[1]) / 2e-5
        assert (0.0 if grad is None else np.vdot(grad, change)) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", GATES)
def test_networks_have_second_gradients(kind):
    block = Block()
    x, weights, hidden, _ = case(kind, 1, 1, n=2, steps=2, inputs=2, units=2)
    arrays = dict(zip(["x", "w", "r", "b", "rb", "h"], [x, *weights[0], hidden], strict=True))
    values = [define(block, name, array.shape) for name, array in arrays.items()]
    y, last, *_ = getattr(ops, kind)(*values[:-1], hidden=values[-1])
    check_orders(ops.sum(y * y, axis=(1,)) + last[0], values, arrays, 2)


@pytest.mark.parametrize("kind", GATES)
def test_dropout_is_between_layers_and_in_training_alone(kind):
    x, weights, hidden, cell = case(kind, 3, 1)
    program = Program(seed=5)
    values = [program.input("x", "float64", x.shape)]
    values += [program.input(f"w{i}", "float64", w.shape) for i, w in enumerate(w for four in weights for w in four)]
    made = getattr(ops, kind)(*values, dropout=0.5)
    kinds = [desc.type for desc in program.block.desc.ops if desc.type in ("dropout", f"{kind}_layer")]
    assert kinds == [f"{kind}_layer", "dropout"] * 2 + [f"{kind}_layer"]
    program.minimize(ops.sum(made[0]) * program.parameter("scale", (), dtype="float64"), sgd(0.1))
    program.fetch("states", made[1])
    program.outputs(y=made[0], states=made[1])
    compiled = program.compile()
    feeds = {
        value.name: array for value, array in zip(values, [x, *(w for four in weights for w in four)], strict=True)
    }
    expected = naive(kind, x, weights, 0 * hidden, 0 * cell, [4, 4, 4], 1)
    outside = Stepper(compiled, "predict").step(**feeds)
    np.testing.assert_allclose(outside["y"], expected[0], rtol=1e-11, atol=1e-13)
    states = Stepper(compiled).step(**feeds)["states"]
    np.testing.assert_allclose(states[0], expected[1][0], rtol=1e-11, atol=1e-13)
    assert (np.abs(states[1] - expected[1][1]) > 1e-6).any()


def test_large_gates_do_not_overflow():
    x = np.array([[[1000.0] * 4, [-1000.0] * 4]])
    h, c = evaluate(lambda x, r, s: list(ops.lstm_layer(x, r, s, s)), x, np.zeros((1, 4)), np.zeros((1, 1)))
    np.testing.assert_allclose([h.reshape(-1), c.reshape(-1)], [[math.tanh(1), 0], [1, 0]], atol=1e-15)


def test_a_batch_without_size_is_left_alone():
    block = Block()
    x, w, r, b = (
        block.define(n, TensorType("float32", s))
        for n, s in zip("xwrb", (("n", 5, 2), (2, 8), (2, 8), (8,)), strict=True)
    )
    y, h, c = ops.lstm(x, w, r, b, b, w, r, b, b, bidirectional=True)
    assert (y.shape, h.shape, c.shape) == (("n", 5, 4), (2, "n", 2), (2, "n", 2))


def test_weights_that_do_not_fit_are_refused_in_a_sentence():
    _, [x, w] = block_of((np.zeros((2, 3, 4)), np.zeros((4, 4))))
    assert told(OpError, lambda: ops.rnn(x, w, w, w)).endswith(": 3 weights are not four for each layer")
    assert told(OpError, lambda: ops.gru_layer(x, w, w[0], w)).endswith(
        "x is float64[2, 3, 4], r float64[4, 4], h0 float64[4, 4]: they are not [n, t, 3 * h] and so on"
    )
    with pytest.raises(OpError) as refused:
        ops.rnn(x, w, w[0, 0], w[0], w[0])
    assert str(refused.value).endswith(": the weights of a layer are not two matrices and two vectors")
    with pytest.raises(OpError) as refused:
        ops.gru_layer(x[0, 0, 0], w, w[0], w)
    assert str(refused.value).endswith(": x is [n, t, gates * h], r [h, gates * h], h0 [n, h]")
