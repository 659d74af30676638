"""Losses."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - as everywhere

from fuzz.torch_ops.table import TORCH, spelled


def reduced(loss, reduction):
    return {"none": lambda: loss, "mean": loss.mean, "sum": loss.sum}[reduction]()


@spelled("softmax_cross_entropy")
def softmax_cross_entropy(logits, labels, *, reduction="mean"):
    loss = -torch.gather(torch.log_softmax(logits, -1), -1, labels.long().unsqueeze(-1)).squeeze(-1)
    return reduced(loss, reduction)


@spelled("accuracy")
def accuracy(logits, labels):
    return (torch.argmax(logits, -1) == labels).to(torch.float32).mean()


@spelled("cross_entropy")
def cross_entropy(logits, target, weights=None, *, smoothing=0.0, ignored=-100, reduction="mean"):
    logarithms = torch.log_softmax(logits, -1)
    if target.is_floating_point():
        target = target * (1 - smoothing) + smoothing / logits.shape[-1]
        terms = logarithms * target * (1.0 if weights is None else weights)
        return reduced(-terms.sum(-1), reduction)
    return of_labels(logarithms, target, weights, smoothing, ignored, reduction)


@spelled("linear_cross_entropy")
def linear_cross_entropy(x, w, labels, *, parts=8, ignored=-100, reduction="mean"):
    return of_labels(torch.log_softmax(x @ w.T, -1), labels, None, 0.0, ignored, reduction)


@spelled("nll")
def nll(logarithms, labels, weights=None, *, ignored=-100, reduction="mean"):
    return of_labels(logarithms, labels, weights, 0.0, ignored, reduction)


def of_labels(logarithms, labels, weights, smoothing, ignored, reduction):
    """PyTorch's own has no gradient for weights; with no row that counts prograd's mean is 0."""
    weights = torch.ones(logarithms.shape[-1], dtype=logarithms.dtype) if weights is None else weights
    counts = labels != ignored
    label = torch.where(counts, labels, torch.zeros_like(labels)).long()
    scaled = -logarithms * weights
    loss = (1 - smoothing) * torch.gather(scaled, -1, label.unsqueeze(-1)).squeeze(-1)
    loss = (loss + scaled.sum(-1) * smoothing / logarithms.shape[-1]) * counts
    if reduction != "mean":
        return reduced(loss, reduction)
    return loss.sum() / (weights[label] * counts).sum() if bool(counts.any()) else loss.sum() * 0.0


@spelled("binary_cross_entropy")
def binary_cross_entropy(probability, target, weights=None, *, reduction="mean"):
    loss = -(target * torch.log(probability) + (1 - target) * torch.log(1 - probability))
    return reduced(loss if weights is None else loss * weights, reduction)


@spelled("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(x, target, weights=None, positive=None, *, reduction="mean"):
    positive = 1.0 if positive is None else positive
    loss = -(positive * target * F.logsigmoid(x) + (1 - target) * F.logsigmoid(-x))
    return reduced(loss if weights is None else loss * weights, reduction)


@spelled("sigmoid_cross_entropy")
def sigmoid_cross_entropy(x, target, positive=None):
    return -((1.0 if positive is None else positive) * target * F.logsigmoid(x) + (1 - target) * F.logsigmoid(-x))


@spelled("kl_divergence")
def kl_divergence(logarithms, target, *, logarithmic=False, reduction="mean"):
    loss = torch.exp(target) * (target - logarithms) if logarithmic else target * (torch.log(target) - logarithms)
    return loss.sum() / loss.shape[0] if reduction == "batch_mean" else reduced(loss, reduction)


TORCH["squared_error"] = lambda a, b, *, reduction="mean": reduced((a - b) ** 2, reduction)
TORCH["absolute_error"] = lambda a, b, *, reduction="mean": reduced((a - b).abs(), reduction)


@spelled("huber")
def huber(a, b, *, delta=1.0, reduction="mean"):
    off = (a - b).abs()
    return reduced(torch.where(off <= delta, 0.5 * (a - b) ** 2, delta * (off - 0.5 * delta)), reduction)


@spelled("smooth_l1")
def smooth_l1(a, b, *, beta=1.0, reduction="mean"):
    off = (a - b).abs()
    if not beta:
        return reduced(off, reduction)
    return reduced(torch.where(off < beta, 0.5 * (a - b) ** 2 / beta, off - 0.5 * beta), reduction)


def positive_part(x):
    return torch.clamp(x, min=0)


@spelled("hinge")
def hinge(x, target, *, margin=1.0, reduction="mean"):
    return reduced(positive_part(margin - x * target), reduction)


@spelled("hinge_embedding")
def hinge_embedding(x, target, *, margin=1.0, reduction="mean"):
    return reduced(torch.where(target > 0, x, positive_part(margin - x)), reduction)


@spelled("cosine_embedding")
def cosine_embedding(a, b, target, *, margin=0.0, reduction="mean"):
    lengths = [(x * x).sum(-1) + 1e-12 for x in (a, b)]
    cosine = (a * b).sum(-1) / torch.sqrt(lengths[0] * lengths[1])
    return reduced(torch.where(target > 0, 1 - cosine, positive_part(cosine - margin)), reduction)


@spelled("triplet")
def triplet(anchor, positive, negative, *, margin=1.0, ord=2.0, swap=False, reduction="mean"):
    def distance(a, b):
        return torch.linalg.vector_norm(a - b + 1e-6, ord, -1)

    far = distance(anchor, negative)
    far = torch.minimum(far, distance(positive, negative)) if swap else far
    return reduced(positive_part(distance(anchor, positive) - far + margin), reduction)
