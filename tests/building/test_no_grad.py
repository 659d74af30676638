"""Tensors through which no gradient flows: they count as constants, judged by differences with them held fixed."""

import numpy as np
import pytest
from subjects.small_programs import linear
from subjects.values import define, value_of

from compiler import CompileError, Program, gradients, ops, sgd
from registry import Block

X = np.array([0.3, -0.7, 1.1])
STEP = 1e-6


def slopes(f, x):
    """The derivatives of the sum of f at each x, by central differences; f works on each element by itself."""
    return (f(x + STEP) - f(x - STEP)) / (2 * STEP)


def powers():
    """x, h = x squared, and y = h * sin(x) + h * x."""
    x = define(Block(), "x", (3,))
    h = x * x
    return x, h, h * ops.sin(x) + h * x


def text(action) -> str:
    with pytest.raises(CompileError) as caught:
        action()
    return str(caught.value).split(": ", 1)[1] if str(caught.value)[0] == "t" else str(caught.value)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_tensor_in_no_grad_is_a_constant(by_name):
    x, h, y = powers()
    [dx] = gradients(y, [x], no_grad=[h.name if by_name else h])
    held = X * X
    np.testing.assert_allclose(value_of(dx, {"x": X}), slopes(lambda x: held * np.sin(x) + held * x, X), rtol=1e-7)


def test_without_it_the_gradient_is_whole():
    x, _, y = powers()
    [dx] = gradients(y, [x])
    np.testing.assert_allclose(value_of(dx, {"x": X}), slopes(lambda x: x**2 * np.sin(x) + x**3, X), rtol=1e-7)


def test_it_holds_for_one_differentiation():
    x, h, y = powers()
    [dx] = gradients(y, [x], no_grad=[h])  # h cos(x) + h
    [again] = gradients(dx, [x])
    np.testing.assert_allclose(value_of(again, {"x": X}), slopes(lambda x: x**2 * np.cos(x) + x**2, X), rtol=1e-7)
    [held] = gradients(dx, [x], no_grad=[h])
    np.testing.assert_allclose(value_of(held, {"x": X}), slopes(lambda x: X**2 * np.cos(x), X), rtol=1e-7)


def test_a_gradient_may_be_a_constant_of_the_third_order():
    x, _, y = powers()
    [first] = gradients(y, [x])
    [second] = gradients(first * first, [x])
    [third] = gradients(second * first, [x], no_grad=[first])
    d1 = 2 * X * np.sin(X) + X**2 * np.cos(X) + 3 * X**2

    def d2(x):
        return 2 * np.sin(x) + 4 * x * np.cos(x) - x**2 * np.sin(x) + 6 * x

    np.testing.assert_allclose(value_of(third, {"x": X}), 2 * d1 * d1 * slopes(d2, X), rtol=1e-6)


def test_one_of_two_paths_through_an_op_with_two_results_is_cut():
    x = define(Block(), "x", (4,))
    a, b = ops.split(x, axis=0, sizes=(2, 2))
    [dx] = gradients(ops.sum(a * a) + ops.sum(b * b), [x], no_grad=[a])
    assert value_of(dx, {"x": [1.0, 2.0, 3.0, 4.0]}).tolist() == [0, 0, 6, 8]


def test_a_target_in_no_grad_has_no_gradient():
    x, h, y = powers()
    assert gradients([h], [x], no_grad=[h]) == [None]
    [dx] = gradients([h, y], [x], no_grad=[h])
    np.testing.assert_allclose(value_of(dx, {"x": X}), X**2 * np.cos(X) + X**2)


def test_an_op_without_a_gradient_is_no_fault_behind_it():
    x = define(Block(), "x", (3,))
    stepped = ops.sgd(x, x, x.block.constant("float64", 0.5))
    assert "no gradient through: " in text(lambda: gradients(stepped * x, [x]))
    [dx] = gradients(stepped * x, [x], no_grad=[stepped])
    np.testing.assert_allclose(value_of(dx, {"x": X}), X / 2)


def test_integers_and_tensors_off_the_way_do_no_harm():
    x = define(Block(), "x", (3,))
    whole, other = ops.cast(x, dtype="int64"), x * 7.0
    [dx] = gradients(x * x, [x], no_grad=[whole, other])
    np.testing.assert_allclose(value_of(dx, {"x": X}), 2 * X)


def test_minimize_leaves_parameters_in_no_grad_alone():
    program = Program("p")
    x = program.input("x", "float32", ("batch", 3))
    w, b = program.parameter("w", (3,)), program.parameter("b", (), trainable=True)
    pairs = program.minimize(ops.mean(x * w + b), sgd(0.1), no_grad=["w"])
    assert [value.name for value, _ in pairs] == ["b"]
    program.minimize(ops.mean(ops.square(x * w)), sgd(0.1), no_grad=[b], name="other")
    program.compile(batch=2)


def test_what_no_grad_cannot_have_is_one_sentence():
    x, h, y = powers()
    other = define(Block(), "elsewhere", (3,))
    assert text(lambda: gradients(y, [x], no_grad=["xx"])) == "no_grad: there is no tensor 'xx'; did you mean 'x'?"
    assert text(lambda: gradients(y, [x], no_grad=[other])) == (
        f"no_grad: {other!r} belongs to another program; build both in one"
    )
    assert text(lambda: gradients(y, [x], no_grad=[3])) == "no_grad: 3 is neither a tensor nor the name of one"
    assert (
        text(lambda: gradients(y, [x], no_grad="x"))
        == "no_grad='x' is no list of tensors or names; write no_grad=['x']"
    )
    found = text(lambda: gradients(y, [x, h], no_grad=[h]))
    assert found == f"gradients: {h!r} is an input and in no_grad; leave it out of one of them"


def test_a_loss_that_no_grad_cuts_off_names_it():
    program = linear()
    prediction = program.block.value("x") * program.state("w")
    found = text(lambda: program.minimize(ops.mean(prediction), sgd(0.1), no_grad=[prediction], name="cut"))
    assert found.endswith(f"the loss does not depend on any trainable parameter; no_grad has %{prediction.name}")
