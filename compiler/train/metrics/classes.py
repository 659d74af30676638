"""Metrics of predicted classes: rates of correct predictions, and confusions.

Predictions are float scores with a last axis of classes, of which the first largest is the prediction; or they are
class numbers, int32, int64, uint8 or bool, of the shape of the labels. All elements of the labels count equally,
whatever their axes. Where classes are counted, a class that is not in 0 ... classes - 1 stops the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from compiler.train.metrics.metric import Metric, summed
from prograd_proto.dtypes import FLOATS, REALS
from prograd_proto.result_types.shapes import show_shape, size_known
from registry import Value, ops
from registry.errors import require
from registry.ops.fill import full, size
from registry.spelled import described

Average = Literal["binary", "micro", "macro", "weighted", "none"]
_AVERAGES = ("binary", "micro", "macro", "weighted", "none")


@described
def accuracy(predictions: Value, labels: Value) -> Metric:
    """Return the share of labels that are predicted; 0 if there are none."""
    found = _predicted(predictions, labels)
    hits = ops.sum(ops.equal(found, _numbers(labels)))
    return summed({"hits": hits, "count": _count(labels)}, share, "max")


@described
def top_k_accuracy(scores: Value, labels: Value, *, k: int = 5) -> Metric:
    """Return the share of labels that are among the k largest scores; of equal scores, the first ones count."""
    require(_is_scores(scores, labels), "scores are floats of the shape of the labels and an axis of classes")
    classes = size_known(scores.shape[-1], "the number of classes")
    require(1 <= k <= classes, f"k={k} is not in 1 ... {classes}, the number of classes")
    _, places = ops.topk(scores, k=k)
    wanted = ops.reshape(_numbers(labels), shape=(*labels.shape, 1))
    return summed({"hits": ops.sum(ops.equal(places, wanted)), "count": _count(labels)}, share, "max")


@described
def confusion_matrix(predictions: Value, labels: Value, *, classes: int | None = None) -> Metric:
    """Return the counts of each label and predicted class: int64[classes, classes], with a row for each label.

    `classes` is their number, which scores determine.
    """
    found, actual, classes = _classified(predictions, labels, classes)
    pairs = ops.stack(actual, found, axis=-1)
    none = full.on(labels.block)(shape=(classes, classes), value=0, dtype="int64")
    ones = full.on(labels.block)(shape=labels.shape, value=1, dtype="int64")

    def result(counts: Value) -> Value:
        return counts

    return summed({"counts": ops.scatter_nd(none, pairs, ones, reduction="add")}, result)


@described
def precision(predictions: Value, labels: Value, *, classes: int | None = None, average: Average = "macro") -> Metric:
    """Return the share of correct predictions of a class, 0 if it is never predicted; f1 describes `average`."""
    return _rates(predictions, labels, classes, average, lambda hits, found, actual: (hits, found))


@described
def recall(predictions: Value, labels: Value, *, classes: int | None = None, average: Average = "macro") -> Metric:
    """Return the share of predicted labels of a class, 0 if there is no such label; f1 describes `average`."""
    return _rates(predictions, labels, classes, average, lambda hits, found, actual: (hits, actual))


@described
def balanced_accuracy(predictions: Value, labels: Value, *, classes: int | None = None) -> Metric:
    """Return the mean recall of the classes that occur among the labels: Brodersen et al., 2010; 0 if there are none.

    `classes` is their number, which scores and bool determine.
    """
    counts = _counts_of_classes(*_classified(predictions, labels, classes))

    def result(counts: Value) -> Value:
        return share(ops.sum(share(counts[0], counts[2])), ops.sum(counts[2] > 0))

    return summed({"counts": counts}, result, "max")


@described
def f1(predictions: Value, labels: Value, *, classes: int | None = None, average: Average = "macro") -> Metric:
    """Return the harmonic mean of precision and recall: 2 * hits / (predictions + labels), 0 if there are none.

    Args:
        predictions: scores or numbers of classes.
        labels: int32, int64, uint8 or bool.
        classes: number of classes; scores and bool determine it.
        average: "binary" is the value of class 1 of two, "micro" that of all classes together, "macro" the mean over
            classes that occur among labels or predictions, "weighted" the mean by the number of labels, "none" the
            values of all classes, float64[classes].
    """
    return _rates(predictions, labels, classes, average, lambda hits, found, actual: (hits * 2, found + actual))


@described
def perplexity(logits: Value, labels: Value, *, ignored: int | None = None) -> Metric:
    """Return exp of the mean cross entropy over all labels that are not `ignored`; 1 if there are none."""
    if ignored is None:
        terms, count = ops.softmax_cross_entropy(logits, labels, reduction="none"), _count(labels)
    else:
        terms = ops.cross_entropy(logits, labels, ignored=ignored, reduction="none")
        count = ops.sum(ops.not_equal(labels, ignored))
    return perplexity_of_losses(terms, count)


def perplexity_of_losses(losses: Value, count: Value) -> Metric:
    """Return exp of the sum of the losses of labels divided by the number of labels that count."""
    total = ops.sum(ops.cast(losses, dtype="float64"))

    def result(total: Value, count: Value) -> Value:
        return ops.exp(share(total, count))

    return summed({"sum": total, "count": count}, result, "min")


def share(part: Value, whole: Value) -> Value:
    """Return each part divided by its whole, float64; the part itself, 0 for counts, where the whole is 0."""
    divisor = ops.where(ops.equal(whole, 0), 1, whole)
    return _wide(part) / _wide(divisor)


def _rates(
    predictions: Value,
    labels: Value,
    classes: int | None,
    average: Average,
    of: Callable[[Value, Value, Value], tuple[Value, Value]],
) -> Metric:
    """Return the quotient of two numbers for each class, computed from its counts by `of`; and its average."""
    require(average in _AVERAGES, f"average={average!r} is not one of {', '.join(_AVERAGES)}")
    found, actual, classes = _classified(predictions, labels, classes)
    require(average != "binary" or classes == 2, f"average='binary' is of two classes, and there are {classes}")
    counts = _counts_of_classes(found, actual, classes)

    def result(counts: Value) -> Value:
        part, whole = of(counts[0], counts[1], counts[2])
        match average:
            case "binary":
                return share(part[1], whole[1])
            case "micro":
                return share(ops.sum(part), ops.sum(whole))
            case "macro":
                return share(ops.sum(share(part, whole)), ops.sum(counts[1] + counts[2] > 0))
            case "weighted":
                return share(ops.sum(share(part, whole) * _wide(counts[2])), ops.sum(counts[2]))
            case "none":
                return share(part, whole)

    return summed({"counts": counts}, result, "max")


def _counts_of_classes(found: Value, actual: Value, classes: int) -> Value:
    """Return for each class the numbers of hits, of predictions and of labels: int64[3, classes]."""
    hit = ops.where(ops.equal(found, actual), actual, classes)  # the number `classes` stands for a miss
    hits = ops.bincount(hit, depth=classes + 1)[:classes]
    return ops.stack(hits, ops.bincount(found, depth=classes), ops.bincount(actual, depth=classes))


def _classified(predictions: Value, labels: Value, classes: int | None) -> tuple[Value, Value, int]:
    """Return predictions and labels as int64 of one shape, and the number of classes."""
    known = None
    if _is_scores(predictions, labels):
        known = size_known(predictions.shape[-1], "the number of classes")
    elif predictions.dtype == "bool" and (labels.dtype == "bool" or classes is None):
        known = 2
    if known is None:
        require(classes is not None, "numbers of classes do not say how many there are; give classes=")
    else:
        require(classes in (None, known), f"classes={classes}, and the predictions are of {known}")
    count = classes if known is None else known
    assert count is not None, "one of the two is known"
    require(count >= 1, f"classes={count}; there is at least one")
    return _predicted(predictions, labels), _numbers(labels), count


def _predicted(predictions: Value, labels: Value) -> Value:
    """Return the numbers of the predicted classes, int64, of the shape of the labels."""
    require(labels.dtype not in REALS, f"labels are integers or bool, not {labels.dtype}")
    if _is_scores(predictions, labels):
        return ops.argmax(predictions)
    require(
        predictions.dtype not in REALS and predictions.shape == labels.shape,
        f"predictions are floats {show_shape((*labels.shape, 'classes'))}, or integers or bool "
        f"{show_shape(labels.shape)} like the labels",
    )
    return _numbers(predictions)


def _is_scores(predictions: Value, labels: Value) -> bool:
    return predictions.dtype in FLOATS and predictions.rank > 0 and predictions.shape[:-1] == labels.shape


def _numbers(labels: Value) -> Value:
    return labels if labels.dtype == "int64" else ops.cast(labels, dtype="int64")


def _count(labels: Value) -> Value:
    return size.on(labels.block)(shape=labels.shape)


def _wide(x: Value) -> Value:
    return x if x.dtype == "float64" else ops.cast(x, dtype="float64")
