"""Twenty steps of convolutional networks by both engines: losses and states stay within a ten-thousandth."""

from collections.abc import Callable

import numpy as np
import pytest

import runtime
from prograd import Program, Value, layers, ops, sgd

ROWS = 8


def residual(program: Program, x: Value) -> Value:
    """Two blocks, one with a projection."""
    h = ops.relu(layers.conv_norm(x, "stem", 8))
    y = layers.conv_norm(ops.relu(layers.conv_norm(h, "one", 8)), "two", 8)
    h = ops.relu(h + y)
    y = layers.conv_norm(ops.relu(layers.conv_norm(h, "three", 12, stride=2)), "four", 12)
    return ops.relu(layers.conv_norm(h, "projection", 12, window=1, stride=2) + y)


def inverted(program: Program, x: Value) -> Value:
    """Append expansion, depthwise convolution, projection, and the addition around them."""
    h = ops.relu6(layers.conv_norm(x, "stem", 4))
    y = ops.relu6(layers.conv_norm(h, "wide", 16, window=1))
    y = layers.conv(y, "own", 16, groups=16, bias=False)
    y = ops.relu6(layers.batch_norm(y, "own.norm"))
    return h + layers.conv_norm(y, "narrow", 4, window=1)


def biased(program: Program, x: Value) -> Value:
    """Convolutions with bias and activation, and pools."""
    h = ops.avg_pool(ops.relu(layers.conv(x, "one", 6, window=5)), window=(2, 2), stride=(2, 2))
    return ops.max_pool(ops.tanh(layers.conv(h, "two", 9, padding="none")), window=(2, 2), stride=(2, 2))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("network", [residual, inverted, biased])
def test_twenty_steps_and_a_prediction(network: Callable[[Program, Value], Value]):
    program = Program("images", seed=3)
    x, label = program.input("x", "float32", ("batch", 13, 13, 3)), program.input("label", "int64", ("batch",))
    logits = layers.dense(ops.mean(network(program, x), axis=(1, 2)), "out", 5)
    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, sgd(0.05))
    program.outputs(logits=logits)
    desc = program.compile(batch=ROWS).desc
    rng = np.random.default_rng(0)
    rows = [
        {"x": rng.normal(size=(ROWS, 13, 13, 3)).astype("f4"), "label": rng.integers(0, 5, ROWS)} for _ in range(20)
    ]
    runs = [runtime.Run(desc, engine="native", threads=n) for n in (2, 1)] + [runtime.Run(desc, engine="reference")]
    losses = np.array([[run.step(feeds)["loss"] for feeds in rows] for run in runs])
    np.testing.assert_array_equal(losses[0], losses[1])
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-4)
    for name in runs[0].state:
        native, one, reference = (np.asarray(run.state[name]) for run in runs)
        np.testing.assert_array_equal(native, one)
        room = 1e-4 * np.abs(reference).max(initial=1e-3)
        np.testing.assert_allclose(native, reference, rtol=1e-4, atol=room, err_msg=name)
    native, reference = (run.predict({"x": rows[0]["x"]})["logits"] for run in (runs[0], runs[2]))
    np.testing.assert_allclose(native, reference, rtol=1e-3, atol=1e-4)
