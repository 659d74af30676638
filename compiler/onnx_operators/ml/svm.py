"""Support vector machines: the scores of pairs of classes, their votes, and probabilities coupled from pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.onnx_operators.ml.classes import chosen, ended, labels
from registry import Value, ops

MIN_ITERATIONS: Final = 100
"""Number of iterations that couple the probabilities of pairs; the number of classes if that is larger."""

TOLERANCE: Final = 0.005
"""Error at which the iterations end, divided by the number of classes. Wu, Lin and Weng, 2004."""

LEAST_PROBABILITY: Final = 1e-7
"""Smallest probability of a pair."""


def _products(node: Node, vectors: Any) -> Value:
    """Return the kernel of rows and support vectors, float64 [rows, vectors]."""
    x = cast(node.value(0), "float64")
    kind = node.attribute("kernel_type", "LINEAR")
    gamma, shift, degree = (*node.attribute("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    dots = ops.matmul(x, node.new(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return dots
    if kind == "POLY":
        return ops.pow(dots * gamma + shift, node.new(degree, "float64"))
    if kind == "SIGMOID":
        return ops.tanh(dots * gamma + shift)
    if kind != "RBF":
        raise CompileError(f"has kernel_type={kind!r}, and prograd has LINEAR, POLY, RBF and SIGMOID")
    sizes = ops.sum(ops.square(x), axis=(1,), keepdims=True) + node.new(np.square(vectors).sum(1))
    return ops.exp((sizes - dots * 2.0) * -gamma)


def _wide(node: Node, name: str, default: Any = ()) -> Any:
    return np.asarray(node.attribute(name, default), np.float64)


def _regressor(node: Node) -> Arranged:
    count, coefficients = int(node.attribute("n_supports", 0)), _wide(node, "coefficients")
    if count:
        vectors = _wide(node, "support_vectors").reshape(count, -1)
        sums = ops.matmul(_products(node, vectors), node.new(coefficients.reshape(count, 1)))
    else:
        sums = ops.matmul(cast(node.value(0), "float64"), node.new(coefficients.reshape(-1, 1)))
    y = cast(sums + node.new(_wide(node, "rho", [0.0])[:1]), "float32")
    if node.attribute("one_class", 0):
        return arranged(cast(y > 0.0, "float32") * 2.0 - 1.0)
    return arranged(ended(y, node.attribute("post_transform", "NONE")))


def _classifier(node: Node) -> tuple[Arranged, Arranged]:
    """Return the class, and a score of each class, or of each pair of classes."""
    names, sizes = labels(node), node.attribute("vectors_per_class", [])
    coefficients, rho = _wide(node, "coefficients"), _wide(node, "rho")
    has_probabilities = False
    if sum(sizes):
        pairs = _pair_scores(node, coefficients.reshape(-1, sum(sizes)), sizes, rho)
        winner, scores = ops.argmax(_votes(node, pairs, len(names)), axis=1), pairs
        has_probabilities = bool(node.attribute("prob_a"))
        if has_probabilities:
            scores = _coupled(node, pairs, len(names))
    else:
        weights = coefficients.reshape(len(names), -1)
        scores = ops.matmul(cast(node.value(0), "float64"), node.new(np.ascontiguousarray(weights.T)))
        scores = scores + node.new(rho[:1])
        winner = ops.argmax(scores, axis=1)
        if len(rho) == 1 and len(names) == 2 and coefficients.min() >= 0:
            winner = ops.where(ops.max(scores, axis=(1,)) >= 0.5, 1, winner)
    end = node.attribute("post_transform", "NONE")
    if scores.shape[1] == 1 and end != "PROBIT":
        scores = ops.concat(-scores, scores, axis=1)
    return arranged(chosen(node, names, winner)), arranged(ended(cast(scores, "float32"), end))


def _pair_scores(node: Node, coefficients: Any, sizes: list[int], rho: Any) -> Value:
    """Return the score of each pair of classes; a positive score is for the first of the two."""
    begins = np.cumsum([0, *sizes])
    vectors = _wide(node, "support_vectors").reshape(int(begins[-1]), -1)
    pairs = list(combinations(range(len(sizes)), 2))
    weights = np.zeros((int(begins[-1]), len(pairs)))
    for number, (i, j) in enumerate(pairs):
        own, other = (slice(begins[k], begins[k + 1]) for k in (i, j))
        weights[own, number] = coefficients[j - 1, own]
        weights[other, number] = coefficients[i, other]
    return ops.matmul(_products(node, vectors), node.new(weights)) + node.new(rho[: len(pairs)])


def _sides(count: int) -> tuple[Any, Any]:
    """Return for each pair a row with 1 at its first class, and a row with 1 at its second."""
    first, second = zip(*combinations(range(count), 2), strict=True)
    return np.eye(count)[list(first)], np.eye(count)[list(second)]


def _votes(node: Node, pairs: Value, count: int) -> Value:
    first, second = _sides(count)
    wins = cast(pairs > 0.0, "float64")
    return ops.matmul(wins, node.new(first)) + ops.matmul(1.0 - wins, node.new(second))


def _coupled(node: Node, pairs: Value, count: int) -> Value:
    """Return the probabilities of classes from those of pairs, by the second method of Wu, Lin and Weng."""
    a, b = _wide(node, "prob_a"), _wide(node, "prob_b")
    p = ops.clip(ops.sigmoid(-(pairs * node.new(a) + node.new(b))), min=LEAST_PROBABILITY, max=1 - LEAST_PROBABILITY)
    first, second = (s.reshape(-1, count) for s in _sides(count))
    upper = (first[:, :, None] * second[:, None, :]).reshape(-1, count * count)
    lower = (second[:, :, None] * first[:, None, :]).reshape(-1, count * count)
    flat = ops.matmul(p, node.new(upper)) + ops.matmul(1.0 - p, node.new(lower))
    r = ops.reshape(flat, shape=(-1, count, count))
    own = node.new(np.eye(count))
    squares = ops.sum(ops.square(r), axis=(1,), keepdims=True)
    q = own * squares - r * ops.transpose(r, axis=(0, 2, 1))
    start = ops.sum(r, axis=(2,)) * 0.0 + 1.0 / count

    def step(probabilities: Value, _: object) -> tuple[Value, None]:
        return _improved(node, q, probabilities, count), None

    return ops.scan(step, start, length=max(MIN_ITERATIONS, count))[0]


def _improved(node: Node, q: Value, before: Value, count: int) -> Value:
    """Return probabilities after a step for each class; rows whose error is small stay."""
    p, sums = before, ops.sum(q * ops.reshape(before, shape=(-1, 1, count)), axis=(2,))
    whole = ops.sum(p * sums, axis=(1,), keepdims=True)
    goes = ops.max(ops.abs(sums - whole), axis=(1,), keepdims=True) >= TOLERANCE / count
    for t in range(count):
        row, one = q[:, t, :], np.eye(count)[t]
        pivot, at = row[:, t : t + 1], sums[:, t : t + 1]
        change = (whole - at) / pivot
        more = change + 1.0
        whole = (whole + change * (change * pivot + at * 2.0)) / (more * more)
        p = (p + change * node.new(one)) / more
        sums = (sums + change * row) / more
    return ops.where(goes, p, before)


IMPORTS: Final[dict[str, Mapping]] = {"ai.onnx.ml.SVMRegressor": _regressor, "ai.onnx.ml.SVMClassifier": _classifier}
