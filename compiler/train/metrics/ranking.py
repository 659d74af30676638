"""The curves of thresholds and the areas under them: the separation of positives and negatives by scores."""

from __future__ import annotations

from collections.abc import Callable

from compiler.train.metrics.classes import share
from compiler.train.metrics.metric import Metric, Total, summed
from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, REALS
from registry import Value, ops
from registry.errors import require
from registry.ops.fill import full, size
from registry.ops.fill import range as numbers
from registry.spelled import described


@described
def auc(scores: Value, labels: Value, *, rows: int | None = None, bins: int | None = None) -> Metric:
    """Return the share of pairs of a positive and a negative in which the positive has the higher score.

    Equal scores count half. That is the area under the ROC curve (Hanley and McNeil, 1982), 0.5 while there are no
    positives or no negatives.

    Args:
        scores: float, of the shape of the labels.
        labels: integers or bool; 1 is positive, all else negative.
        rows: upper bound on the rows of an epoch; keep all scores and sort them at each step, for the exact value. More
            rows stop the run.
        bins: alternatively, the number of bins of equal width from 0 to 1 in which scores are counted, clipped to that
            range; scores in one bin count as equal.
    """
    return _over_thresholds(scores, labels, rows, bins, _area)


@described
def average_precision(scores: Value, labels: Value, *, rows: int | None = None, bins: int | None = None) -> Metric:
    """Return the mean precision at the scores of the positives: the area under precision and recall.

    Each score is a threshold that takes the rows of equal and of higher scores. Nothing is interpolated, as by
    scikit-learn; 0 without positives. It suits rare positives better than the area under the ROC curve (Davis and
    Goadrich, 2006).

    Args:
        scores: float, of the shape of the labels.
        labels: integers or bool; 1 is positive, all else negative.
        rows: as of `auc`.
        bins: as of `auc`.
    """
    return _over_thresholds(scores, labels, rows, bins, _mean_precision)


@described
def roc_curve(scores: Value, labels: Value, *, bins: int = 100) -> Metric:
    """Return the shares of negatives and of positives above each threshold: float64[bins + 1, 2].

    The thresholds fall from above all scores, the point (0, 0), in steps of 1 / bins to 0, the point (1, 1); shares of
    none are 0. `runtime plot` draws it.

    Args:
        scores: float, of the shape of the labels; clipped to 0 ... 1.
        labels: integers or bool; 1 is positive, all else negative.
        bins: number of steps from 1 to 0.
    """
    is_positive = _positives(scores, labels)
    require(bins >= 1, f"bins={bins}; it starts at 1")

    def result(positives: Value, negatives: Value) -> Value:
        return ops.stack(_reached(negatives), _reached(positives), axis=1)

    return summed(_counted(scores, is_positive, bins), result)


def _reached(counts: Value) -> Value:
    """Return the cumulative shares from the last bin to the first, after a leading 0."""
    return ops.pad(share(ops.cumsum(ops.flip(counts)), ops.sum(counts)), before=(1,), after=(0,))


def _positives(scores: Value, labels: Value) -> Value:
    require(scores.dtype in FLOATS, f"scores are float32 or float64, not {scores.dtype}")
    require(labels.dtype not in REALS, f"labels are integers or bool, not {labels.dtype}")
    require(labels.shape == scores.shape, "labels and scores differ in shape; give one score, that of the positives")
    return labels if labels.dtype == "bool" else ops.equal(labels, 1)


def _over_thresholds(
    scores: Value, labels: Value, rows: int | None, bins: int | None, of: Callable[[Value, Value], Value]
) -> Metric:
    """Return a number that `of` computes from the positives and negatives in groups of rising score."""
    is_positive = _positives(scores, labels)
    require((rows is None) != (bins is None), "give rows=, how many scores an epoch has at most, or bins=")
    count = bins if rows is None else rows
    assert count is not None, "one of the two is given"
    require(count >= 1, f"{'bins' if rows is None else 'rows'}={count}; it starts at 1")
    if rows is None:
        return summed(_counted(scores, is_positive, count), of, "max")
    return _exact(scores, is_positive, count, of)


def _counted(scores: Value, is_positive: Value, bins: int) -> dict[str, Value]:
    """Return the numbers of positives and negatives in each bin."""
    place = ops.cast(ops.clip(ops.floor(scores * bins), 0.0, bins - 1.0), dtype="int64")
    return {"positives": _counts(place, is_positive, bins), "negatives": _counts(place, ~is_positive, bins)}


def _exact(scores: Value, is_positive: Value, rows: int, of: Callable[[Value, Value], Value]) -> Metric:
    block = scores.block
    place = _numbered(scores)

    def add(seen: Value, kept: Value, kinds: Value) -> tuple[Value, ...]:
        places = ops.reshape(seen + place, shape=(*scores.shape, 1))
        now = seen + size.on(block)(shape=scores.shape)
        return now, ops.scatter_nd(kept, places, scores), ops.scatter_nd(kinds, places, is_positive)

    def result(seen: Value, kept: Value, kinds: Value) -> Value:
        order = ops.argsort(kept)
        ordered, positive = ops.gather(kept, order), ops.gather(kinds, order)
        is_filled = ops.gather(numbers.on(block)(stop=rows) < seen, order)
        is_higher = ops.cast(ops.not_equal(ordered[1:], ordered[:-1]), dtype="int64")
        group = ops.cumsum(ops.pad(is_higher, before=(1,), after=(0,)))  # equal scores have one number
        return of(_counts(group, positive & is_filled, rows), _counts(group, ~positive & is_filled, rows))

    totals = (
        Total("seen", TensorType("int64", ())),
        Total("scores", TensorType(scores.dtype, (rows,))),
        Total("positives", TensorType("bool", (rows,))),
    )
    return Metric(totals, add, result, "max")


def _numbered(x: Value) -> Value:
    """Return the number of earlier elements of x in row-major order, for each element, int64."""
    ones = full.on(x.block)(shape=x.shape, value=1, dtype="int64")
    number = ones - 1
    for axis in range(x.rank):
        number = number + ops.cumsum(ones, axis=axis, exclusive=True) * size.on(x.block)(shape=x.shape[axis + 1 :])
    return number


def _counts(group: Value, chosen: Value, groups: int) -> Value:
    """Return the number of chosen elements in each group."""
    return ops.bincount(ops.where(chosen, group, groups), depth=groups + 1)[:groups]


def _area(positives: Value, negatives: Value) -> Value:
    """Return the area from the counts of groups of rising score; `won` is doubled, so that ties count as integers."""
    won = ops.sum(positives * (ops.cumsum(negatives, exclusive=True) * 2 + negatives))
    pairs = ops.sum(positives) * ops.sum(negatives)
    return ops.where(ops.equal(pairs, 0), 0.5, share(won, pairs) / 2.0)


def _mean_precision(positives: Value, negatives: Value) -> Value:
    """Return the precision at each group's score, weighted by the positives of the group."""
    found = ops.flip(ops.cumsum(ops.flip(positives)))
    precision = share(found, found + ops.flip(ops.cumsum(ops.flip(negatives))))
    return share(ops.sum(ops.cast(positives, dtype="float64") * precision), ops.sum(positives))
