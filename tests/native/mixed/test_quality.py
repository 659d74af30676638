"""Training quality with mixed precision: losses of three small networks over 500 steps, beside those of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import runtime
from prograd import Program, Value, adam, layers, ops

ROWS, CLASSES, STEPS, LAST = 32, 10, 500, 100
PATTERN = 0.15
"""Size of the pattern of a class beside noise of 1: losses fall, and do not reach 0."""


def perceptron(x: Value) -> Value:
    h = ops.gelu(layers.layer_norm(layers.dense(ops.reshape(x, shape=(x.shape[0], -1)), "0", 128), "norm"))
    return layers.dense(ops.relu(layers.dense(h, "1", 128)), "out", CLASSES)


def convolutions(x: Value) -> Value:
    h = ops.relu(layers.batch_norm(layers.conv(x, "0", 16, bias=False), "norm0"))
    h = ops.relu(layers.batch_norm(layers.conv(h, "1", 32, stride=2, bias=False), "norm1"))
    return layers.dense(ops.mean(h, axis=(1, 2)), "out", CLASSES)


def sequence(x: Value) -> Value:
    x = ops.reshape(x, shape=(x.shape[0], 12, -1))
    _, last = layers.gru(x, "gru", 64)
    return layers.dense(ops.reshape(last, shape=(x.shape[0], 64)), "out", CLASSES)


NETWORKS = {"perceptron": perceptron, "convolutions": convolutions, "sequence": sequence}


def last_loss(network: Callable[[Value], Value], mixed: str | None) -> float:
    """Return the mean of the last losses."""
    program = Program("quality", seed=1)
    x, label = program.input("x", "float32", ("batch", 12, 12, 4)), program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(network(x), label), adam(1e-3))
    run = runtime.Run(program.compile(batch=ROWS, mixed=mixed), engine="native")
    rng = np.random.default_rng(0)
    losses: list[float] = []
    patterns = PATTERN * np.tile(rng.standard_normal((CLASSES, 4, 4, 4), dtype="f4"), (1, 3, 3, 1))
    for _ in range(STEPS):
        labels = rng.integers(0, CLASSES, ROWS)
        noise = rng.standard_normal((ROWS, 12, 12, 4), dtype="f4")
        losses.append(float(run.step({"x": noise + patterns[labels], "label": labels})["loss"]))
    return float(np.mean(losses[-LAST:]))


@pytest.mark.thorough
@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_the_loss_after_500_steps_is_within_1_percent_of_that_of_float32(network: Callable[[Value], Value]) -> None:
    single, mixed = last_loss(network, None), last_loss(network, "bfloat16")
    assert mixed == pytest.approx(single, rel=0.01)
    assert single < 0.9 * np.log(CLASSES), "it has learned"
