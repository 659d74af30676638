"""Known answers about gradients of conditions and loops that other systems get wrong: both engines, one thread and two.

The cases are those that Paddle's loops and conditions have failed, computed for 32 rows of 64 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fuzz.engines import stepped

from compiler import Program, gradients, ops
from registry import Value

SHAPE = (32, 64)
X = np.random.default_rng(6).normal(size=SHAPE)
Case = tuple[Callable[..., Value], Sequence[np.ndarray], Sequence[np.ndarray]]
"""A function, its arguments, and the gradients of the sum of its elements."""


def full(value: float) -> np.ndarray:
    return np.full(SHAPE, float(value))


def loop(body: Callable[..., tuple[Value, ...]], *carries: Value, trips: int = 2) -> Value:
    """The first carry after some trips, which a carry of integers counts."""
    zero = ops.full.on(carries[0])(shape=(), value=0, dtype="int64")
    last, _ = ops.while_loop(
        lambda *c: c[-1] < trips, lambda *c: (*body(*c[:-1]), c[-1] + 1), *carries, zero, max_trips=4
    )
    return last[0]


def branch(x: Value, a: Value, b: Value) -> Value:
    return ops.cond(ops.sum(x) > 0, lambda: x * a, lambda: x * b)


def nested(x: Value, a: Value, b: Value) -> Value:
    return ops.cond(
        ops.sum(x) > 0, lambda: ops.cond(ops.sum(a) > 0, lambda: x * a, lambda: x * x), lambda: ops.sin(x) * b
    )


def unrolled(x: np.ndarray, w: np.ndarray, steps: int) -> list[np.ndarray]:
    """The gradients of a recurrent layer h = tanh(h w), from x on, by the chain rule written out."""
    states = [x]
    for _ in range(steps):
        states.append(np.tanh(states[-1] @ w))
    dh, dw = np.ones_like(x), np.zeros_like(w)
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        inner = dh * (1 - after * after)
        dw += before.T @ inner
        dh = inner @ w.T
    return [dh, dw]


W = np.random.default_rng(7).normal(size=(64, 64)) / 8

CASES: dict[str, Case] = {
    "x = x + i, twice: 1 and 2": (lambda x, i: loop(lambda x: (x + i,), x), [X, X], [full(1), full(2)]),
    "x = x * x, twice, at 2: 32": (lambda x: loop(lambda x: (x * x,), x), [full(2)], [full(32)]),
    "x = i * i and i = i + 1, twice, at 1: 0 and 4": (
        lambda x, i: loop(lambda x, i: (i * i, i + 1.0), x, i),
        [X, full(1)],
        [full(0), full(4)],
    ),
    "no trip: 1 for the carry, 0 for what the body reads": (
        lambda x, w: loop(lambda x: (x * w,), x, trips=0),
        [X, X],
        [full(1), full(0)],
    ),
    "a condition that is true: zeros for what the other branch reads": (
        branch,
        [abs(X), full(3), full(5)],
        [full(3), abs(X), full(0)],
    ),
    "a condition that is false: zeros for what the other branch reads": (
        branch,
        [-abs(X), full(3), full(5)],
        [full(5), full(0), -abs(X)],
    ),
    "nothing through a predicate that depends on the operand": (
        lambda x: ops.cond(ops.sum(x * x) > 1.0, lambda: x * 2.0, lambda: x * x * x),
        [X],
        [full(2)],
    ),
    "a condition in a condition": (nested, [abs(X), full(-3), full(5)], [2 * abs(X), full(0), full(0)]),
    "the other branch of the outer condition": (
        nested,
        [-abs(X), full(3), full(5)],
        [np.cos(X) * 5, full(0), np.sin(-abs(X))],
    ),
    "a recurrent layer and its unrolled form, with weights that the body reads": (
        lambda x, w: loop(lambda h: (ops.tanh(h @ w),), x, trips=4),
        [X, W],
        unrolled(X, W, 4),
    ),
    "the same as a scan": (
        lambda x, w: ops.scan(lambda h, _: (ops.tanh(h @ w), None), x, length=4)[0],
        [X, W],
        unrolled(X, W, 4),
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("engine", "threads"), [("reference", 1), ("native", 1), ("native", 2)])
@pytest.mark.parametrize("case", CASES)
def test_a_gradient_has_its_known_answer(case: str, engine: str, threads: int):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    function, arrays, wanted = CASES[case]
    program = Program(case)
    given = [program.input(f"x{i}", "float64", x.shape) for i, x in enumerate(arrays)]
    found = gradients(ops.sum(function(*given)), given)
    outputs = {f"dx{i}": dx for i, dx in enumerate(found) if dx is not None}
    program.outputs(**outputs)
    feeds = {f"x{i}": x for i, x in enumerate(arrays)}
    told = stepped(program.compile().desc, "predict", feeds, 1, engine, threads)[0]
    for i, dx in enumerate(wanted):
        got = told[f"dx{i}"] if f"dx{i}" in outputs else np.zeros_like(dx)
        np.testing.assert_allclose(got, dx, rtol=1e-11, atol=1e-12, err_msg=f"dx{i}")
