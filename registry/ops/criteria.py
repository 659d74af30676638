"""Losses composed of other operators: of classes, probabilities, distances and margins.

Formulas and reductions are PyTorch's; `reduction` is "none", "mean" or "sum". A gradient also flows into float targets.
"""

from __future__ import annotations

from math import inf

from prograd_proto.result_types.shapes import require_float, show_shape, size_known
from registry.arrays import weights_of
from registry.errors import require
from registry.ops.copy import cast
from registry.ops.ctc import ctc
from registry.ops.index import gather, one_hot
from registry.ops.linalg import matmul
from registry.ops.loss import sigmoid_cross_entropy, softmax_cross_entropy
from registry.ops.norm import log_softmax
from registry.ops.pointwise import abs, clip, equal, exp, log, maximum, minimum, not_equal, sqrt, square, where
from registry.ops.reduce import mean, sum
from registry.ops.shape import concat, split
from registry.ops.statistics import norm
from registry.spelled import spelled
from registry.value import Value, Weights


@spelled
def cross_entropy(
    logits: Value,
    target: Value,
    weights: Weights | None = None,
    *,
    smoothing: float = 0.0,
    ignored: int = -100,
    reduction: str = "mean",
) -> Value:
    """Return minus log softmax of the logits over the last axis, at a label or weighted by a distribution.

    A target of the type of the logits holds distributions; labels are int32 or int64. `weights` are those of the
    classes, as a tensor, a list or an array. `smoothing` spreads that share of the target evenly over all classes
    (Szegedy et al., 2016). Rows with the label `ignored` do not count. The mean over labels is weighted by their
    classes' weights, and the mean over distributions counts rows. If no row counts, the mean and its gradient are 0.
    """
    weights = weights_of(weights, logits)
    require(0 <= smoothing <= 1, f"smoothing={smoothing} is not in [0, 1]")
    if target.type != logits.type and not smoothing:
        return _of_scores(logits, target, weights, ignored, reduction)
    logarithms = log_softmax(logits)
    if target.type != logits.type:
        return _of_labels(logarithms, target, weights, smoothing, ignored, reduction)
    classes = size_known(logits.shape[-1], "the number of classes")
    share = target * (1.0 - smoothing) + smoothing / classes if smoothing else target
    share = share if weights is None else share * weights
    # An impossible class may have the logarithm -inf, and 0 * -inf would be NaN.
    terms = where(equal(share, 0.0), 0.0, logarithms) * share
    return _reduced(-sum(terms, axis=(-1,)), reduction)


@spelled
def linear_cross_entropy(
    x: Value, w: Value, labels: Value, *, parts: int = 8, ignored: int = -100, reduction: str = "mean"
) -> Value:
    """Return `cross_entropy` of the logits x @ w.T for x [..., n, c], w [classes, c] and labels [..., n].

    The logits of one of at most `parts` ranges of the n positions are in memory at a time, which matters where there
    are many classes, as codes of a language model. On the native engine the loss and the gradient of x have the bits of
    those by all logits at once; the gradient of w is a sum over the parts. n is known when the program is built.
    """
    require(x.rank >= 2, f"x is {x.type}, and not [..., n, c]")
    n = size_known(x.shape[-2], "the number of positions")
    require(parts >= 1, f"parts={parts} is not positive")
    parts = max(min(parts, n), 1)
    sizes = tuple(n * (i + 1) // parts - n * i // parts for i in range(parts))
    counts, label = _counted(x, labels, ignored)
    ranges = zip(split(x, sizes=sizes, axis=-2), split(label, sizes=sizes, axis=-1), strict=True)
    losses = [softmax_cross_entropy(matmul(a, w, transpose_b=True), b, reduction="none") for a, b in ranges]
    return _of_rows(concat(*losses, axis=-1), counts, label, None, reduction)


@spelled
def nll(
    logarithms: Value, labels: Value, weights: Weights | None = None, *, ignored: int = -100, reduction: str = "mean"
) -> Value:
    """Return minus the log probability of each row's label, given log probabilities as from log_softmax.

    `weights` are those of the classes. Rows with the label `ignored` do not count, and the mean is weighted. If no row
    counts, it is 0.
    """
    require_float(logarithms)
    return _of_labels(logarithms, labels, weights_of(weights, logarithms), 0.0, ignored, reduction)


@spelled
def ctc_loss(
    logarithms: Value,
    labels: Value,
    input_lengths: Value | None = None,
    label_lengths: Value | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Value:
    """Return the `ctc` loss of sequences; the mean divides each loss by its number of labels, at least 1.

    `zero_infinity` replaces a loss of inf, which occurs if no path of its length spells the labels, by 0.
    """
    loss = ctc(logarithms, labels, input_lengths, label_lengths, blank=blank)
    loss = where(equal(loss, inf), 0.0, loss) if zero_infinity else loss
    if reduction == "mean" and label_lengths is None:
        loss = loss / max(size_known(labels.shape[1], "the number of labels"), 1)
    elif reduction == "mean" and label_lengths is not None:
        loss = loss / maximum(cast(label_lengths, dtype=loss.dtype), 1.0)
    return _reduced(loss, reduction)


@spelled
def binary_cross_entropy(
    probability: Value, target: Value, weights: Weights | None = None, *, reduction: str = "mean"
) -> Value:
    """Return -(target * log(p) + (1 - target) * log(1 - p)) times `weights`, logarithms clipped to -100.

    The gradient of a clipped logarithm is 0, so use binary_cross_entropy_with_logits for training.
    """
    _require_same(probability, target)
    weights = weights_of(weights, probability)
    least = 3.720075976020836e-44  # e^-100
    yes, no = (log(clip(p, least)) for p in (probability, 1.0 - probability))
    loss = -(target * yes + (1.0 - target) * no)
    return _reduced(loss if weights is None else loss * weights, reduction)


@spelled
def binary_cross_entropy_with_logits(
    logits: Value,
    target: Value,
    weights: Weights | None = None,
    positive_weights: Weights | None = None,
    *,
    reduction: str = "mean",
) -> Value:
    """Return the binary cross entropy of sigmoid(logits), accurate for logits of any size, even infinite.

    `weights` multiply the terms; `positive_weights` multiply the part of each term that has the factor target.
    """
    _require_same(logits, target)
    weights = weights_of(weights, logits)
    loss = sigmoid_cross_entropy(logits, target, weights_of(positive_weights, logits))
    return _reduced(loss if weights is None else loss * weights, reduction)


@spelled
def kl_divergence(logarithms: Value, target: Value, *, logarithmic: bool = False, reduction: str = "mean") -> Value:
    """Return the terms target * (log(target) - logarithms) of the Kullback-Leibler divergence.

    A term is 0 where the target is 0. `logarithmic` says that the target is given by its logarithms. The reduction
    "mean" is over all elements; "batch_mean" divides the sum by the first extent, as in the mathematical definition.
    """
    _require_same(logarithms, target)
    if logarithmic:
        # An impossible class has the logarithm -inf, and 0 * -inf would be NaN.
        loss = exp(target) * where(equal(target, -inf), 0.0, target - logarithms)
    else:
        known = where(target > 0.0, target, 1.0)
        loss = target * (log(known) - where(equal(target, 0.0), 0.0, logarithms))
    if reduction != "batch_mean":
        return _reduced(loss, reduction)
    require(loss.rank > 0, "a number has no batch to take the mean of")
    return sum(mean(loss, axis=(0,)))


@spelled
def absolute_error(prediction: Value, target: Value, *, reduction: str = "mean") -> Value:
    """Return the absolute difference of prediction and target; its gradient is 0 where they are equal."""
    _require_same(prediction, target)
    return _reduced(abs(prediction - target), reduction)


@spelled
def huber(prediction: Value, target: Value, *, delta: float = 1.0, reduction: str = "mean") -> Value:
    """Return d ** 2 / 2 where abs(d) <= delta, and delta * (abs(d) - delta / 2) elsewhere: Huber, 1964."""
    _require_same(prediction, target)
    require(delta > 0, f"delta={delta} is not above 0")
    return _reduced(_huber(prediction - target, delta), reduction)


@spelled
def smooth_l1(prediction: Value, target: Value, *, beta: float = 1.0, reduction: str = "mean") -> Value:
    """Return the huber loss for beta divided by beta, or the absolute error for beta 0: Girshick, 2015."""
    _require_same(prediction, target)
    require(beta >= 0, f"beta={beta} is negative")
    difference = prediction - target
    loss = _huber(difference, beta) / beta if beta else abs(difference)
    return _reduced(loss, reduction)


@spelled
def hinge(prediction: Value, target: Value, *, margin: float = 1.0, reduction: str = "mean") -> Value:
    """Return the terms max(margin - prediction * target, 0), for targets 1 and -1."""
    _require_same(prediction, target)
    return _reduced(_positive_part(margin - prediction * target), reduction)


@spelled
def hinge_embedding(distance: Value, target: Value, *, margin: float = 1.0, reduction: str = "mean") -> Value:
    """Return the distance where the target is 1, max(margin - distance, 0) where it is -1: Hadsell et al., 2006."""
    _require_same(distance, target)
    return _reduced(where(target > 0.0, distance, _positive_part(margin - distance)), reduction)


@spelled
def cosine_embedding(a: Value, b: Value, target: Value, *, margin: float = 0.0, reduction: str = "mean") -> Value:
    """Return 1 - c where the target is 1 and max(c - margin, 0) where it is -1, with c = cos(a, b).

    The cosine is that of rows of a and b along the last axis; 1e-12 is added to each of their squared lengths.
    """
    _require_same(a, b)
    lengths = [sum(square(x), axis=(-1,)) + 1e-12 for x in (a, b)]
    cosine = sum(a * b, axis=(-1,)) / sqrt(lengths[0] * lengths[1])
    _require_same(cosine, target)
    return _reduced(where(target > 0.0, 1.0 - cosine, _positive_part(cosine - margin)), reduction)


@spelled
def triplet(
    anchor: Value,
    positive: Value,
    negative: Value,
    *,
    margin: float = 1.0,
    ord: float = 2.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    """Return the terms max(d(anchor, positive) - d(anchor, negative) + margin, 0): Schroff et al., 2015.

    The distance d is the norm of that order of the difference plus 1e-6, along the last axis. With `swap` the negative
    is compared with the anchor or the positive, whichever is nearer (Balntas et al., 2016).
    """
    _require_same(anchor, positive)
    _require_same(anchor, negative)

    def distance(a: Value, b: Value) -> Value:
        return norm(a - b + 1e-6, ord=ord, axis=(-1,))

    far = distance(anchor, negative)
    far = minimum(far, distance(positive, negative)) if swap else far
    return _reduced(_positive_part(distance(anchor, positive) - far + margin), reduction)


def _of_scores(logits: Value, labels: Value, weights: Value | None, ignored: int, reduction: str) -> Value:
    """Return the cross entropy of labels by the operator, whose gradient needs no logarithms."""
    counts, label = _label(logits, labels, ignored)
    loss = softmax_cross_entropy(logits, label, reduction="none")
    if weights is not None:
        loss = loss * gather(weights, label)
    return _of_rows(loss, counts, label, weights, reduction)


def _of_labels(
    logarithms: Value, labels: Value, weights: Value | None, smoothing: float, ignored: int, reduction: str
) -> Value:
    counts, label = _label(logarithms, labels, ignored)
    classes = size_known(logarithms.shape[-1], "the number of classes")
    is_label = one_hot(label, depth=classes, dtype="bool")
    scaled = logarithms if weights is None else logarithms * weights
    loss = -sum(where(is_label, scaled, 0.0), axis=(-1,))
    if smoothing:
        loss = loss * (1.0 - smoothing) - sum(scaled, axis=(-1,)) * (smoothing / classes)
    return _of_rows(loss, counts, label, weights, reduction)


def _label(logarithms: Value, labels: Value, ignored: int) -> tuple[Value, Value]:
    """Return a mask of labels that count, and the labels with 0 elsewhere.

    The last axis of logarithms is the classes.
    """
    counted = _counted(logarithms, labels, ignored)
    size_known(logarithms.shape[-1], "the number of classes")
    return counted


def _counted(x: Value, labels: Value, ignored: int) -> tuple[Value, Value]:
    """Return a mask of the rows of x whose labels count, and the labels with 0 for other rows."""
    require(labels.dtype in ("int32", "int64"), f"labels are int32 or int64, not {labels.dtype}")
    require(x.rank >= 1, "the logarithms have no axis of classes")
    wanted = x.shape[:-1]
    require(labels.shape == wanted, f"labels have the shape {show_shape(labels.shape)}, not {show_shape(wanted)}")
    counts = not_equal(labels, ignored)
    return counts, where(counts, labels, 0)


def _of_rows(loss: Value, counts: Value, label: Value, weights: Value | None, reduction: str) -> Value:
    """Reduce the losses of rows; only rows that count contribute."""
    loss = where(counts, loss, 0.0)
    if reduction != "mean":
        return _reduced(loss, reduction)
    weight = cast(counts, dtype=loss.dtype)
    if weights is not None:
        weight = where(counts, gather(weights, label), 0.0)
    total = sum(weight)
    loss = sum(loss) / where(equal(total, 0.0), 1.0, total)
    loss.block.weights[loss.name] = total.name
    return loss


def _positive_part(x: Value) -> Value:
    """Return relu(x), but with gradient 1 at 0 as in the losses of PyTorch."""
    return clip(x, 0.0)


def _huber(difference: Value, delta: float) -> Value:
    within = clip(difference, -delta, delta)
    return within * (difference - within * 0.5)


def _reduced(loss: Value, reduction: str) -> Value:
    require(reduction in ("none", "mean", "sum"), f"reduction={reduction!r} is not one of none, mean, sum")
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum(loss)


def _require_same(x: Value, other: Value) -> None:
    require_float(x)
    require(x.type == other.type, f"the types {x.type} and {other.type} differ")
