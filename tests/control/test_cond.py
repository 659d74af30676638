"""Conditions: values, gradients of both branches, and the sentences for mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import evaluate, gradient
from subjects.values import check_orders, define, here, value_of

from compiler import CompileError, Program, constant, gradients, ops, sgd
from registry import Block, OpError, Value

X, W = np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])


def chosen(x: Value, w: Value) -> Value:
    return ops.sum(ops.cond(ops.sum(x) > 0, lambda a: a * a * w, lambda a: a - 1.0, x))


@pytest.mark.parametrize(
    ("sign", "dx", "dw"), [(1.0, 2 * X * W, X * X), (-1.0, np.ones(3), np.zeros(3))], ids=["true", "false"]
)
def test_the_gradient_is_that_of_the_branch_taken_and_zeros_for_what_the_other_one_uses(
    sign: float, dx: np.ndarray, dw: np.ndarray
):
    x = sign * X
    found = gradient(chosen, x, W)
    np.testing.assert_array_equal(found[0], sign * dx if sign > 0 else dx)
    np.testing.assert_array_equal(found[1], dw)


def test_nothing_flows_through_the_predicate_although_it_depends_on_the_parameter():
    found = gradient(lambda w: ops.sum(ops.cond(ops.sum(w) > 0, lambda: w * 3.0, lambda: w * 5.0)), X)
    np.testing.assert_array_equal(found[0], np.full(3, 3.0))


def test_a_tensor_that_only_the_predicate_reads_has_no_gradient():
    assert gradient(lambda p, x: ops.cond(ops.sum(p) > 0, lambda: x * 2.0, lambda: x), X, X)[0] is None


@pytest.mark.parametrize("x", [-3.0, -0.5, 0.5, 3.0])
def test_conditions_inside_conditions(x: float):
    def function(x: Value) -> Value:
        return ops.cond(
            x > 0,
            lambda: ops.cond(x > 1, lambda: x * x * x, lambda: ops.sin(x)),
            lambda: ops.cond(x < -1, lambda: ops.exp(x), lambda: x * 7.0),
        )

    values = {-3.0: np.exp(-3.0), -0.5: -3.5, 0.5: np.sin(0.5), 3.0: 27.0}
    slopes = {-3.0: np.exp(-3.0), -0.5: 7.0, 0.5: np.cos(0.5), 3.0: 27.0}
    assert evaluate(function, np.array(x)) == pytest.approx(values[x])
    assert gradient(function, np.array(x))[0] == pytest.approx(slopes[x])
    block = Block()
    value = define(block, "x")
    check_orders(function(value), [value], {"x": np.array(x)}, 3)


def test_only_the_branch_taken_is_computed():
    index = np.array([7])
    data = np.array([1.0, 2.0])
    taken = evaluate(lambda i, x: ops.cond(ops.all(i < 2), lambda: ops.gather(x, i), lambda: x[:1] * 0.0), index, data)
    np.testing.assert_array_equal(taken, [0.0])


def test_results_may_be_tuples_numbers_and_tensors_from_outside():
    def function(x: Value) -> tuple[Value, ...]:
        total, (same, one) = ops.cond(
            ops.sum(x) > 0, lambda: (ops.sum(x), (x, 1.0)), lambda: (0.0, [x * 2.0, ops.max(x)])
        )
        return total, same, one

    for sign, wanted in ((1.0, [2.0, X, 1.0]), (-1.0, [0.0, -2 * X, 2.0])):
        for found, value in zip(evaluate(function, sign * X), wanted, strict=True):
            np.testing.assert_array_equal(found, value)


def test_a_parameter_that_only_an_untaken_branch_uses_is_trained_and_keeps_its_value():
    program = Program()
    x = program.input("x", "float32", (3,))

    def other() -> Value:
        return x * program.parameter("w", (3,), constant(2.0))

    loss = ops.sum(ops.cond(ops.sum(x) > 0, other, lambda: x * program.parameter("v", (3,), constant(1.0))))
    program.minimize(loss, sgd(0.5))
    from subjects.steps import Stepper

    stepper = Stepper(program.compile())
    stepper.step(x=np.array([1.0, 1.0, 2.0], np.float32))
    states = stepper.snapshot()
    np.testing.assert_array_equal(states["w"], [1.5, 1.5, 1.0])
    np.testing.assert_array_equal(states["v"], [1.0, 1.0, 1.0])


def test_an_update_in_a_branch_is_refused_in_a_sentence():
    program = Program()
    x = program.input("x", "float32", (3,))
    seen = program.buffer("seen", (3,))

    def branch() -> Value:
        program.update(seen, seen + x)
        return x

    assert told(OpError, lambda: ops.cond(ops.sum(x) > 0, branch, lambda: x)).endswith(
        "update: this is the function for true of cond, which only computes; let its function return the new value, "
        "and update the state with the result"
    )
    ops.exp(x)  # the program goes on outside


def test_a_loss_is_not_minimized_in_a_branch():
    program = Program()
    w = program.parameter("w", (3,))

    def branch() -> Value:
        program.minimize(ops.sum(w), sgd(0.1))
        return w

    with pytest.raises(OpError, match="minimize: this is the function for true of cond, which only computes"):
        ops.cond(ops.sum(w) > 0, branch, lambda: w)


def test_a_tensor_of_a_branch_is_not_used_outside():
    program = Program()
    x = program.input("x", "float32", (3,))
    kept: list[Value] = []

    def branch() -> Value:
        kept.append(x * 2.0)
        return x

    ops.cond(ops.sum(x) > 0, branch, lambda: x)
    sentence = r"exists only inside the function for true of cond; let its function return it$"
    with pytest.raises(OpError, match=sentence):
        ops.exp(kept[0])
    with pytest.raises(OpError, match=sentence):
        program.outputs(y=kept[0])


def test_a_tensor_of_another_program_is_refused_in_a_branch():
    program, other = Program(), Program()
    x, y = program.input("x", "float32", (3,)), other.input("y", "float32", (3,))
    with pytest.raises(OpError, match="belongs to another program"):
        ops.cond(ops.sum(x) > 0, lambda: x + y, lambda: x)


def cond_of(predicate: object, one: object, other: object) -> str:
    with pytest.raises(OpError) as error:
        ops.cond(predicate, lambda: one, lambda: other)  # pyright: ignore[reportArgumentType]: the mistakes of users
    return str(error.value).split(": ", 1)[1] if ".py:" in str(error.value) else str(error.value)


def test_mistakes_are_said_with_both_types_and_a_remedy():
    program = Program()
    x, y = program.input("x", "float32", (3,)), program.input("y", "float64", (3,))
    is_so = ops.sum(x) > 0
    assert cond_of(True, x, x) == (
        "cond: predicate is True, known while the program is built; call one of the functions instead"
    )
    assert cond_of(x > 0, x, x) == "cond: the predicate is bool[3], not bool[]; compare, as in ops.sum(x) > 0"
    assert cond_of(is_so, x, y) == (
        "cond: the function for true returns float32[3], the one for false float64[3]; cast one of them"
    )
    assert cond_of(is_so, (x, x), x) == (
        "cond: the two functions return tuples of different forms; both return the same"
    )
    assert cond_of(is_so, "x", x) == "cond: a result is 'x', which is neither a tensor nor a tuple of tensors"


def test_an_op_without_gradient_in_a_branch_is_named_with_its_line():
    program = Program()
    w = program.parameter("w", (3, 3))
    value = ops.cond(
        ops.sum(w) > 0, lambda: ops.sum(ops.cholesky(w)), lambda: ops.cast(ops.argmax(w, axis=0), dtype="float32")[0]
    )
    assert program.states
    gradients(value, [w])
    block = Block()
    x = define(block, "x", (3,))
    stopped = ops.cond(ops.sum(x) > 0, lambda: ops.sign(x) * x, lambda: x)
    assert value_of(gradients(ops.sum(stopped), [x])[0], {"x": X}).shape == (3,)


def test_two_conditions_on_one_tensor_add_their_gradients():
    found = gradient(
        lambda x: ops.sum(
            ops.cond(ops.sum(x) > 0, lambda: x * 2.0, lambda: x) + ops.cond(ops.sum(x) < 0, lambda: x, lambda: x * x)
        ),
        X,
    )
    np.testing.assert_array_equal(found[0], 2.0 + 2 * X)


def test_the_line_of_the_user_begins_an_error():
    program = Program()
    x = program.input("x", "float32", (3,))
    with pytest.raises(OpError) as error:
        ops.cond(x > 0, lambda: x, lambda: x)
    assert str(error.value).startswith(f"{here(-1)}: cond: the predicate is bool[3]")


def test_a_loss_behind_the_predicate_alone_reaches_no_parameter():
    program = Program()
    w = program.parameter("w", (3,))
    one = program.constant(1.0)
    loss = ops.cond(ops.sum(w) > 0, lambda: one, lambda: one * 2.0)
    assert "greater stops the gradient" in told(CompileError, lambda: program.minimize(loss, sgd(0.1)))
