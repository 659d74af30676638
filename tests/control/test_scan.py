"""Loops over rows: values and gradients beside loops by hand, the recurrent operators, and sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.evaluate import evaluate, gradient
from subjects.values import check_orders, define

from compiler import Program, gradients, ops
from registry import Block, OpError, Value

RNG = np.random.default_rng(5)
XS, H, W = RNG.normal(size=(4, 2, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3))
SAVES = pytest.mark.parametrize("save", ["all", "carries"])
REVERSED = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])


def by_hand(xs: np.ndarray, h: np.ndarray, w: np.ndarray, reverse: bool) -> tuple[np.ndarray, np.ndarray]:
    rows = np.empty_like(xs)
    for i in range(len(xs))[:: -1 if reverse else 1]:
        h = np.tanh(h @ w + xs[i])
        rows[i] = h * h
    return h, rows


def as_ops(xs: Value, h: Value, w: Value, reverse: bool) -> tuple[Value, Value]:
    """The same, unrolled."""
    rows: dict[int, Value] = {}
    for i in range(xs.shape[0])[:: -1 if reverse else 1]:
        h = ops.tanh(h @ w + xs[i])
        rows[i] = h * h
    return h, ops.stack(*(rows[i] for i in range(xs.shape[0])), axis=0)


def as_scan(xs: Value, h: Value, w: Value, reverse: bool, save: str = "all") -> tuple[Value, Value]:
    def step(h: Value, x: Value) -> tuple[Value, Value]:
        h = ops.tanh(h @ w + x)
        return h, h * h

    return ops.scan(step, h, xs, reverse=reverse, save=save)


@REVERSED
def test_a_scan_is_the_loop_by_hand(reverse: bool):
    found = evaluate(lambda *x: as_scan(*x, reverse), XS, H, W)
    for one, other in zip(found, by_hand(XS, H, W, reverse), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


@SAVES
@REVERSED
def test_its_gradients_are_those_of_the_unrolled_loop_and_weights_add_up_over_iterations(reverse: bool, save: str):
    def loss(last: Value, rows: Value) -> Value:
        return ops.sum(ops.sin(last)) + ops.sum(rows * rows)

    found = gradient(lambda *x: loss(*as_scan(*x, reverse, save)), XS, H, W)
    wanted = gradient(lambda *x: loss(*as_ops(*x, reverse)), XS, H, W)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@SAVES
def test_every_order_is_the_derivative_of_the_one_before(save: str):
    block = Block()
    x, h, w = define(block, "x", XS.shape), define(block, "h", H.shape), define(block, "w", W.shape)
    last, rows = as_scan(x, h, w, False, save)
    check_orders(ops.sum(rows) + ops.sum(last * last), [x, h, w], {"x": XS, "h": H, "w": W}, 4)


@SAVES
def test_scans_of_scans_with_conditions_and_loops_inside(save: str):
    block = Block()
    x, h, w = define(block, "x", (3, 4, 2)), define(block, "h", (2,)), define(block, "w", (2,))

    def inner(c: Value, row: Value) -> tuple[Value, Value]:
        c = ops.cond(ops.sum(c) > 0, lambda: ops.sin(c * w), lambda: c + row)
        (c, _), _ = ops.while_loop(
            lambda c, n: ops.sum(c * c) < 3.0, lambda c, n: (c * 1.5 + w * 0.1, n + 1.0), c, c[0] * 0.0, max_trips=4
        )
        return c, ops.sum(c * row)

    def outer(c: Value, rows: Value) -> tuple[Value, Value]:
        return ops.scan(inner, c, rows, reverse=True, save=save)

    last, rows = ops.scan(outer, h, x, save=save)
    feeds = {"x": RNG.normal(size=(3, 4, 2)), "h": np.array([0.4, -0.9]), "w": np.array([1.1, 0.6])}
    check_orders(ops.sum(rows * rows) + ops.sum(last), [x, h, w], feeds, 2)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@SAVES
def test_recurrent_layers_written_as_scans_equal_the_operators(kind: str, save: str):
    n, t, i, u = 2, 4, 3, 3
    cells: dict[str, tuple[int, Callable[..., Any]]] = {"rnn": (1, rnn), "gru": (3, gru), "lstm": (4, lstm)}
    gates, cell = cells[kind]
    arrays = [RNG.normal(size=s) for s in ((n, t, i), (i, gates * u), (u, gates * u), (gates * u,))]

    def loss(rows: Value) -> Value:
        return ops.sum(ops.sin(rows * 2.0))

    def scanned(x: Value, w: Value, r: Value, b: Value) -> Value:
        begin = ops.full.on(x.block)(shape=(n, u), value=0.0, dtype="float64")
        first = (begin, begin) if kind == "lstm" else begin
        _, rows = ops.scan(lambda c, v: cell(c, v, w, r, b), first, ops.transpose(x, axis=(1, 0, 2)), save=save)
        return ops.transpose(rows, axis=(1, 0, 2))

    def operator(x: Value, w: Value, r: Value, b: Value) -> Value:
        begin = ops.full.on(x.block)(shape=(n, u), value=0.0, dtype="float64")
        if kind == "gru":
            return ops.gru_layer(x @ w, r, b, begin)
        given = x @ w + b
        return ops.rnn_layer(given, r, begin) if kind == "rnn" else ops.lstm_layer(given, r, begin, begin)[0]

    np.testing.assert_allclose(evaluate(scanned, *arrays), evaluate(operator, *arrays), rtol=1e-10)
    ours = gradient(lambda *a: loss(scanned(*a)), *arrays)
    theirs = gradient(lambda *a: loss(operator(*a)), *arrays)
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def rnn(h: Value, x: Value, w: Value, r: Value, b: Value) -> tuple[Value, Value]:
    h = ops.tanh(x @ w + h @ r + b)
    return h, h


def gru(h: Value, x: Value, w: Value, r: Value, b: Value) -> tuple[Value, Value]:
    (x_reset, x_update, x_new), (h_reset, h_update, h_new) = (
        ops.split(a, sizes=(3, 3, 3), axis=1) for a in (x @ w, h @ r + b)
    )
    update = ops.sigmoid(x_update + h_update)
    new = ops.tanh(x_new + ops.sigmoid(x_reset + h_reset) * h_new)
    h = (1.0 - update) * new + update * h
    return h, h


def lstm(carry: tuple[Value, Value], x: Value, w: Value, r: Value, b: Value) -> tuple[tuple[Value, Value], Value]:
    h, c = carry
    into, forget, cell, out = ops.split(x @ w + b + h @ r, sizes=(3, 3, 3, 3), axis=1)
    c = ops.sigmoid(forget) * c + ops.sigmoid(into) * ops.tanh(cell)
    h = ops.sigmoid(out) * ops.tanh(c)
    return (h, c), h


def test_a_scan_over_time_with_a_length_for_each_row():
    lengths = np.array([2, 4])
    steps = np.arange(4)

    def last(x: Value, lengths: Value, steps: Value) -> Value:
        def step(h: Value, now: tuple[Value, Value]) -> tuple[Value, None]:
            row, i = now
            there = ops.reshape(ops.less(ops.broadcast_to(i, shape=(2,)), lengths), shape=(2, 1))
            return ops.where(there, ops.tanh(h + row), h), None

        return ops.scan(step, x[0] * 0.0, (x, steps))[0]

    wanted = np.stack([by_hand(XS[:k, j], np.zeros(3), np.eye(3), False)[0] for j, k in enumerate(lengths)])
    np.testing.assert_allclose(evaluate(last, XS, lengths, steps), wanted, rtol=1e-12)
    dx = gradient(lambda *a: ops.sum(last(*a)), XS, lengths, steps)[0]
    np.testing.assert_array_equal((dx != 0).all(-1), (steps[:, None] < lengths))


@SAVES
def test_a_loop_over_no_rows_gives_its_first_carry(save: str):
    empty = np.zeros((0, 2, 3))
    last, rows = evaluate(lambda *x: as_scan(*x, False, save), empty, H, W)
    assert rows.shape == (0, 2, 3)
    np.testing.assert_array_equal(last, H)
    found = gradient(lambda *x: ops.sum(as_scan(*x, False, save)[0]), empty, H, W)
    for one, wanted in zip(found, (empty, np.ones_like(H), np.zeros_like(W)), strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_map_is_the_function_of_each_row():
    def function(x: Value, w: Value) -> Any:
        return ops.map(lambda row: (ops.sum(row @ w), row[0] * 2.0), x)

    found = evaluate(function, XS, W)
    np.testing.assert_allclose(found[0], (XS @ W).sum((1, 2)), rtol=1e-12)
    np.testing.assert_array_equal(found[1], XS[:, 0] * 2)
    dx, dw = gradient(lambda x, w: ops.sum(ops.square(function(x, w)[0])), XS, W)
    sums = 2 * (XS @ W).sum((1, 2))
    np.testing.assert_allclose(dx, sums[:, None, None] * np.broadcast_to(W.sum(1), XS.shape), rtol=1e-12)
    np.testing.assert_allclose(dw, np.broadcast_to((sums @ XS.sum(1))[:, None], W.shape), rtol=1e-12)


def test_a_scan_without_rows_counts_its_steps_by_a_length():
    last, rows = evaluate(lambda x: ops.scan(lambda c, _: (c * 2.0, c), x, length=3), np.array([1.0, 3.0]))
    np.testing.assert_array_equal(last, [8.0, 24.0])
    np.testing.assert_array_equal(rows, [[1.0, 3.0], [2.0, 6.0], [4.0, 12.0]])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool", "uint8", "float16"])
def test_carries_and_rows_of_every_dtype(dtype: str):
    def function(x: Value, first: Value) -> list[Value]:
        given = ops.cast(x, dtype=dtype), ops.cast(first, dtype=dtype)
        last, rows = ops.scan(lambda c, row: (row, c), given[1], given[0])
        return [ops.cast(last, dtype="float64"), ops.cast(rows, dtype="float64")]

    x, first = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([0.0, 1.0])
    last, rows = evaluate(function, x, first)
    np.testing.assert_array_equal(last, x[-1])
    np.testing.assert_array_equal(rows, [first, *x[:-1]])


def test_rows_and_carries_of_rank_0():
    found = evaluate(lambda x: ops.scan(lambda c, v: (c + v, c * v), x[0], x), np.array([2.0, 3.0, 5.0]))
    assert float(found[0]) == 12.0
    np.testing.assert_array_equal(found[1], [4.0, 12.0, 35.0])


def test_the_gradient_of_half_float_carries_is_kept_in_float32():
    def function(x: Value) -> Value:
        half = ops.cast(x, dtype="float16")
        last, _ = ops.scan(
            lambda c, v: (
                ops.cast(ops.cast(c, dtype="float32") * ops.cast(v, dtype="float32"), dtype="float16"),
                None,
            ),
            half[0],
            half[1:],
        )
        return ops.cast(last, dtype="float32")

    x = np.array([2.0, 4.0, 0.5], np.float32)
    np.testing.assert_array_equal(gradient(function, x)[0], [2.0, 1.0, 8.0])


def test_gradients_may_be_taken_in_the_function_of_a_scan_and_through_it():
    """An inner descent with a learnt rate."""
    block = Block()
    rate, w = define(block, "rate"), define(block, "w", (3,))

    def step(w: Value, _: object) -> tuple[Value, Value]:
        loss = ops.sum(ops.square(ops.square(w) - 1.0))
        [dw] = gradients(loss, [w])
        return w - rate * dw, loss

    last, losses = ops.scan(step, w, length=3)
    feeds = {"rate": np.array(0.05), "w": np.array([0.5, 1.5, -0.8])}
    check_orders(ops.sum(losses) + ops.sum(last), [rate, w], feeds, 2)


def test_a_carry_that_becomes_a_tensor_from_outside_or_a_row():
    def function(x: Value, w: Value) -> Value:
        last, _ = ops.scan(lambda c, row: ((row, c[0], w), None), (x[0], x[0], x[0]), x)
        return ops.sum(last[0]) + 2.0 * ops.sum(last[1]) + 3.0 * ops.sum(last[2])

    dx, dw = gradient(function, XS[:, 0], W[0])
    np.testing.assert_array_equal(dx, [[0] * 3, [0] * 3, [2] * 3, [1] * 3])
    np.testing.assert_array_equal(dw, [3.0, 3.0, 3.0])


def sentence(function: Callable[[Value], object]) -> str:
    program = Program()
    x = program.input("x", "float32", (4, 3))
    with pytest.raises(OpError) as error:
        function(x)
    text = str(error.value)
    return text.split(": ", 1)[1] if ".py:" in text else text


def test_mistakes_are_said_in_sentences():
    assert sentence(lambda x: ops.scan(lambda c, v: c + v, x[0], x)) == (
        "scan: its function returns (carry, y), a pair; y may be None"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (ops.sum(c), v), x[0], x)) == (
        "scan: a carry begins as float32[3], and its function returns float32[]; cast or shape it"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: ((c, c), v), x[0], x)) == (
        "scan: its function returns a carry of another form than it is given; both are the same"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), x[0], (x, x[:2]))) == (
        "scan: there are 4 and 2 rows; all of them are read together"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), x, ops.sum(x))) == (
        "scan: %sum_1: float32[] has no rows; what all steps share is used in the function directly"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), x)) == (
        "scan: nothing says how many steps there are; give rows to read, or length="
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), x, length=-1)) == (
        "scan: length=-1 is no whole number from 0 to 1099511627776"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), x, x, save="some")) == (
        "scan: save='some' is neither 'all' nor 'carries'"
    )
    assert sentence(lambda x: ops.scan(lambda c, v: (c, None), 1.0, x)) == (
        "scan: the first carry is 1.0, which is neither a tensor nor a tuple of tensors"
    )
    assert sentence(lambda x: ops.map(lambda v: None, x)) == ("map: its function returns no tensor")


def test_an_op_without_a_gradient_in_a_body_is_named():
    block = Block()
    x = define(block, "x", (4, 3))
    rows = ops.map(lambda row: ops.ceil(row) * row, x)
    assert gradients(ops.sum(rows), [x])[0] is not None
