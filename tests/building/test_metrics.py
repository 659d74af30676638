"""Metrics over uneven batches, against their definitions computed on whole data sets."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import runtime
from compiler import OpError, Program, Value, metrics, ops
from prograd_proto import TensorType

ROWS, CLASSES = 43, 5
AVERAGES = ("micro", "macro", "weighted", "none")


def rows(seed: int = 0) -> dict[str, np.ndarray]:
    """43 rows: scores with ties, labels that leave out class 3, which is predicted, and numbers near 1000."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=(ROWS, CLASSES)), 1).astype(np.float32)
    scores[:, 4] = -9.0  # is never predicted
    target = (1000 + rng.normal(size=ROWS)).astype(np.float32)
    return {
        "scores": scores,
        "label": rng.choice([0, 1, 2, 4], ROWS),
        "share": np.round(rng.uniform(size=ROWS), 1).astype(np.float32),
        "sign": rng.integers(0, 2, ROWS),
        "target": target,
        "guess": (target + rng.normal(size=ROWS)).astype(np.float32),
    }


def evaluated(of: Callable[..., Any], data: dict[str, np.ndarray] | None = None, batch: int = 8) -> dict[str, Any]:
    """Return the metrics that `of` computes from the tensors, over rows that do not fill the steps."""
    data = rows() if data is None else data
    program = Program("judge")
    symbols = {name: program.input(name, array.dtype.name, ("batch", *array.shape[1:])) for name, array in data.items()}
    made = of(**symbols)
    program.metrics(**made) if isinstance(made, dict) else program.metrics(m=made)
    run = runtime.Run(program.compile(batch=batch).desc)
    return run.evaluate({name: data[name] for name in run.session.bindings("evaluate")[0].feeds})


# The oracles: each is the definition, row by row, on the whole data set


def argmax(scores: np.ndarray) -> list[int]:
    return [min(c for c in range(len(row)) if row[c] == max(row)) for row in scores]


def confusion(found: list[int], labels: np.ndarray, classes: int) -> list[list[int]]:
    return [
        [sum(a == i and p == j for p, a in zip(found, labels, strict=True)) for j in range(classes)]
        for i in range(classes)
    ]


def by_class(kind: str, found: list[int], labels: np.ndarray, c: int) -> float:
    right = sum(p == c and a == c for p, a in zip(found, labels, strict=True))
    predicted, actual = sum(p == c for p in found), sum(a == c for a in labels)
    precision = right / predicted if predicted else 0.0
    recall = right / actual if actual else 0.0
    if kind == "f1":
        return 2 * precision * recall / (precision + recall) if right else 0.0
    return precision if kind == "precision" else recall


def averaged(kind: str, average: str, found: list[int], labels: np.ndarray, classes: int) -> Any:
    values = [by_class(kind, found, labels, c) for c in range(classes)]
    if average == "none":
        return values
    if average == "binary":
        return values[1]
    if average == "micro":  # every row is one prediction and one label
        return sum(p == a for p, a in zip(found, labels, strict=True)) / len(labels)
    if average == "weighted":
        return sum(value * sum(labels == c) for c, value in enumerate(values)) / len(labels)
    occurring = [value for c, value in enumerate(values) if c in found or c in labels]
    return sum(occurring) / len(occurring)


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    pairs = [(p > n) + (p == n) / 2 for p in scores[positive] for n in scores[~positive]]
    return sum(pairs) / len(pairs)


def mean_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """The precision at the score of each positive, among all rows of that score and above."""
    return float(np.mean([positive[scores >= score].mean() for score in scores[positive]]))


def mean_log_loss(scores: np.ndarray, labels: np.ndarray) -> float:
    wide = scores.astype(np.float64)
    return float(
        np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(wide, labels, strict=True) if label >= 0])
    )


# Each metric


@pytest.mark.parametrize("batch", [1, 8, 43])
def test_accuracy_and_the_matrix_count_every_row_once_whatever_the_steps_take(batch):
    d = rows()
    found = evaluated(
        lambda scores, label, **_: {
            "accuracy": metrics.accuracy(scores, label),
            "confusion": metrics.confusion_matrix(scores, label),
        },
        batch=batch,
    )
    guessed = argmax(d["scores"])
    assert found["accuracy"] == np.mean(guessed == d["label"])
    assert found["confusion"].dtype == np.int64
    assert found["confusion"].tolist() == confusion(guessed, d["label"], CLASSES)


@pytest.mark.parametrize("kind", ["precision", "recall", "f1"])
def test_precision_recall_and_f1_are_what_they_are_class_by_class(kind):
    d = rows()
    of = getattr(metrics, kind)
    found = evaluated(lambda scores, label, **_: {a: of(scores, label, average=a) for a in AVERAGES})
    for average in AVERAGES:
        expected = averaged(kind, average, argmax(d["scores"]), d["label"], CLASSES)
        np.testing.assert_allclose(found[average], expected, rtol=1e-14, err_msg=average)
    assert found["none"][3] == found["none"][4] == 0, "one without labels, one without predictions"


@pytest.mark.parametrize("kind", ["precision", "recall", "f1"])
def test_of_two_classes_the_binary_value_is_that_of_the_second(kind):
    d = rows()
    of = getattr(metrics, kind)
    found = evaluated(lambda share, sign, **_: of(share > 0.4, ops.equal(sign, 1), average="binary"))
    guessed = [int(s > np.float32(0.4)) for s in d["share"]]
    assert found["m"] == pytest.approx(averaged(kind, "binary", guessed, d["sign"], 2), rel=1e-14)


def test_numbers_of_classes_count_like_scores():
    both = evaluated(
        lambda scores, label, **_: {
            "a": metrics.f1(scores, label),
            "b": metrics.f1(ops.argmax(scores), ops.cast(label, dtype="uint8"), classes=CLASSES),
            "c": metrics.accuracy(ops.cast(ops.argmax(scores), dtype="int32"), label),
            "d": metrics.accuracy(scores, label),
        }
    )
    assert both["a"] == both["b"]
    assert both["c"] == both["d"]


def test_bool_predictions_are_of_two_classes():
    d = rows()
    labels = (d["label"] > 1).astype(np.int64)
    found = evaluated(
        lambda share, label, **_: metrics.confusion_matrix(share > 0.4, ops.cast(label > 1, dtype="int64"))
    )["m"]
    assert found.tolist() == confusion([int(s > np.float32(0.4)) for s in d["share"]], labels, 2)


@pytest.mark.parametrize("k", [1, 2, 4, 5])
def test_top_k_takes_the_first_of_equal_scores(k):
    d = rows()
    hits = [
        label in sorted(range(CLASSES), key=lambda c, row=row: (-row[c], c))[:k]
        for row, label in zip(d["scores"], d["label"], strict=True)
    ]
    found = evaluated(lambda scores, label, **_: metrics.top_k_accuracy(scores, label, k=k))
    assert found["m"] == np.mean(hits)


@pytest.mark.parametrize("capacity", [ROWS, 100])
def test_the_exact_area_counts_pairs_and_half_of_the_ties(capacity):
    d = rows()
    assert len(set(d["share"])) < ROWS / 3, "there are ties"
    found = evaluated(lambda share, sign, **_: metrics.auc(share, sign, rows=capacity))
    assert found["m"] == pytest.approx(area(d["share"], d["sign"] == 1), rel=1e-14)


@pytest.mark.parametrize("bins", [1, 4, 1000])
def test_the_binned_area_is_that_of_the_bins(bins):
    d = rows()
    d["share"] = (d["share"] * 1.5 - 0.2).astype(np.float32)
    binned = np.clip(np.floor(d["share"] * np.float32(bins)), 0, bins - 1)
    found = evaluated(lambda share, sign, **_: metrics.auc(share, sign, bins=bins), d)
    assert found["m"] == pytest.approx(area(binned, d["sign"] == 1), rel=1e-14)


@pytest.mark.parametrize("way", [{"rows": ROWS}, {"rows": 100}, {"bins": 1}, {"bins": 9}])
def test_the_average_precision_is_that_at_each_positive(way):
    d = rows()
    bins = way.get("bins")
    scores = np.clip(np.floor(d["share"] * np.float32(bins)), 0, bins - 1) if bins else d["share"]
    found = evaluated(lambda share, sign, **_: metrics.average_precision(share, sign, **way))
    assert found["m"] == pytest.approx(mean_precision(scores, d["sign"] == 1), rel=1e-14)
    none = d | {"sign": np.zeros(ROWS, np.int64)}
    assert evaluated(lambda share, sign, **_: metrics.average_precision(share, sign, **way), none)["m"] == 0.0


def test_balanced_accuracy_is_the_mean_recall_of_classes_among_the_labels():
    d = rows()
    found = evaluated(
        lambda scores, label, share, sign, **_: {
            "scores": metrics.balanced_accuracy(scores, label),
            "numbers": metrics.balanced_accuracy(ops.argmax(scores), label, classes=CLASSES),
            "bool": metrics.balanced_accuracy(share > 0.4, sign),
        }
    )
    guessed = argmax(d["scores"])
    recalls = [by_class("recall", guessed, d["label"], c) for c in (0, 1, 2, 4)]
    assert found["scores"] == found["numbers"] == pytest.approx(np.mean(recalls), rel=1e-14)
    guessed = [int(s > np.float32(0.4)) for s in d["share"]]
    recalls = [by_class("recall", guessed, d["sign"], c) for c in (0, 1)]
    assert found["bool"] == pytest.approx(np.mean(recalls), rel=1e-14)


def test_a_threshold_by_name_is_set_for_each_evaluation():
    d = rows()
    program = Program()
    share, sign = program.input("share", "float32", ("n",)), program.input("sign", "int64", ("n",))
    program.metrics(f1=metrics.f1(share > program.setting("threshold", 0.5), sign, average="binary"))
    run = runtime.Run(program.compile(n=8).desc)
    for threshold in (0.5, 0.2):
        run.set(threshold=threshold)
        guessed = [int(s > np.float32(threshold)) for s in d["share"]]
        expected = averaged("f1", "binary", guessed, d["sign"], 2)
        assert run.evaluate({"share": d["share"], "sign": d["sign"]})["f1"] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("bins", [1, 4, 100])
def test_the_roc_curve_has_the_shares_above_each_threshold(bins):
    d = rows()
    found = evaluated(lambda share, sign, **_: metrics.roc_curve(share, sign, bins=bins), d)["m"]
    places = np.clip(np.floor(d["share"] * np.float32(bins)), 0, bins - 1)
    thresholds = range(bins, -1, -1)
    expected = [
        [np.mean(places[d["sign"] == 1 if kind else d["sign"] != 1] >= t) for kind in (0, 1)] for t in thresholds
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found[0].tolist() == [0, 0]
    assert found[-1].tolist() == [1, 1]
    by_trapezoids = np.sum(np.diff(found[:, 0]) * (found[1:, 1] + found[:-1, 1]) / 2)
    assert by_trapezoids == pytest.approx(area(places, d["sign"] == 1), rel=1e-12)


@pytest.mark.parametrize("way", [{"rows": ROWS}, {"bins": 9}])
def test_the_area_is_a_half_where_a_class_is_missing(way):
    d = rows() | {"sign": np.ones(ROWS, np.int64)}
    assert evaluated(lambda share, sign, **_: metrics.auc(share, sign, **way), d)["m"] == 0.5


def test_errors_of_numbers_are_those_of_all_rows():
    d = rows()
    target, guess = d["target"].astype(np.float64), d["guess"].astype(np.float64)
    found = evaluated(
        lambda target, guess, **_: {
            "mae": metrics.mean_absolute_error(guess, target),
            "mse": metrics.mean_squared_error(guess, target),
            "rmse": metrics.root_mean_squared_error(guess, target),
            "r2": metrics.r2(guess, target),
            "mean": metrics.mean(target),
        }
    )
    expected = {
        "mae": np.mean(np.abs(guess - target)),
        "mse": np.mean((guess - target) ** 2),
        "rmse": np.sqrt(np.mean((guess - target) ** 2)),
        "r2": 1 - np.sum((guess - target) ** 2) / np.sum((target - target.mean()) ** 2),
        "mean": target.mean(),
    }
    assert found == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("off", "expected"), [(0.0, 1.0), (0.5, 0.0)])
def test_r2_of_equal_targets_says_whether_all_is_right(off, expected):
    d = {"target": np.full(ROWS, 7.0), "guess": np.full(ROWS, 7.0)}
    d["guess"][20] += off
    assert evaluated(lambda target, guess: metrics.r2(guess, target), d)["m"] == expected


def test_perplexity_is_of_all_labels_that_count():
    d = rows()
    d["label"] = np.where(np.arange(ROWS) % 3 == 0, -1, d["label"])
    found = evaluated(lambda scores, label, **_: metrics.perplexity(scores, label, ignored=-1), d)
    assert found["m"] == pytest.approx(np.exp(mean_log_loss(d["scores"], d["label"])), rel=1e-6)
    found = evaluated(lambda scores, label, **_: metrics.perplexity(scores, label))
    assert found["m"] == pytest.approx(np.exp(mean_log_loss(rows()["scores"], rows()["label"])), rel=1e-6)


def test_labels_with_further_axes_count_each():
    d = {"scores": np.random.default_rng(1).normal(size=(11, 3, 4)), "label": np.arange(33).reshape(11, 3) % 4}
    found = evaluated(
        lambda scores, label: {
            "accuracy": metrics.accuracy(scores, label),
            "confusion": metrics.confusion_matrix(scores, label),
            "f1": metrics.f1(scores, label),
            "binned": metrics.auc(ops.cast(label, dtype="float64") / 3.0, ops.equal(label, 0), bins=9),
            "perplexity": metrics.perplexity(scores, label),
            "top": metrics.top_k_accuracy(scores, label, k=2),
            "area": metrics.auc(scores[..., 0], ops.equal(label, 0), rows=33),
        },
        d,
        batch=4,
    )
    flat, labels = d["scores"].reshape(33, 4), d["label"].reshape(33)
    assert found["accuracy"] == np.mean(argmax(flat) == labels)
    assert found["confusion"].tolist() == confusion(argmax(flat), labels, 4)
    assert found["top"] == np.mean([label in np.argsort(-row)[:2] for row, label in zip(flat, labels, strict=True)])
    assert found["f1"] == pytest.approx(averaged("f1", "macro", argmax(flat), labels, 4), rel=1e-14)
    assert found["binned"] == 0.0, "the zeros are lowest"
    assert found["perplexity"] == pytest.approx(np.exp(mean_log_loss(flat, labels)), rel=1e-12)
    assert found["area"] == pytest.approx(area(flat[:, 0], labels == 0), rel=1e-14)


def test_a_metric_of_ones_own_is_made_of_sums():
    def spread(target: Value) -> metrics.Metric:
        wide = ops.cast(target, dtype="float64")
        parts = {
            "sum": ops.sum(wide),
            "squares": ops.sum(wide * wide),
            "count": ops.sum(ops.cast(wide > 0, dtype="int64")),
        }
        return metrics.summed(
            parts, lambda s, q, n: q / ops.cast(n, dtype="float64") - (s / ops.cast(n, dtype="float64")) ** 2
        )

    found = evaluated(lambda target, **_: spread(target))
    assert found["m"] == pytest.approx(np.var(rows()["target"].astype(np.float64)), rel=1e-6)


# Errors


def inputs() -> dict[str, Value]:
    program = Program()
    return {
        "scores": program.input("scores", "float32", ("n", 5)),
        "label": program.input("label", "int64", ("n",)),
        "share": program.input("share", "float32", ("n",)),
    }


BAD = [
    (
        lambda scores, label, share: metrics.accuracy(share, label),
        "accuracy(predictions: float32[n], labels: int64[n]): predictions are floats [n, classes], "
        "or integers or bool [n] like the labels",
    ),
    (
        lambda scores, label, share: metrics.accuracy(label, share),
        "accuracy(predictions: int64[n], labels: float32[n]): labels are integers or bool, not float32",
    ),
    (
        lambda scores, label, share: metrics.top_k_accuracy(scores, label, k=6),
        "top_k_accuracy(scores: float32[n, 5], labels: int64[n]): k=6 is not in 1 ... 5, the number of classes",
    ),
    (
        lambda scores, label, share: metrics.top_k_accuracy(label, label),
        "top_k_accuracy(scores: int64[n], labels: int64[n]): scores are floats of the shape of the labels "
        "and an axis of classes",
    ),
    (
        lambda scores, label, share: metrics.f1(label, label),
        "f1(predictions: int64[n], labels: int64[n]): numbers of classes do not say how many there are; give classes=",
    ),
    (
        lambda scores, label, share: metrics.recall(scores, label, classes=4),
        "recall(predictions: float32[n, 5], labels: int64[n]): classes=4, and the predictions are of 5",
    ),
    (
        lambda scores, label, share: metrics.confusion_matrix(label, label, classes=0),
        "confusion_matrix(predictions: int64[n], labels: int64[n]): classes=0; there is at least one",
    ),
    (
        lambda scores, label, share: metrics.precision(predictions=scores, labels=label, average="mean"),
        "precision(predictions: float32[n, 5], labels: int64[n]): average='mean' is not one of "
        "binary, micro, macro, weighted, none",
    ),
    (
        lambda scores, label, share: metrics.f1(scores, label, average="binary"),
        "f1(predictions: float32[n, 5], labels: int64[n]): average='binary' is of two classes, and there are 5",
    ),
    (
        lambda scores, label, share: metrics.auc(share, label),
        "auc(scores: float32[n], labels: int64[n]): give rows=, how many scores an epoch has at most, or bins=",
    ),
    (
        lambda scores, label, share: metrics.auc(share, label, bins=0),
        "auc(scores: float32[n], labels: int64[n]): bins=0; it starts at 1",
    ),
    (
        lambda scores, label, share: metrics.auc(scores, label, bins=9),
        "auc(scores: float32[n, 5], labels: int64[n]): labels and scores differ in shape; "
        "give one score, that of the positives",
    ),
    (
        lambda scores, label, share: metrics.auc(label, label, rows=9),
        "auc(scores: int64[n], labels: int64[n]): scores are float32 or float64, not int64",
    ),
    (
        lambda scores, label, share: metrics.average_precision(share, label, rows=0),
        "average_precision(scores: float32[n], labels: int64[n]): rows=0; it starts at 1",
    ),
    (
        lambda scores, label, share: metrics.balanced_accuracy(label, label),
        "balanced_accuracy(predictions: int64[n], labels: int64[n]): numbers of classes do not say how many there are; "
        "give classes=",
    ),
    (
        lambda scores, label, share: metrics.r2(share, label),
        "r2(predictions: float32[n], targets: int64[n]): the targets are int64[n], not float32[n]",
    ),
    (
        lambda scores, label, share: metrics.mean_squared_error(label, label),
        "mean_squared_error(predictions: int64[n], targets: int64[n]): predictions are float32 or float64, not int64",
    ),
    (
        lambda scores, label, share: metrics.perplexity(scores, share),
        "perplexity(logits: float32[n, 5], labels: float32[n]): "
        "softmax_cross_entropy(logits: float32[n, 5], labels: float32[n]): labels are int32 or int64, not float32",
    ),
    (lambda scores, label, share: metrics.f1([1, 2], label), "f1: predictions=[1, 2] is not a tensor of a program"),
    (
        lambda scores, label, share: metrics.summed({"sum": ops.sum(share)}, lambda total: total),
        "summed: the contribution 'sum' is float32[]; it is int64 or float64, of a shape of numbers",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), BAD, ids=[text.partition(":")[2][-40:] for _, text in BAD])
def test_a_bad_call_says_what_would_be_right(call, sentence):
    assert re.sub(r"^\S*test_metrics\.py:\d+: ", "", told(OpError, lambda: call(**inputs()))) == sentence


def own_metric(dtype: str, value: Value) -> metrics.Metric:
    return metrics.Metric((metrics.Total("t", TensorType(dtype, ())),), lambda t: (value,), lambda t: t)


def test_a_program_says_what_it_cannot_report():
    program, other = Program(), Program()
    x, y = program.input("x", "float32", ("n",)), other.input("y", "float32", ("n",))
    total, foreign = ops.sum(x), ops.sum(y)
    cases = [
        (lambda: program.metrics(m=0.5), "metric 'm': 0.5 is neither a tensor of a program nor a metric"),
        (lambda: program.metrics(m=x), "metrics: m is float32[n], not a scalar; take ops.mean(m)"),
        (
            lambda: program.metrics(m=own_metric("int64", total)),
            f"the metric 'm' adds to the totals int64[] and gives ({total!r},); give a tuple of these types",
        ),
        (lambda: program.metrics(m=own_metric("float32", foreign)), "the metric 'm' is of tensors of another program"),
        (
            lambda: program.entry("evaluate", m=metrics.summed({"n": ops.sum(y > 0.0)}, lambda n: n)),
            "add: %sum_4: int64[] belongs to another program; build both in one",
        ),
    ]
    for call, sentence in cases:
        with pytest.raises(OpError) as caught:
            call()
        assert str(caught.value).partition(": ")[2] == sentence
