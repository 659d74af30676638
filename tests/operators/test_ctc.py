"""The loss of labels without times, held to the sum over every path written out."""

from functools import partial
from itertools import groupby, product
from math import inf

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import evaluate

from compiler import Program, adam, ops
from registry import OpError, Value
from runtime.errors import ExecutionError
from runtime.runs.run import Run


def spelled(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Return the labels of a path: equal neighbours merged, then blanks removed."""
    return tuple(label for label, _ in groupby(path) if label != blank)


def by_paths(p: np.ndarray, labels: tuple[int, ...], blank: int) -> tuple[float, np.ndarray]:
    """The loss for probabilities [t, classes], and its derivative for their logarithms."""
    steps, classes = p.shape
    every, at = 0.0, np.zeros_like(p)
    for path in product(range(classes), repeat=steps):
        if spelled(path, blank) == labels:
            likely = float(np.prod([p[t, label] for t, label in enumerate(path)]))
            every += likely
            for t, label in enumerate(path):
                at[t, label] += likely
    return (-np.log(every), -at / every) if every else (inf, at)


def both(x: Value, labels: Value, dy: Value, *lengths: Value, blank: int = 0) -> tuple[Value, Value]:
    return ops.ctc(x, labels, *lengths, blank=blank), ops.ctc_gradient(x, labels, dy, *lengths, blank=blank)


CASES: dict[str, tuple[list[tuple[int, ...]], list[int], int, int]] = {
    # labels of each row, its steps, classes, blank
    "one label": ([(1,), (2,)], [4, 4], 3, 0),
    "different labels": ([(1, 2, 1), (2, 1, 2)], [5, 3], 3, 0),
    "repeated labels": ([(1, 1), (2, 2)], [5, 3], 3, 0),
    "no labels": ([(), ()], [3, 1], 3, 0),
    "rows of different lengths": ([(1, 2), (), (2,), (1, 1, 2)], [2, 5, 3, 5], 3, 0),
    "no steps": ([(), (1,)], [0, 0], 3, 0),
    "labels that do not fit into the steps": ([(1, 1), (1, 2, 1), (2,)], [2, 2, 1], 3, 0),
    "a blank in the middle": ([(0, 2), (2, 2)], [4, 4], 3, 1),
    "a blank at the end": ([(0, 2, 2), (1, 2, 0)], [4, 4], 4, 3),
    "nothing but blanks": ([(), ()], [3, 2], 1, 0),
}


def arrays(rows: list[tuple[int, ...]], steps: list[int], classes: int, blank: int) -> tuple[np.ndarray, ...]:
    """Logarithms, labels and lengths; what lies beyond the lengths is NaN or no class at all."""
    rng = np.random.default_rng(len(rows) + classes)
    x = rng.normal(size=(len(rows), max(steps), classes))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    labels = np.full((len(rows), max(map(len, rows))), -7)
    for row, given in enumerate(rows):
        x[row, steps[row] :] = np.nan
        labels[row, : len(given)] = given
    return x, labels, np.array(steps), np.array([len(row) for row in rows])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_loss_and_its_gradient_are_sums_over_all_paths(case):
    rows, steps, _, blank = case
    x, labels, input_lengths, label_lengths = arrays(*case)
    dy = np.linspace(0.5, 2, len(rows))

    loss, dx = evaluate(partial(both, blank=blank), x, labels, dy, input_lengths, label_lengths)
    for row, given in enumerate(rows):
        wanted, slope = by_paths(np.exp(x[row, : steps[row]]), given, blank)
        np.testing.assert_allclose(loss[row], wanted, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(dx[row, : steps[row]], slope * dy[row], rtol=1e-11, atol=1e-15)
        assert not dx[row, steps[row] :].any()


def test_lengths_that_are_left_out_are_whole():
    x, labels, *lengths = arrays([(1, 2), (2, 2)], [4, 4], 3, 0)
    whole = evaluate(ops.ctc, x, labels, *lengths)
    np.testing.assert_array_equal(evaluate(ops.ctc, x, labels), whole)
    assert evaluate(ops.ctc_loss, x, labels) == pytest.approx(np.mean(whole / 2))


def test_a_class_that_is_ruled_out_leaves_the_other_paths():
    x, labels, *_ = arrays([(1,)], [3], 3, 0)
    x[0, 1, 1] = -inf
    wanted, slope = by_paths(np.exp(x[0]), (1,), 0)
    loss, dx = evaluate(both, x, labels, np.ones(1))
    np.testing.assert_allclose(loss, [wanted], rtol=1e-12)
    np.testing.assert_allclose(dx[0], slope, rtol=1e-12)


def test_long_float32_sequences_neither_underflow_nor_lose_their_gradient():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 800, 30)).astype(np.float32) * 4
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    labels = rng.integers(1, 30, (2, 60))

    loss, dx = evaluate(both, x, labels, np.ones(2, np.float32))
    exact, slope = evaluate(both, x.astype(np.float64), labels, np.ones(2))
    assert exact.min() > 1000, "probabilities of less than e^-1000 are none in any float"
    np.testing.assert_allclose(loss, exact, rtol=1e-5)
    np.testing.assert_allclose(dx, slope, atol=2e-4)
    np.testing.assert_allclose(slope.sum(-1), -1, rtol=1e-9)  # at each step a path has one class


def test_the_mean_is_of_losses_per_label_and_infinite_ones_can_count_for_nothing():
    case = [(1, 2), (1, 1), ()], [3, 2, 2], 3, 0
    x, labels, *lengths = arrays(*case)
    x = np.nan_to_num(x)
    each = evaluate(lambda *v: ops.ctc_loss(*v, reduction="none"), x, labels, *lengths)
    assert list(np.isinf(each)) == [False, True, False]
    finite = np.where(np.isinf(each), 0, each)
    np.testing.assert_array_equal(
        evaluate(lambda *v: ops.ctc_loss(*v, zero_infinity=True, reduction="none"), x, labels, *lengths), finite
    )
    for reduction, wanted in (("sum", finite.sum()), ("mean", np.mean(finite / np.maximum(lengths[1], 1)))):
        total = evaluate(lambda *v, r=reduction: ops.ctc_loss(*v, zero_infinity=True, reduction=r), x, labels, *lengths)
        assert total == pytest.approx(wanted, rel=1e-12)
        assert evaluate(lambda *v, r=reduction: ops.ctc_loss(*v, reduction=r), x, labels, *lengths) == inf


VALUES = [
    ([[1, 3]], [3], [2], "label 3 is out of range: there are 3 classes, from 0"),
    ([[-1, 1]], [3], [2], "label -1 is out of range: there are 3 classes, from 0"),
    ([[1, 0]], [3], [2], "label 0 is the blank, which stands between labels and is none"),
    ([[1, 2]], [4], [2], "length 4 is out of range: there are 3 steps"),
    ([[1, 2]], [3], [-1], "length -1 is out of range: there are 2 labels"),
]


@pytest.mark.parametrize(("labels", "steps", "counts", "sentence"), VALUES)
def test_labels_and_lengths_that_cannot_be_stop_the_run(labels, steps, counts, sentence):
    given = np.zeros((1, 3, 3)), *(np.array(values) for values in (labels, steps, counts))
    assert told(ExecutionError, lambda: evaluate(ops.ctc, *given)).endswith(sentence)


TYPES = [
    ([("x", "float32", (5, 3))], {}, "the logarithms are [5, 3], not [rows, steps, classes]"),
    ([], {"blank": 3}, "blank=3 is not among the classes 0 ... 2"),
    ([("l", "float32", (2, 4))], {}, "labels are int32 or int64, not float32"),
    ([("l", "int64", (3, 4))], {}, "labels have the shape [3, 4], not [2, labels]"),
    ([("a", "int64", (3,))], {}, "input_lengths have the shape [3], not [2]"),
    ([("b", "float32", (2,))], {}, "label_lengths are int32 or int64, not float32"),
]


@pytest.mark.parametrize(("changes", "attributes", "sentence"), TYPES)
def test_operands_that_do_not_fit_are_one_sentence(changes, attributes, sentence):
    types = {"x": ("float32", (2, 5, 3)), "l": ("int64", (2, 4)), "a": ("int64", (2,)), "b": ("int64", (2,))}
    types |= {name: (dtype, shape) for name, dtype, shape in changes}
    program = Program("p")
    operands = [program.input(name, dtype, shape) for name, (dtype, shape) in types.items()]
    assert told(OpError, lambda: ops.ctc(*operands, **attributes)).endswith(f": {sentence}")


def test_a_model_learns_to_spell():
    program = Program("spell", seed=3)
    x = program.input("x", "float32", ("batch", 8, 6))
    labels = program.input("labels", "int64", ("batch", 3))
    w = program.parameter("w", (6, 4))
    logarithms = ops.log_softmax(ops.matmul(x, w))
    program.minimize(ops.ctc_loss(logarithms, labels), adam(rate=0.1))
    program.outputs(best=ops.argmax(logarithms, axis=2))
    words = np.array([[1, 2, 3], [3, 1, 2], [2, 2, 1], [1, 3, 1]])
    frames = np.zeros((4, 8, 6), np.float32)
    for row, word in enumerate(words):
        for i, label in enumerate(word):
            frames[row, 2 * i + 1, label] = 1  # when a label happens is nowhere said
    frames[:, :, 4] = 1
    run = Run(program.compile(batch=4).desc)
    losses = [float(run.step({"x": frames, "labels": words})["loss"]) for _ in range(120)]
    assert losses[-1] < 0.1 < 1 < losses[0]
    best = run.predict({"x": frames}, entry="predict")["best"]
    assert [spelled(tuple(path), 0) for path in best] == [tuple(word) for word in words]
