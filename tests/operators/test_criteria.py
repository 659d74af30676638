"""Losses against NumPy by their definitions, and their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient

from registry import OpError, Value, ops

RNG = np.random.default_rng(4)
X, Y, Z = (RNG.normal(size=(4, 3)) for _ in range(3))
P, Q = (RNG.uniform(0.1, 0.9, size=(4, 3)) for _ in range(2))
SIDE = np.array([[1.0, -1, 1], [-1, -1, 1], [1, 1, -1], [-1, 1, 1]])
LABELS = np.array([2, 0, -100, 1])
WEIGHTS = np.array([0.5, 2.0, 1.5])
SHARES = Q / Q.sum(1, keepdims=True)
LOG = X - np.log(np.exp(X).sum(1, keepdims=True))


def of_labels(smoothing: float, w: np.ndarray) -> tuple[np.ndarray, float]:
    """The loss of each row, one class at a time, and the weight of all."""
    losses, total = np.zeros(4), 0.0
    for row, label in enumerate(LABELS):
        if label >= 0:
            target = [smoothing / 3 + (1 - smoothing) * (k == label) for k in range(3)]
            losses[row] = -sum(w[k] * target[k] * LOG[row, k] for k in range(3))
            total += w[label]
    return losses, total


def huber(d: float, delta: float) -> float:
    return d * d / 2 if abs(d) <= delta else delta * (abs(d) - delta / 2)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def apart(a: np.ndarray, b: np.ndarray, ord: float = 2) -> np.ndarray:
    return (np.abs(a - b + 1e-6) ** ord).sum(1) ** (1 / ord)


ONES = np.ones(3)
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...], np.ndarray]] = {
    "cross_entropy of distributions": (ops.cross_entropy, (X, SHARES), -(SHARES * LOG).sum(1)),
    "cross_entropy of smooth distributions": (
        lambda x, t, w, **r: ops.cross_entropy(x, t, w, smoothing=0.3, **r),
        (X, SHARES, WEIGHTS),
        -(WEIGHTS * (SHARES * 0.7 + 0.1) * LOG).sum(1),
    ),
    "binary_cross_entropy": (ops.binary_cross_entropy, (P, Q), -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    "binary_cross_entropy, weighted": (
        ops.binary_cross_entropy,
        (P, Q, WEIGHTS),
        -WEIGHTS * (Q * np.log(P) + (1 - Q) * np.log(1 - P)),
    ),
    "binary_cross_entropy_with_logits": (
        ops.binary_cross_entropy_with_logits,
        (X, Q),
        Q * np.log1p(np.exp(-X)) + (1 - Q) * np.log1p(np.exp(X)),
    ),
    "binary_cross_entropy_with_logits, weighted": (
        ops.binary_cross_entropy_with_logits,
        (X, Q, P, WEIGHTS),
        P * (WEIGHTS * Q * np.log1p(np.exp(-X)) + (1 - Q) * np.log1p(np.exp(X))),
    ),
    "kl_divergence": (ops.kl_divergence, (LOG, SHARES), SHARES * (np.log(SHARES) - LOG)),
    "kl_divergence of logarithms": (
        lambda x, t, **r: ops.kl_divergence(x, t, logarithmic=True, **r),
        (LOG, Y),
        np.exp(Y) * (Y - LOG),
    ),
    "absolute_error": (ops.absolute_error, (X, Y), np.abs(X - Y)),
    "huber": (lambda x, t, **r: ops.huber(x, t, delta=0.7, **r), (X, Y), np.vectorize(huber)(X - Y, 0.7)),
    "smooth_l1": (lambda x, t, **r: ops.smooth_l1(x, t, beta=0.7, **r), (X, Y), np.vectorize(huber)(X - Y, 0.7) / 0.7),
    "smooth_l1 of 0": (lambda x, t, **r: ops.smooth_l1(x, t, beta=0.0, **r), (X, Y), np.abs(X - Y)),
    "hinge": (ops.hinge, (X, SIDE), relu(1 - X * SIDE)),
    "hinge_embedding": (
        lambda x, t, **r: ops.hinge_embedding(x, t, margin=0.6, **r),
        (P, SIDE),
        np.where(SIDE > 0, P, relu(0.6 - P)),
    ),
    "cosine_embedding": (
        lambda a, b, t, **r: ops.cosine_embedding(a, b, t, margin=-0.9, **r),
        (X, Y, SIDE[:, 0]),
        np.where(SIDE[:, 0] > 0, 1 - cosine(X, Y), relu(cosine(X, Y) + 0.9)),
    ),
    "triplet": (ops.triplet, (X, Y, Z), relu(apart(X, Y) - apart(X, Z) + 1)),
    "triplet, swapped": (
        lambda a, p, n, **r: ops.triplet(a, p, n, ord=3.0, swap=True, margin=2.0, **r),
        (X, Y, Z),
        relu(apart(X, Y, 3) - np.minimum(apart(X, Z, 3), apart(Y, Z, 3)) + 2),
    ),
}


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray):
    """Along a random direction, for every operand of floats that a gradient flows into."""
    for i, dx in enumerate(gradient(function, *arrays)):
        if dx is None:
            continue
        v = np.random.default_rng(i).normal(size=dx.shape) * 1e-6
        up, down = ([*arrays[:i], arrays[i] + s * v, *arrays[i + 1 :]] for s in (1, -1))
        difference = np.sum(evaluate(function, *up)) - np.sum(evaluate(function, *down))
        assert np.sum(dx * v) * 2 == pytest.approx(difference, rel=1e-5, abs=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_its_definition_for_every_reduction_and_so_is_its_gradient(name: str):
    loss, arrays, expected = CASES[name]
    for reduction, wanted in (("none", expected), ("mean", expected.mean()), ("sum", expected.sum())):

        def reduced(*values: Any, reduction: str = reduction) -> Any:
            return loss(*values, reduction=reduction)

        np.testing.assert_allclose(evaluate(reduced, *arrays), wanted, rtol=1e-9, atol=1e-12)
        check_gradient(reduced, *arrays)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_labels_may_be_smoothed_weighted_and_ignored_and_the_mean_is_weighted(smoothing: float, weights: Any):
    given = (X, LABELS) if weights is None else (X, LABELS, weights)
    losses, total = of_labels(smoothing, ONES if weights is None else weights)
    for reduction, wanted in (("none", losses), ("mean", losses.sum() / total), ("sum", losses.sum())):

        def loss(*values: Any, reduction: str = reduction) -> Any:
            return ops.cross_entropy(*values, smoothing=smoothing, reduction=reduction)

        np.testing.assert_allclose(evaluate(loss, *given), wanted, rtol=1e-12)
        check_gradient(loss, *given)
    if not smoothing:
        found = evaluate(ops.nll, LOG, *given[1:])
        assert found == pytest.approx(losses.sum() / total, rel=1e-12)


def test_where_a_margin_is_just_met_the_gradient_is_that_of_the_term_as_in_pytorch():
    one, side = np.ones(1), -np.ones(1)
    assert gradient(lambda x, y: ops.hinge(x, y), one, one)[0].tolist() == [-1]
    assert gradient(lambda x, y: ops.hinge_embedding(x, y), one, side)[0].tolist() == [-1]
    row, other = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert gradient(lambda a, b, y: ops.cosine_embedding(a, b, y), row, other, side)[0].round(9).tolist() == [[0, 1]]
    anchor, far = np.zeros((1, 1)), np.full((1, 1), 3.0)
    grads = gradient(lambda a, p, n: ops.triplet(a, p, n, margin=0.0), anchor, far, far)
    assert [grad.tolist() for grad in grads] == [[[0]], [[1]], [[-1]]]


def test_an_operand_that_may_be_left_out_may_be_given_as_none():
    logits, labels = np.array([[0.3, -1.0], [2.0, 0.5]]), np.array([0, 1])
    left_out = evaluate(ops.cross_entropy, logits, labels)
    assert evaluate(lambda x, i: ops.cross_entropy(x, i, None), logits, labels) == left_out
    _, [x, i] = block_of((logits, labels[:1]))
    with pytest.raises(
        OpError, match=r"cross_entropy\(logits: float64\[2, 2\], target: int64\[1\]\): labels have the shape"
    ):
        ops.cross_entropy(x, i, None)


def test_cross_entropy_of_labels_is_that_of_the_operator():
    labels = np.array([0, 2, 1, 1])
    wanted = evaluate(ops.softmax_cross_entropy, X, labels)
    assert evaluate(ops.cross_entropy, X, labels) == pytest.approx(wanted, rel=1e-14)


def test_classes_that_are_ruled_out_do_not_spoil_the_loss():
    logits = np.array([[0.0, -np.inf, 1.0]])
    wanted = np.log(1 + np.exp(1.0))
    assert evaluate(ops.cross_entropy, logits, np.array([0])) == pytest.approx(wanted)
    assert evaluate(ops.cross_entropy, logits, np.array([[1.0, 0.0, 0.0]])) == pytest.approx(wanted)


def test_a_certain_probability_costs_at_most_100_and_has_a_finite_gradient():
    p, t = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    for dtype in ("float32", "float64"):
        arrays = p.astype(dtype), t.astype(dtype)
        losses = evaluate(lambda p, t: ops.binary_cross_entropy(p, t, reduction="none"), *arrays)
        np.testing.assert_allclose(losses, [100, 100, 0, 0], rtol=1e-3)
        assert np.isfinite(gradient(ops.binary_cross_entropy, *arrays)[0]).all()


def test_large_logits_have_finite_losses():
    x, t = np.array([1e4, -1e4, 1e4]), np.array([1.0, 0.0, 0.0])
    losses = evaluate(lambda x, t: ops.binary_cross_entropy_with_logits(x, t, reduction="none"), x, t)
    assert losses.tolist() == [0, 0, 1e4]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weight", [None, 3.0])
def test_infinite_logits_cost_nothing_where_they_are_right_and_everything_where_not(dtype: str, weight: float | None):
    x = np.array([np.inf, np.inf, np.inf, -np.inf, -np.inf, -np.inf, 0.0, np.nan], dtype)
    t = np.array([0.0, 1.0, 0.5, 0.0, 1.0, 0.5, 1.0, 0.0], dtype)
    more = [] if weight is None else [np.array(weight, dtype)]
    scale = weight or 1.0

    def loss(x: Value, t: Value, *weights: Value) -> Value:
        return ops.binary_cross_entropy_with_logits(x, t, None, *weights, reduction="none")

    wanted = [np.inf, 0, np.inf, 0, np.inf, np.inf, scale * np.log(2), np.nan]
    np.testing.assert_allclose(evaluate(loss, x, t, *more), wanted, rtol=1e-6)
    dx, dt, *_ = gradient(loss, x, t, *more)
    slopes = [1, 0, 0.5, 0, -scale, -0.5 * scale, -0.5 * scale, np.nan]
    np.testing.assert_allclose(dx, slopes, rtol=1e-6)
    np.testing.assert_allclose(dt, [*[-np.inf] * 3, *[np.inf] * 3, (scale - 1) * np.log(2), np.nan], rtol=1e-6)


def test_small_losses_of_logits_keep_their_digits():
    x, t = np.array([50.0, -50.0, 700.0]), np.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(evaluate(ops.sigmoid_cross_entropy, x, t), np.exp(-abs(x)), rtol=1e-12)


def test_divergence_is_zero_where_the_target_is_whatever_was_predicted():
    logarithms, target = np.array([-np.inf, -np.inf, 0.0]), np.array([0.0, 0.5, 1.0])
    for logarithmic in (False, True):
        with np.errstate(divide="ignore"):
            given = np.log(target) if logarithmic else target

        def divergence(x: Value, t: Value, logarithmic: bool = logarithmic) -> Value:
            return ops.kl_divergence(x, t, logarithmic=logarithmic, reduction="none")

        assert evaluate(divergence, logarithms, given).tolist() == [0, np.inf, 0]
        np.testing.assert_allclose(gradient(divergence, logarithms, given)[0], -target)


def test_divergence_is_zero_where_the_target_is_and_has_a_mean_by_rows():
    target = np.array([[0.0, 1.0], [0.5, 0.5]])
    logarithms = np.log(np.array([[0.25, 0.75], [0.5, 0.5]]))
    found = evaluate(lambda x, t: ops.kl_divergence(x, t, reduction="batch_mean"), logarithms, target)
    assert found == pytest.approx(-np.log(0.75) / 2)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_loss_of_parts_of_the_logits_is_that_of_all(reduction: str):
    x, w, labels = RNG.normal(size=(2, 7, 5)), RNG.normal(size=(6, 5)), RNG.integers(0, 6, (2, 7))
    labels[1, 2:5] = -100

    def whole(x: Value, w: Value, k: Value) -> Value:
        return ops.cross_entropy(ops.matmul(x, w, transpose_b=True), k, reduction=reduction)

    for parts in (1, 3, 8):

        def divided(x: Value, w: Value, k: Value, parts: int = parts) -> Value:
            return ops.linear_cross_entropy(x, w, k, parts=parts, reduction=reduction)

        np.testing.assert_allclose(evaluate(divided, x, w, labels), evaluate(whole, x, w, labels), rtol=1e-12)
        dx, dw = gradient(divided, x, w, labels)[:2]
        wanted_dx, wanted_dw = gradient(whole, x, w, labels)[:2]
        np.testing.assert_allclose(dx, wanted_dx, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(dw, wanted_dw, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda x, y, k: ops.huber(x, k),
            "huber(prediction: float64[4, 3], target: int64[4]): the types float64[4, 3] and int64[4] differ",
        ),
        (
            lambda x, y, k: ops.huber(x, y, reduction="all"),
            "huber(prediction: float64[4, 3], target: float64[4, 3]): reduction='all' is not one of none, mean, sum",
        ),
        (
            lambda x, y, k: ops.nll(x[0, 0], k[0]),
            "nll(logarithms: float64[], labels: int64[]): the logarithms have no axis of classes",
        ),
        (
            lambda x, y, k: ops.cross_entropy(x, y[:3]),
            "cross_entropy(logits: float64[4, 3], target: float64[3, 3]): labels are int32 or int64, not float64",
        ),
        (
            lambda x, y, k: ops.linear_cross_entropy(x, y, k, parts=0),
            "linear_cross_entropy(x: float64[4, 3], w: float64[4, 3], labels: int64[4]): parts=0 is not positive",
        ),
        (
            lambda x, y, k: ops.linear_cross_entropy(x[0], y, k),
            "linear_cross_entropy(x: float64[3], w: float64[4, 3], labels: int64[4]): "
            "x is float64[3], and not [..., n, c]",
        ),
    ],
)
def test_a_loss_of_what_does_not_fit_is_an_error(call: Callable[..., object], sentence: str):
    _, values = block_of((X, Y, LABELS))
    assert told(OpError, lambda: call(*values)) == sentence
