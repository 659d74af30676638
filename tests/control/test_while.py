"""Loops while a condition holds: values, gradients that Paddle gets wrong, bounds, and sentences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import evaluate, gradient
from subjects.values import check_orders, define

from compiler import CompileError, Program, constant, gradients, ops, sgd
from registry import Block, OpError, Value


def counted(body: Callable[..., tuple[Value, ...]], trips: int, *carries: Value, save: str = "all") -> list[Value]:
    """The last carries of a loop of some trips, which a carry of integers counts."""
    zero = ops.full.on(carries[0].block)(shape=(), value=0, dtype="int64")
    (*last, _), _ = ops.while_loop(
        lambda *x: x[-1] < trips, lambda *x: (*body(*x[:-1]), x[-1] + 1), *carries, zero, max_trips=8, save=save
    )
    return last


SAVES = pytest.mark.parametrize("save", ["all", "carries"])


@SAVES
def test_x_plus_i_twice_has_the_gradients_1_and_2(save: str):
    found = gradient(lambda x, i: counted(lambda x: (x + i,), 2, x, save=save)[0], np.array(5.0), np.array(3.0))
    assert [float(dx) for dx in found] == [1.0, 2.0]


@SAVES
def test_x_times_x_twice_has_the_gradient_32(save: str):
    [found] = gradient(lambda x: counted(lambda x: (x * x,), 2, x, save=save)[0], np.array(2.0))
    assert float(found) == 32.0


@SAVES
def test_what_is_overwritten_has_the_gradient_0_and_what_counts_up_4(save: str):
    found = gradient(
        lambda x, i: counted(lambda x, i: (i * i, i + 1.0), 2, x, i, save=save)[0], np.array(9.0), np.array(1.0)
    )
    assert [float(dx) for dx in found] == [0.0, 4.0]


@SAVES
def test_no_trip_gives_the_carry_and_its_gradient_as_they_are(save: str):
    def function(x: Value, w: Value) -> Value:
        return ops.sum(counted(lambda c: (c * w,), 0, x, save=save)[0])

    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert evaluate(function, x, w) == 3.0
    found = gradient(function, x, w)
    np.testing.assert_array_equal(found[0], [1.0, 1.0])
    np.testing.assert_array_equal(found[1], [0.0, 0.0])


@SAVES
def test_every_order_is_the_derivative_of_the_one_before(save: str):
    block = Block()
    x, w = define(block, "x", (2,)), define(block, "w", (2,))

    def body(c: Value, n: Value) -> tuple[Value, Value]:
        return ops.sin(c) * w + n * 0.5, ops.cond(ops.sum(c) > 0, lambda: n * w, lambda: n - c)

    a, b = counted(body, 3, x, w, save=save)
    feeds = {"x": np.array([0.3, -0.8]), "w": np.array([1.2, 0.7])}
    check_orders(ops.sum(a * b), [x, w], feeds, 3)


def test_the_trips_follow_from_the_data_and_so_does_the_gradient():
    def function(x: Value, w: Value) -> Value:
        return ops.while_loop(lambda c: c < 10.0, lambda c: c * w, x, max_trips=50)[0]

    for x, trips in ((6.0, 1), (3.0, 2), (20.0, 0), (0.5, 5)):
        dx, dw = gradient(function, np.array(x), np.array(2.0))
        assert (float(dx), float(dw)) == (2.0**trips, trips * x * 2.0 ** max(trips - 1, 0))


def test_the_number_of_trips_is_a_result():
    found = evaluate(lambda x: ops.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, x)[1], np.array(1.0))
    assert (found.dtype, int(found)) == (np.int64, 4)


def test_the_bound_ends_the_loop():
    def function(x: Value) -> tuple[Value, Value]:
        return ops.while_loop(lambda c: c < 1e9, lambda c: c * 2.0, x, max_trips=3)

    value, trips = evaluate(function, np.array(1.0))
    assert (float(value), int(trips)) == (8.0, 3)


def test_running_needs_no_bound_but_the_gradient_does_and_says_so():
    program = Program()
    w = program.parameter("w", (), constant(2.0), dtype="float64")
    last, _ = ops.while_loop(lambda c: c < 10.0, lambda c: c * w, program.constant(1.0, "float64"))
    assert told(CompileError, lambda: program.minimize(last, sgd(0.1))).endswith(
        "while_loop needs max_trips for its gradient, as in max_trips=64; running does not"
    )


def test_a_loss_that_depends_on_the_number_of_trips_alone_has_no_gradient_and_says_so():
    program = Program()
    w = program.parameter("w", (), constant(2.0))
    _, trips = ops.while_loop(lambda c: c < 10.0, lambda c: c * w, program.constant(1.0), max_trips=9)
    with pytest.raises(CompileError) as error:
        program.minimize(ops.cast(trips, dtype="float32"), sgd(0.1))
    assert "while_loop stops the gradient: the number of trips has none" in str(error.value)


def test_a_float_that_counts_trips_does_not_depend_on_what_the_condition_reads():
    block = Block()
    w = define(block, "w")
    one = block.constant("float64", 1.0)
    (_, count), _ = ops.while_loop(lambda c, n: c < 10.0, lambda c, n: (c * w, n + 1.0), one, one, max_trips=9)
    assert gradients(count, [w]) == [None]


def test_carries_of_several_dtypes_integers_among_them():
    def function(x: Value) -> Value:
        block = x.block
        flag = ops.full.on(block)(shape=(2,), value=1, dtype="bool")
        half = ops.cast(x, dtype="float32")
        (x, flag, half, _), _ = ops.while_loop(
            lambda x, flag, half, n: n < 3,
            lambda x, flag, half, n: (
                ops.where(flag, x * 2.0, x * 3.0),
                ops.logical_not(flag),
                half * half,
                n + 1,
            ),
            x,
            flag,
            half,
            ops.full.on(block)(shape=(), value=0, dtype="int32"),
            max_trips=4,
        )
        return ops.sum(x) + ops.sum(ops.cast(half, dtype="float64"))

    x = np.array([1.0, 0.5])
    assert float(evaluate(function, x)) == pytest.approx(12 * 1.5 + 1.0 + 0.5**8)
    np.testing.assert_allclose(gradient(function, x)[0], 12 + 8 * x**7, rtol=1e-6)


def test_carries_may_change_places():
    def function(a: Value, b: Value) -> list[Value]:
        return counted(lambda x, y: (y, x), 3, a, b)

    one, two = evaluate(function, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(one, [3.0, 4.0])
    np.testing.assert_array_equal(two, [1.0, 2.0])
    found = gradient(lambda a, b: ops.sum(function(a, b)[0] * 5.0), np.ones(2), np.ones(2))
    np.testing.assert_array_equal(found, [[0.0, 0.0], [5.0, 5.0]])


def test_a_solver_ends_at_its_tolerance_and_its_gradient_is_that_of_the_root():
    def root(a: Value) -> Value:
        (x, _), _ = ops.while_loop(
            lambda x, a: ops.abs(x * x - a) > 1e-12, lambda x, a: ((x + a / x) * 0.5, a), a, a, max_trips=60
        )
        return x

    for a in (2.0, 9.0, 1e4):
        assert float(evaluate(root, np.array(a))) == pytest.approx(np.sqrt(a))
        assert float(gradient(root, np.array(a))[0]) == pytest.approx(0.5 / np.sqrt(a))


def sentence(function: Callable[[Value], object]) -> str:
    program = Program()
    x = program.input("x", "float32", (3,))
    with pytest.raises(OpError) as error:
        function(x)
    text = str(error.value)
    return text.split(": ", 1)[1] if ".py:" in text else text


def test_mistakes_are_said_in_sentences():
    assert sentence(lambda x: ops.while_loop(lambda c: True, lambda c: c, x)) == (
        "while_loop: the condition's result is True, known while the program is built; let it compare carries"
    )
    assert sentence(lambda x: ops.while_loop(lambda c: c > 0, lambda c: c, x)) == (
        "while_loop: its condition gives bool[3], not bool[]; ops.all and ops.any give one"
    )
    assert sentence(lambda x: ops.while_loop(lambda c: ops.all(c > 0), lambda c: ops.sum(c), x)) == (
        "while_loop: a carry begins as float32[3], and its function returns float32[]; cast or shape it"
    )
    assert sentence(lambda x: ops.while_loop(lambda c: ops.all(c > 0), lambda c: (c, c), x)) == (
        "while_loop: its function returns a carry of another form than it is given; both are the same"
    )
    assert sentence(lambda x: ops.while_loop(lambda: x > 0, lambda: x)) == (
        "while_loop: it has no carries, so its condition would never change"
    )
    assert sentence(lambda x: ops.while_loop(lambda c: ops.all(c > 0), lambda c: c, x, max_trips=0)) == (
        "while_loop: max_trips=0 is no whole number from 1 to 1099511627776"
    )
