"""A loss of labels that do not all count is one number, whatever the size of the steps that evaluate it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import OpError, Program, Value, metrics, ops, sgd
from runtime import Run

ROWS, CLASSES = 10, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, CLASSES)).astype(np.float32)
LABELS = np.array([0, 2, -100, 1, -100, -100, -100, 2, 1, 0])
CLASS_WEIGHTS = np.float32([0.5, 2.0, 0.25])


def logarithms() -> np.ndarray:
    x = X.astype(np.float64)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def expected(weights: np.ndarray) -> float:
    counted = [(weights[label], -row[label]) for row, label in zip(logarithms(), LABELS, strict=True) if label >= 0]
    return sum(w * term for w, term in counted) / sum(w for w, _ in counted)


def run_of(loss: Callable[[Value, Value], Value], batch: int, **options: Callable[[Value], Value]) -> Run:
    program = Program()
    x, label = program.input("x", "float32", ("batch", CLASSES)), program.input("label", "int64", ("batch",))
    scale = program.parameter("scale", (), lambda block, type: ops.full.on(block)(shape=(), value=1.0))
    value = loss(x * scale, label)
    program.minimize(value, sgd(0.1), **{name: make(label) for name, make in options.items()})
    program.metrics(again=value * 1.0)
    program.entry("other", over="mean", value=value)
    return Run(program.compile(batch=batch).desc)


def class_weights(x: Value) -> Value:
    return ops.stack(*(x.block.constant("float32", float(w)) for w in CLASS_WEIGHTS))


LOSSES: dict[str, tuple[Callable[[Value, Value], Value], float]] = {
    "cross_entropy": (lambda x, y: ops.cross_entropy(x, y), expected(np.ones(3))),
    "nll": (lambda x, y: ops.nll(ops.log_softmax(x), y), expected(np.ones(3))),
    "weighted": (lambda x, y: ops.cross_entropy(x, y, class_weights(x)), expected(CLASS_WEIGHTS)),
    "with another term": (lambda x, y: ops.cross_entropy(x, y) * 2.0 + 0.5, 2 * expected(np.ones(3)) + 0.5),
}


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_over_all_rows_is_that_of_the_labels_that_count(name: str, batch: int):
    loss, wanted = LOSSES[name]
    run = run_of(loss, batch)
    rows = {"x": X, "label": LABELS}
    found = run.evaluate(rows)
    assert found["loss"] == pytest.approx(wanted, rel=1e-5)
    assert found["again"] == pytest.approx(wanted, rel=1e-5)
    assert run.evaluate(rows, entry="other")["value"] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_where_no_label_counts_the_loss_and_the_gradient_are_zero(batch: int):
    run = run_of(lambda x, y: ops.cross_entropy(x, y), batch)
    none = {"x": X[:2], "label": np.array([-100, -100])}
    assert run.evaluate(none)["loss"] == 0
    before = run.state["scale"]
    assert run.step({name: array[:batch] for name, array in none.items()})["loss"] == 0
    assert run.state["scale"] == before


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
def test_a_mask_of_your_own_says_what_counts(batch: int):
    def mask(label: Value) -> Value:
        return ops.cast(label >= 0, dtype="float32")

    def loss(x: Value, label: Value) -> Value:
        chosen = mask(label)
        return ops.sum(ops.sum(x * x, axis=(1,)) * chosen) / ops.maximum(ops.sum(chosen), 1.0)

    run = run_of(loss, batch, weight=lambda label: ops.sum(mask(label)))
    wanted = (X.astype(np.float64) ** 2).sum(axis=1)[LABELS >= 0].mean()
    assert run.evaluate({"x": X, "label": LABELS})["loss"] == pytest.approx(wanted, rel=1e-5)


def test_a_weight_is_a_scalar():
    with pytest.raises(OpError) as error:
        run_of(lambda x, y: ops.sum(x), 2, weight=lambda label: label)
    assert str(error.value).endswith("minimize: weight=%label: int64[batch] is not a scalar; take ops.sum(weight)")


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
def test_a_weighted_mean_of_elements_is_a_metric(batch: int):
    program = Program()
    x, w = program.input("x", "float32", ("batch", CLASSES)), program.input("w", "float32", ("batch", CLASSES))
    program.entry("evaluate", mean=metrics.mean(x, w))
    weights = np.maximum(RNG.normal(size=X.shape), 0).astype(np.float32)
    found = Run(program.compile(batch=batch).desc).evaluate({"x": X, "w": weights})["mean"]
    assert found == pytest.approx(np.average(X.astype(np.float64), weights=weights), rel=1e-6)
