"""Updates over many steps against loops written by hand, one number at a time as the papers and PyTorch have it."""

import math

import numpy as np
import pytest
from oracles.interpret import compute
from subjects.commands import told

from prograd_proto import TensorType
from registry import Block, OpError, ops
from runtime.engines.reference.kernels.update import PIECE

STEPS = 50
SHAPE = (3, 4)
RNG = np.random.default_rng(5)
START = RNG.normal(size=SHAPE)
GRADIENTS = RNG.normal(size=(STEPS, *SHAPE))
RATES = RNG.uniform(0.01, 0.2, STEPS)


def updated(op, dtype="float64", shape=SHAPE, start=START, **attributes):
    """The parameter after every step, its state kept by the update alone."""
    block = Block()
    tensor, counter = TensorType(dtype, shape), TensorType("int64", ())
    names = op.signature.inputs
    types = [TensorType(dtype, ()) if n == "rate" else counter if n == "step" else tensor for n in names]
    op(*(block.define(name, type) for name, type in zip(names, types, strict=True)), **attributes)
    [desc] = block.desc.ops
    w, *slots = [start.astype(dtype), *(np.zeros(shape, dtype) for _ in op.signature.outputs[1:])]
    history = []
    for step, (dw, rate) in enumerate(zip(GRADIENTS, RATES, strict=True)):
        dw = np.broadcast_to(dw.reshape(-1)[0], shape) if shape != SHAPE else dw
        more = [np.array(step)] if "step" in names else []
        w, *slots = compute(desc, [w, dw.astype(dtype), *slots, np.array(rate, dtype), *more])
        history.append(w)
    return np.array(history)


def by_hand(update, memory):
    """Compute element by element; `update` returns a new number from (w, dw, memory, rate, t) and changes memory."""
    history = np.empty((STEPS, *SHAPE))
    for place in np.ndindex(SHAPE):
        w, own = float(START[place]), dict.fromkeys(memory, 0.0)
        for i in range(STEPS):
            w = update(w, float(GRADIENTS[i][place]), own, float(RATES[i]), i + 1)
            history[i][place] = w
    return history


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd_follows_the_gradient(decay):
    def update(w, dw, memory, rate, t):
        return w - rate * (dw + decay * w)

    np.testing.assert_allclose(updated(ops.sgd, decay=decay), by_hand(update, []), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_momentum_follows_the_velocity(momentum, nesterov, decay):
    def update(w, dw, memory, rate, t):
        g = dw + decay * w
        memory["velocity"] = momentum * memory["velocity"] + g
        return w - rate * (g + momentum * memory["velocity"] if nesterov else memory["velocity"])

    found = updated(ops.momentum, momentum=momentum, nesterov=nesterov, decay=decay)
    np.testing.assert_allclose(found, by_hand(update, ["velocity"]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("beta1", "beta2", "epsilon"), [(0.9, 0.999, 1e-8), (0.5, 0.9, 0.1)])
def test_adam_scales_by_the_running_moments(beta1, beta2, epsilon, decay):
    def update(w, dw, memory, rate, t):
        g = dw + decay * w
        memory["m"] = beta1 * memory["m"] + (1 - beta1) * g
        memory["v"] = beta2 * memory["v"] + (1 - beta2) * g * g
        mean, square = memory["m"] / (1 - beta1**t), memory["v"] / (1 - beta2**t)
        return w - rate * mean / (math.sqrt(square) + epsilon)

    found = updated(ops.adam, beta1=beta1, beta2=beta2, epsilon=epsilon, decay=decay)
    np.testing.assert_allclose(found, by_hand(update, ["m", "v"]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("op", [ops.sgd, ops.momentum, ops.adam], ids=lambda op: op.name)
def test_float32_stays_float32_and_close(op):
    found = updated(op, "float32", decay=0.1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, updated(op, decay=0.1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", [ops.sgd, ops.momentum, ops.adam], ids=lambda op: op.name)
def test_every_piece_of_a_large_parameter_is_updated_alike(op):
    count = 2 * PIECE + 7
    large = updated(op, shape=(count,), start=np.full(count, 0.5), decay=0.1)
    single = updated(op, shape=(1,), start=np.full(1, 0.5), decay=0.1)
    assert (large == single).all()
    assert len(np.unique(single)) == STEPS


def test_updates_refuse_what_does_not_fit_the_parameter():
    block = Block()
    w = block.define("w", TensorType("float32", (3,)))
    rate = block.define("rate", TensorType("float64", ()))
    assert told(OpError, lambda: ops.sgd(w, w, rate)) == (
        "sgd(w: float32[3], dw: float32[3], rate: float64[]): the rate is float64[], not float32[]"
    )
    assert told(OpError, lambda: ops.sgd(w, rate, rate)) == (
        "sgd(w: float32[3], dw: float64[], rate: float64[]): dw is float64[], not float32[3] as w is"
    )
