"""Losses of classes, probabilities, distances and margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler import Value, ops
from peers.spelling import Call, peer, unless


def _classes_last(x: Value) -> Value:
    return ops.transpose(x, axis=(0, *range(2, x.rank), 1)) if x.rank > 2 else x


@peer("nn.functional.cross_entropy", "cross_entropy")
def cross_entropy(
    x: Value,
    target: Value,
    weight: Value | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    **deprecated: Any,
) -> Value:
    if target.dtype == x.dtype:
        target = _classes_last(target)
    how = dict(smoothing=label_smoothing, ignored=ignore_index, reduction=reduction)
    return ops.cross_entropy(_classes_last(x), target, weight, **how)


def _label_inputs(rng: np.random.Generator) -> list[Call]:
    x, labels = rng.normal(size=(4, 3)), rng.integers(0, 3, 4)
    return [([x, labels], dict(reduction=reduction)) for reduction in ("mean", "sum", "none")]


@peer("nn.functional.cross_entropy", "softmax_cross_entropy", inputs=_label_inputs)
def softmax_cross_entropy(x: Value, target: Value, reduction: str = "mean") -> Value:
    return ops.softmax_cross_entropy(x, target, reduction=reduction)


def _linear_inputs(rng: np.random.Generator) -> list[Call]:
    x, w, labels = rng.normal(size=(9, 3)), rng.normal(size=(5, 3)), rng.integers(0, 5, 9)
    return [([x, w, labels], dict(reduction=reduction)) for reduction in ("mean", "sum", "none")]


@peer("nn.functional.linear_cross_entropy", "linear_cross_entropy", inputs=_linear_inputs)
def linear_cross_entropy(x: Value, w: Value, target: Value, reduction: str = "mean") -> Value:
    return ops.linear_cross_entropy(x, w, target, parts=4, reduction=reduction)


@peer("nn.functional.nll_loss", "nll")
def nll_loss(
    x: Value, target: Value, weight: Value | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Value:
    return ops.nll(_classes_last(x), target, weight, ignored=ignore_index, reduction=reduction)


@peer("nn.functional.binary_cross_entropy", "binary_cross_entropy")
def binary_cross_entropy(x: Value, target: Value, weight: Value | None = None, reduction: str = "mean") -> Value:
    return ops.binary_cross_entropy(x, target, weight, reduction=reduction)


@peer("nn.functional.binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits", "sigmoid_cross_entropy")
def binary_cross_entropy_with_logits(
    x: Value, target: Value, weight: Value | None = None, reduction: str = "mean", pos_weight: Value | None = None
) -> Value:
    return ops.binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction=reduction)


@peer("nn.functional.kl_div", "kl_divergence")
def kl_div(x: Value, target: Value, reduction: str = "mean", log_target: bool = False) -> Value:
    how = "batch_mean" if reduction == "batchmean" else reduction
    return ops.kl_divergence(x, target, logarithmic=log_target, reduction=how)


@peer("nn.functional.l1_loss", "absolute_error")
def l1_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    return ops.absolute_error(x, target, reduction=reduction)


@peer("nn.functional.mse_loss", "squared_error")
def mse_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    return ops.squared_error(x, target, reduction=reduction)


@peer("nn.functional.huber_loss", "huber")
def huber_loss(x: Value, target: Value, reduction: str = "mean", delta: float = 1.0) -> Value:
    return ops.huber(x, target, delta=float(delta), reduction=reduction)


@peer("nn.functional.smooth_l1_loss", "smooth_l1")
def smooth_l1_loss(x: Value, target: Value, reduction: str = "mean", beta: float = 1.0) -> Value:
    return ops.smooth_l1(x, target, beta=float(beta), reduction=reduction)


@peer("nn.functional.hinge_embedding_loss", "hinge_embedding")
def hinge_embedding_loss(x: Value, target: Value, margin: float = 1.0, reduction: str = "mean") -> Value:
    unless(x.rank == 0, "a target that is neither 1 nor -1")
    return ops.hinge_embedding(x, target, margin=margin, reduction=reduction)


@peer("nn.functional.cosine_embedding_loss", "cosine_embedding")
def cosine_embedding_loss(a: Value, b: Value, target: Value, margin: float = 0.0, reduction: str = "mean") -> Value:
    return ops.cosine_embedding(a, b, target, margin=margin, reduction=reduction)


@peer("nn.functional.triplet_margin_loss", "triplet")
def triplet_margin_loss(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    return ops.triplet(anchor, positive, negative, margin=margin, ord=float(p), swap=swap, reduction=reduction)


@peer("nn.functional.margin_ranking_loss", "hinge")
def margin_ranking_loss(a: Value, b: Value, target: Value, margin: float = 0.0, reduction: str = "mean") -> Value:
    """The hinge loss of the difference."""
    unless(a.shape != target.shape, "a target that is broadcast")
    return ops.hinge(a - b, target, margin=margin, reduction=reduction)


@peer("nn.functional.soft_margin_loss", "softplus")
def soft_margin_loss(x: Value, target: Value, reduction: str = "mean") -> Value:
    loss = ops.softplus(-target * x)
    return loss if reduction == "none" else (ops.mean(loss) if reduction == "mean" else ops.sum(loss))


@peer(
    "nn.functional.ctc_loss",
    "ctc_loss",
    "ctc",
    "ctc_gradient",
    orders=1,
    note="PyTorch's gradient is that of logits, so a log_softmax is added; no second gradient",
)
def ctc_loss(
    x: Value,
    labels: Value,
    input_lengths: Value | Sequence[int],
    label_lengths: Value | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Value:
    unless(not isinstance(input_lengths, Value), "lengths as numbers")
    logarithms = ops.transpose(ops.log_softmax(x), axis=(1, 0, 2))
    how = dict(blank=blank, zero_infinity=zero_infinity, reduction=reduction)
    return ops.ctc_loss(logarithms, labels, input_lengths, label_lengths, **how)
