"""A loss that compares each prediction with the labels of all rows, which broadcasting makes of two shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prograd import OpError, Program, Value, adam, layers, ops


def minimized(loss: Callable[[Value, Value], Value], *label: int) -> Program:
    program = Program("p", seed=1)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch", *label))
    program.minimize(loss(layers.dense(x, "o", 1), y), adam(0.01))
    return program


CROSSED: dict[str, tuple[Callable[[Value, Value], Value], tuple[int, ...], str]] = {
    "subtracted": (lambda p, y: ops.mean(ops.square(p - y)), (), "sub(float32[batch, 1], float32[batch])"),
    "the other way": (lambda p, y: ops.mean(ops.abs(y - p)), (), "sub(float32[batch], float32[batch, 1])"),
    "flat predictions": (
        lambda p, y: ops.mean(ops.square(p[:, 0] - y)),
        (1,),
        "sub(float32[batch], float32[batch, 1])",
    ),
    "scaled labels": (lambda p, y: ops.mean(p * (y * 2.0 + 1.0)), (), "mul(float32[batch, 1], float32[batch])"),
}


@pytest.mark.parametrize("case", CROSSED)
def test_a_loss_of_all_pairs_of_rows_is_refused(case: str):
    loss, label, call = CROSSED[case]
    with pytest.raises(OpError) as caught:
        minimized(loss, *label)
    head, _, said = str(caught.value).partition("minimize: ")
    assert head.startswith("tests/mistakes/test_crossed_rows.py:")
    assert said.startswith(f"{call} in tests/mistakes/test_crossed_rows.py:")
    assert said.endswith(
        " makes float32[batch, batch]: each row meets the labels of all rows; give both operands one shape, as by "
        "prediction[:, 0], or write label[None, :] if that is meant"
    )


MEANT: dict[str, Callable[[Value, Value], Value]] = {
    "one shape": lambda p, y: ops.mean(ops.square(p[:, 0] - y)),
    "both of two axes": lambda p, y: ops.mean(ops.square(p - y[:, None])),
    "pairs that are written": lambda p, y: ops.mean(ops.square(p - y[None, :])),
    "pairs of predictions": lambda p, y: ops.mean(ops.square(p - p[:, 0])) + ops.mean(p[:, 0] * y),
    "pairs of labels": lambda p, y: ops.mean(ops.square(y[:, None] - y) * 0.1) + ops.mean(p[:, 0] * y),
}


@pytest.mark.parametrize("case", MEANT)
def test_other_losses_are_minimized(case: str):
    minimized(MEANT[case]).compile(batch=32)
