"""Recurrent layers as they are computed with what is around them: products of features, gradients, what is 0."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest
from native.bound import lowered
from native.building import HERE
from native.made import Made, check

from registry import OPS, Value
from runtime.codegen.groups.group import Group
from runtime.codegen.lowering.chunks import chunks_of
from runtime.codegen.machine import target


class Case(NamedTuple):
    """A layer: rows, steps, features, states; what its gradient is given and who reads what."""

    rows: int
    times: int
    features: int
    states: int
    reverse: bool = False
    is_masked: bool = False
    is_last: bool = True  # only the last step has a gradient
    is_first: bool = False  # the first state's gradient is read, and the cells are
    dtype: str = "float32"


CASES = {
    "a product of few rows": Case(3, 4, 5, 17),
    "features too": Case(9, 3, 5, 40),
    "the other way, all read": Case(8, 5, 16, 16, reverse=True, is_last=False, is_first=True),
    "masked": Case(13, 4, 3, 33, is_masked=True, is_last=False),
    "masked, the other way, in float64": Case(8, 3, 9, 12, reverse=True, is_masked=True, dtype="float64"),
    "one step": Case(8, 1, 1, 1, is_first=True),
    "parts that hold several vectors": Case(3, 2, 2, 70, is_first=True, is_last=False),
}
GATES = {"rnn_layer": 1, "gru_layer": 3, "lstm_layer": 4}


def layer(op: str, case: Case):
    """The layer, and its gradient, of features, weights, biases, first states, and gradients of results."""

    def write(x, w, b, r, more, h0, c0, dh, dc, last, mask) -> Iterable[Value]:
        given = OPS["add"](OPS["matmul"](x, w), b)
        operands = [given, r, *([more] if op == "gru_layer" else []), h0, *([c0] if op == "lstm_layer" else [])]
        made = OPS[op](*operands, mask, reverse=case.reverse)
        made = [made] if isinstance(made, Value) else [*made]
        if case.is_last:
            step = 0 if case.reverse else case.times - 1
            span = {"axis": (1,), "starts": (step,), "stops": (step + 1,), "strides": (1,)}
            dh = OPS["unslice"](last, shape=tuple(dh.shape), **span)
        if case.is_last and op == "lstm_layer":
            dc = OPS["full"].on(dh.block)(shape=tuple(dc.shape), value=0.0, dtype=case.dtype)
        gradients = [dh, *([dc] if op == "lstm_layer" else [])]
        back = [*OPS[f"{op}_gradient"](*operands, *made, *gradients, mask, reverse=case.reverse)]
        given = back[: 2 if op == "gru_layer" else 1]
        read = [*made, *back] if case.is_first else [made[0], *given]
        read += [OPS["sum"](value, axis=(0, 1), keepdims=False) for value in given]
        return [OPS["neg"](value) for value in read]  # so that results are no ends

    return write


def operands(op: str, case: Case) -> list[np.ndarray | None]:
    rng, gates = np.random.default_rng(case.rows), GATES[op]
    n, t, c, h = case[:4]
    inside = [(n, t, c), (c, gates * h), (gates * h,), (h, gates * h), (gates * h,), (n, h), (n, h)]
    shapes = [*inside, (n, t, h), (n, t, h), (n, 1, h)]
    mask = rng.random((n, t)) < 0.6 if case.is_masked else None
    return [*((rng.normal(size=shape) / 2).astype(case.dtype) for shape in shapes), mask]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("op", GATES)
def test_a_layer_and_its_gradient_together_compute_what_their_kernels_do(op: str, name: str):
    case, number = CASES[name], list(CASES).index(name)
    near = {"float32": 2e-5, "float64": 1e-12}[case.dtype]
    for here in dict.fromkeys((HERE[0], HERE[number % len(HERE)])):
        check(layer(op, case), operands(op, case), target(here), near, end=number % 2 == 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", GATES)
def test_no_bit_depends_on_threads(op: str):
    case = Case(9, 6, 20, 130)
    made = Made(layer(op, case), operands(op, case))
    first, *others = [made.native(target(HERE[0]), threads) for threads in (1, 2, 4)]
    for found in others:
        for a, b in zip(first, found, strict=True):
            assert a.tobytes() == b.tobytes()


def groups(op: str, case: Case) -> list[Group]:
    return lowered(Made(layer(op, case), operands(op, case)).desc, (), target(HERE[0])).groups


@pytest.mark.parametrize("op", ["gru_layer", "lstm_layer"])
def test_what_the_gradient_needs_is_kept_and_what_nobody_reads_left_out(op: str):
    found = {group.name: group.nodes[0] for group in groups(op, CASES["features too"])}
    ahead, back = found[op], found[f"{op}_gradient"]
    assert ahead.outputs[-1] == back.inputs[-1]
    numbers = (3, 4, 5, 0, 1, 2) if op == "gru_layer" else (3, 5, 6, 0, 1, 2)
    assert [name for name in ahead.inputs if name] == [f"x{i}" for i in numbers]
    assert not {"matmul", "matmul+add", "unslice", "full", "sum", "sum+neg"} & found.keys()
    assert len(ahead.outputs) == 2  # states and what is kept, no cells
    assert len(back.outputs) == (4 if op == "gru_layer" else 2)  # and their sums


def test_many_rows_are_not_added_up_in_one_chain():
    case = Case(257, 1, 1, 1)
    check(layer("lstm_layer", case), operands("lstm_layer", case), target(HERE[0]), 2e-5)
    names = [group.name for group in groups("lstm_layer", case)]
    assert "sum+neg" in names


@pytest.mark.parametrize("op", ["gru_layer", "lstm_layer"])
def test_a_product_of_few_rows_is_made_at_once(op: str):
    names = [group.name for group in groups(op, CASES["a product of few rows"])]
    assert "matmul+add" in names


@pytest.mark.thorough
@pytest.mark.parametrize(("step", "reverse", "is_last"), [(3, False, True), (0, True, True), (2, False, False)])
@pytest.mark.parametrize("op", GATES)
def test_a_layer_that_is_read_at_its_end_writes_no_other_step(op: str, step: int, reverse: bool, is_last: bool):
    case = Case(9, 4, 5, 40)

    def write(x, w, b, r, more, h0, c0, *_) -> Iterable[Value]:
        given = OPS["add"](OPS["matmul"](x, w), b)
        firsts = [h0, c0] if op == "lstm_layer" else [h0]
        made = OPS[op](given, r, *([more] if op == "gru_layer" else []), *firsts, None, reverse=reverse)
        states = made if isinstance(made, Value) else made[0]
        taken = OPS["slice"](states, axis=(1,), starts=(step,), stops=(step + 1,), strides=(1,))
        return [OPS["neg"](taken)]

    feeds = operands(op, case)
    for here in HERE:
        check(write, feeds, target(here), 2e-5)
    step_of = lowered(Made(write, feeds).desc, (), target(HERE[0]))
    [layer] = [i for i, group in enumerate(step_of.groups) if group.name == op]
    assert (step_of.steps[layer].steps[-1].work_items == case.rows) == is_last  # which copies what the last step left


@pytest.mark.parametrize(("rows", "wanted"), [(3, 2), (2, 4)])
def test_a_thread_does_its_share_of_a_step_at_once_but_of_few_rows(rows: int, wanted: int):
    case = Case(rows, 3, 300, 520)
    step = lowered(Made(layer("lstm_layer", case), operands("lstm_layer", case)).desc, (), target("avx2"), 2)
    found = chunks_of(step.steps, step.phases, 2)
    backwards = next(i for i, group in enumerate(step.groups) if group.name == "lstm_layer_gradient")
    assert len(found[step.phases.first[backwards] + 2]) == wanted
