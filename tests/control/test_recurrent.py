"""Recurrent layers written as scans, of ordinary sizes and on both engines, beside the operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fuzz.engines import stepped

from compiler import Program, ops, sgd
from prograd import layers
from registry import Value

ROWS, STEPS, WIDTH = 32, 6, 64
RNG = np.random.default_rng(8)
X = RNG.normal(size=(ROWS, STEPS, WIDTH)).astype(np.float32)
LENGTHS = RNG.integers(0, STEPS + 1, ROWS)
ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])

Carry = tuple[Value, ...]
Cell = Callable[[Carry, Value, Value], Carry]
Network = Callable[[Program, str, Value, Value | None], Value]


def rnn(carry: Carry, x: Value, h: Value) -> Carry:
    return (ops.tanh(x + h),)


def gru(carry: Carry, x: Value, h: Value) -> Carry:
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = (ops.split(a, sizes=(WIDTH,) * 3, axis=1) for a in (x, h))
    update = ops.sigmoid(x_update + h_update)
    new = ops.tanh(x_new + ops.sigmoid(x_reset + h_reset) * h_new)
    return ((1.0 - update) * new + update * carry[0],)


def lstm(carry: Carry, x: Value, h: Value) -> Carry:
    into, forget, cell, out = ops.split(x + h, sizes=(WIDTH,) * 4, axis=1)
    c = ops.sigmoid(forget) * carry[1] + ops.sigmoid(into) * ops.tanh(cell)
    return ops.sigmoid(out) * ops.tanh(c), c


CELLS: dict[str, tuple[int, int, Cell]] = {"rnn": (1, 1, rnn), "gru": (3, 1, gru), "lstm": (4, 2, lstm)}
"""For each kind the gates, the carries, and the next carries from the products of x and of h with biases."""


def weights(program: Program, name: str, gates: int) -> list[Value]:
    shapes = {"input": (WIDTH, gates * WIDTH), "state": (WIDTH, gates * WIDTH)}
    biases = {"input_bias": (gates * WIDTH,), "state_bias": (gates * WIDTH,)}
    return [program.parameter(f"{name}.{part}", shape) for part, shape in (shapes | biases).items()]


def operator(kind: str) -> Network:
    """Return the operator of a kind as a network."""

    def network(program: Program, name: str, x: Value, lengths: Value | None) -> Value:
        return getattr(ops, kind)(x, *weights(program, name, CELLS[kind][0]), lengths=lengths)[0]

    return network


def as_scan(kind: str) -> Network:
    """Return the same network written as a scan; after the length of a row its outputs are 0."""
    gates, count, cell = CELLS[kind]

    def network(program: Program, name: str, x: Value, lengths: Value | None) -> Value:
        w, r, w_bias, r_bias = weights(program, name, gates)

        def step(carry: Carry, row: tuple[Value, Value]) -> tuple[Carry, Value]:
            number, x = row
            new = cell(carry, x @ w + w_bias, carry[0] @ r + r_bias)
            if lengths is None:
                return new, new[0]
            there = ops.unsqueeze(number < lengths, axis=1)
            return tuple(ops.where(there, a, b) for a, b in zip(new, carry, strict=True)), ops.where(there, new[0], 0.0)

        first = tuple(ops.full.on(program)(shape=(x.shape[0], WIDTH), value=0.0) for _ in range(count))
        rows = ops.range.on(program)(stop=int(x.shape[1])), ops.transpose(x, axis=(1, 0, 2))
        return ops.transpose(ops.scan(step, first, rows)[1], axis=(1, 0, 2))

    return network


def trained(network: Network, engine: str, *, with_lengths: bool) -> list[dict[str, np.ndarray]]:
    """Return the fetches of two training steps, and the states after them."""
    program = Program("recurrent", seed=4)
    x = program.input("x", "float32", (ROWS, STEPS, WIDTH))
    lengths = program.input("lengths", "int64", (ROWS,)) if with_lengths else None
    y = network(program, "cell", layers.dense(x, "before", WIDTH), lengths)
    program.fetch("y", y)
    program.minimize(ops.mean(ops.square(y - 0.1)), sgd(1.0))
    feeds = {"x": X} | ({"lengths": LENGTHS} if with_lengths else {})
    return stepped(program.compile().desc, "train", feeds, 2, engine)


def require_close(found: list[dict[str, np.ndarray]], wanted: list[dict[str, np.ndarray]]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.sampled(6)
@ENGINES
@pytest.mark.parametrize("kind", CELLS)
def test_a_scan_trains_as_the_operator_does(kind: str, engine: str):
    with_lengths = kind != "rnn"
    require_close(
        trained(as_scan(kind), engine, with_lengths=with_lengths),
        trained(operator(kind), engine, with_lengths=with_lengths),
    )


def words(inner: Network, outer: Network) -> Network:
    """Return a network over the last results of a network over parts of two steps."""

    def network(program: Program, name: str, x: Value, lengths: Value | None) -> Value:
        parts = ops.reshape(x, shape=(ROWS * STEPS // 2, 2, WIDTH))
        read = inner(program, f"{name}.inner", parts, None)[:, 1]
        return outer(program, f"{name}.outer", ops.reshape(read, shape=(ROWS, STEPS // 2, WIDTH)), lengths)

    return network


def nested(program: Program, name: str, x: Value, lengths: Value | None) -> Value:
    """The same, with the inner scan in the function of the outer one."""
    inner, _, outer = as_scan("gru"), *(weights(program, f"{name}.{part}", 3) for part in ("inner", "outer"))

    def step(carry: Carry, part: Value) -> tuple[Carry, Value]:
        with program.scope("", reuse=True):
            read = inner(program, f"{name}.inner", part, None)[:, 1]
        new = gru(carry, read @ outer[0] + outer[2], carry[0] @ outer[1] + outer[3])
        return new, new[0]

    parts = ops.transpose(ops.reshape(x, shape=(ROWS, STEPS // 2, 2, WIDTH)), axis=(1, 0, 2, 3))
    first = (ops.full.on(program)(shape=(ROWS, WIDTH), value=0.0),)
    return ops.transpose(ops.scan(step, first, parts)[1], axis=(1, 0, 2))


@pytest.mark.thorough
@ENGINES
def test_a_scan_of_scans_trains_as_operators_of_words_and_of_letters_do(engine: str):
    found = trained(nested, engine, with_lengths=False)
    names = found[-1].keys()
    wanted = trained(words(operator("gru"), operator("gru")), engine, with_lengths=False)
    require_close(found, [{name: step[name] for name in (names if names == step.keys() else step)} for step in wanted])
