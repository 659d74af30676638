"""Outside training a gradient is that of what is computed there: against differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import Program, Value, gradients, ops, sgd
from compiler.errors import CompileError
from compiler.train.initialisers import Initialiser
from runtime import Run

X = np.random.default_rng(0).normal(size=(4, 3))


def filled(value: float) -> Initialiser:
    return lambda block, type: ops.full.on(block)(shape=type.shape, value=value, dtype=type.dtype)


def network(program: Program, x: Value, *, trains: bool = True) -> Value:
    w = program.parameter("w", (3, 2), filled(0.4), dtype="float64")
    scale, bias = (program.parameter(name, (2,), filled(0.7), dtype="float64") for name in ("scale", "bias"))
    mean, variance = (program.buffer(name, (2,), filled(2.0), dtype="float64") for name in ("mean", "variance"))
    y, new_mean, new_variance, *_ = ops.batch_norm(ops.sin(x @ w), scale, bias, mean, variance)
    if trains:
        program.update(mean, new_mean)
        program.update(variance, new_variance)
    return ops.sum(ops.dropout(y, ratio=0.5) ** 3)


def penalised(*, first: bool) -> Program:
    """A penalty of the gradient with respect to the rows, alone or after the loss itself."""
    program = Program()
    x = program.input("x", "float64", ("batch", 3))
    loss = network(program, x)
    if first:
        program.minimize(loss, sgd(0.001))
    [dx] = gradients(loss, [x])
    assert dx is not None
    program.minimize(ops.sum(dx * dx) + loss, sgd(0.001), name="penalty")
    program.entry("slopes", dx=dx)
    program.entry("plain", loss=loss)
    return program


@pytest.mark.parametrize("first", [False, True])
def test_a_gradient_through_batch_norm_is_penalised_in_training_and_evaluated_by_running_statistics(first: bool):
    run = Run(penalised(first=first).compile(batch=4).desc)

    def loss(x: np.ndarray) -> float:
        return float(run.step({"x": x}, entry="plain")["loss"])

    slopes = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        nudge = np.zeros_like(X)
        nudge[at] = 1e-5
        slopes[at] = (loss(X + nudge) - loss(X - nudge)) / 2e-5
    assert np.abs(slopes).max() > 0.1
    np.testing.assert_allclose(run.step({"x": X}, entry="slopes")["dx"], slopes, rtol=1e-6, atol=1e-9)
    found = run.step({"x": X}, entry="evaluate")["penalty"]
    assert found == pytest.approx((slopes**2).sum() + loss(X), rel=1e-6)
    before = run.state["w"]
    assert np.isfinite(run.step({"x": X})["penalty"])
    assert not np.array_equal(run.state["w"], before)


def test_the_gradient_of_what_exists_only_while_training_is_refused_elsewhere():
    program = Program()
    x = program.input("x", "float64", ("batch", 2))
    ones, none = program.constant(1.0, "float64"), program.constant(0.0, "float64")
    scale, bias = (ops.broadcast_to(v, shape=(2,)) for v in (ones, none))
    _, _, _, mean, _ = ops.batch_norm(x, scale, bias, bias, scale)
    [dx] = gradients(ops.sum(ops.square(mean)), [x])
    assert dx is not None
    program.outputs(dx=dx)
    with pytest.raises(CompileError) as error:
        program.compile(batch=4)
    assert str(error.value) == f"entry 'predict' needs %{dx.name}, which exists only while training"


def test_a_second_derivative_is_one_of_what_is_computed_too():
    program = Program()
    x = program.input("x", "float64", ("batch", 3))
    [dx] = gradients(network(program, x, trains=False), [x])
    assert dx is not None
    [ddx] = gradients(ops.sum(dx * dx), [x])
    assert ddx is not None
    program.outputs(dx=dx, ddx=ddx)
    run = Run(program.compile(batch=4).desc)

    def energy(x: np.ndarray) -> float:
        return float((run.step({"x": x}, entry="predict")["dx"] ** 2).sum())

    found, nudge = run.step({"x": X}, entry="predict")["ddx"], np.random.default_rng(1).normal(size=X.shape)
    along = (energy(X + 1e-5 * nudge) - energy(X - 1e-5 * nudge)) / 2e-5
    assert (found * nudge).sum() == pytest.approx(along, rel=1e-6)
