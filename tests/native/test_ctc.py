"""The loss of labels without times and its gradient, against the reference."""

import numpy as np
import pytest
from native.building import every_target
from native.made import check

import runtime
from compiler import Program, ops, sgd
from registry import OPS
from runtime.engines.native.cpu import this_machine


def both(blank):
    def write(x, labels, dy, *lengths):
        loss = OPS["ctc"](x, labels, *lengths, blank=blank)
        return loss, OPS["ctc_gradient"](x, labels, dy, *lengths, blank=blank)

    return write


def operands(rows=5, steps=23, classes=11, labels=9, dtype="float32"):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2, (rows, steps, classes))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    given = rng.integers(1, 4, (rows, labels))  # neighbours are often equal
    return [x.astype(dtype), given, rng.normal(0, 1, rows).astype(dtype)]


LENGTHS = np.array([23, 7, 0, 5, 20]), np.array([9, 3, 0, 9, 8])
"""Numbers of steps and of labels; the fourth row has too few steps for its labels."""


@every_target
def test_rows_of_all_lengths(target):
    x, labels, dy = operands()
    x[1, 7:] = np.nan
    labels[1, 3:] = -5
    check(both(0), [x, labels, dy, *LENGTHS], target, near=2e-5, threads=2)


@pytest.mark.parametrize(("steps", "labels", "dtype"), [(1, 1, "float64"), (60, 20, "float64"), (40, 16, "float32")])
def test_rows_without_lengths(steps, labels, dtype):
    x, given, dy = operands(2, steps, 6, labels, dtype)
    check(both(5), [x, given.astype("int32"), dy], this_machine(), near=2e-5 if dtype == "float32" else 1e-12)


def test_what_is_not_finite_goes_where_it_goes_in_the_reference():
    x, labels, dy = operands()
    x[0, 3, 1], x[3, 2, 0], x[4, 19, labels[4, 7]] = np.nan, -np.inf, np.inf
    dy[1] = np.inf
    check(both(0), [x, labels, dy, *LENGTHS], this_machine(), near=2e-5)


@pytest.mark.parametrize(
    ("wrong", "says"), [("label", "label 11 is out of"), ("blank", "is the blank"), ("length", "24 is out")]
)
def test_wrong_labels_and_lengths_are_refused_as_by_the_reference(wrong, says):
    x, labels, _ = operands()
    steps, counts = (lengths.copy() for lengths in LENGTHS)
    if wrong == "length":
        steps[2] = 24
    else:
        labels[4, 7] = {"label": 11, "blank": 0}[wrong]
    program, fed = Program("wrong"), {"labels": labels, "steps": steps, "counts": counts}
    given = [program.input(name, value.dtype.name, value.shape) for name, value in fed.items()]
    program.minimize(ops.mean(ops.ctc(program.parameter("x", x.shape), *given)), sgd(0.1))
    run = runtime.Run(program.compile().desc, engine="native")
    with pytest.raises(runtime.ExecutionError, match=says):
        run.step(fed)
