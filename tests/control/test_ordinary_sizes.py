"""Loops of ordinary sizes: values and gradients beside loops of NumPy, and equal bits on one thread and on two."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import Program, Value, gradients, ops
from runtime import Run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 32, 64)) * 0.5
W = RNG.normal(size=(64, 64)) * 0.1
WIDE = RNG.normal(size=(32, 256)) * 0.5
STEPS = np.arange(1, 9)

Results = dict[str, np.ndarray]
Build = Callable[..., dict[str, Value]]


def results(build: Build, feeds: Results, dtype: str) -> dict[tuple[str, int], Results]:
    """Return the outputs of a program by engine and number of threads."""
    program = Program("loops", seed=4)
    given = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in feeds.items()}
    program.outputs(**build(**{k: program.input(k, v.dtype.name, v.shape) for k, v in given.items()}))
    desc = program.compile().desc
    found: dict[tuple[str, int], Results] = {}
    for engine, threads in (("reference", 1), ("native", 1), ("native", 2)):
        run = Run(desc, engine=engine, threads=threads)
        try:
            made = run.step(given, entry="predict")
            found[engine, threads] = {name: np.array(array) for name, array in made.items()}
        finally:
            run.close()
    return found


def mapped(x: Value, w: Value) -> dict[str, Value]:
    y = ops.map(lambda row: ops.sum(ops.square(ops.tanh(row @ w))), x)
    dx, dw = gradients(ops.sum(y), [x, w])
    return {"y": y, "dx": dx, "dw": dw}


def mapped_by_numpy() -> Results:
    z = np.tanh(X @ W)
    dz = 2 * z * (1 - z * z)
    return {"y": (z * z).sum((1, 2)), "dx": dz @ W.T, "dw": np.einsum("nij,nik->jk", X, dz)}


def recurrent(save: str) -> Build:
    def build(x: Value, w: Value) -> dict[str, Value]:
        def step(h: Value, row: Value) -> tuple[Value, Value]:
            h = ops.tanh(row + h @ w)
            return h, h

        last, rows = ops.scan(step, x[0] * 0.0, x, save=save)
        [dw] = gradients(ops.sum(rows * rows), [w])
        return {"last": last, "rows": rows, "dw": dw}

    return build


def recurrent_by_numpy() -> Results:
    h = [X[0] * 0]
    for row in X:
        h.append(np.tanh(row + h[-1] @ W))
    dw, dh = W * 0, X[0] * 0
    for i in range(7, -1, -1):
        dz = (dh + 2 * h[i + 1]) * (1 - h[i + 1] ** 2)
        dw, dh = dw + h[i].T @ dz, dz @ W.T
    return {"last": h[-1], "rows": np.stack(h[1:]), "dw": dw}


def with_an_integer_carry(x: Value, steps: Value) -> dict[str, Value]:
    def step(carry: tuple[Value, Value], by: Value) -> tuple[tuple[Value, Value], Value]:
        total, n = carry
        return (total + ops.gather(x[0], ops.remainder(n, 32)), n + by), n

    (total, n), rows = ops.scan(step, (x[0, 0] * 0.0, steps[0] * 0), steps)
    [dx] = gradients(ops.sum(total * total), [x])
    return {"total": total, "n": n, "rows": rows, "dx": dx}


def with_an_integer_carry_by_numpy() -> Results:
    total, counts, n, rows = np.zeros(64), np.zeros(32), 0, list[int]()
    for by in STEPS.tolist():
        total = total + X[0][n % 32]
        counts[n % 32] += 1
        rows.append(n)
        n += by
    dx = X * 0
    dx[0] = counts[:, None] * 2 * total
    return {"total": total, "n": np.array(n), "rows": np.array(rows), "dx": dx}


def nested(x: Value, w: Value) -> dict[str, Value]:
    """A loop of several trips and a condition inside a scan."""

    def step(c: Value, row: Value) -> tuple[Value, Value]:
        d, trips = ops.while_loop(
            lambda q: ops.mean(q * q) > 0.05, lambda q: ops.tanh(q @ w) + q * 0.5, c + row, max_trips=6
        )
        return ops.cond(trips > 2, lambda: d * 2.0, lambda: d - row), trips

    last, trips = ops.scan(step, x[0], x)
    return {"last": last, "trips": trips}


def nested_by_numpy() -> Results:
    c, counts = X[0], list[int]()
    for row in X:
        q, trips = c + row, 0
        while (q * q).mean() > 0.05 and trips < 6:
            q, trips = np.tanh(q @ W) + q * 0.5, trips + 1
        counts.append(trips)
        c = q * 2 if trips > 2 else q - row
    return {"last": c, "trips": np.array(counts)}


def until(bound: float, most: int) -> Build:
    def build(a: Value) -> dict[str, Value]:
        y, trips = ops.while_loop(lambda c: ops.sum(c * c) > bound, lambda c: ops.sin(c) * 0.9, a, max_trips=most)
        [da] = gradients(ops.sum(y * y), [a])
        return {"y": y, "trips": trips, "da": da}

    return build


def until_by_numpy(bound: float, most: int) -> Results:
    c, slope, trips = WIDE, np.ones_like(WIDE), 0
    while (c * c).sum() > bound and trips < most:
        c, slope, trips = np.sin(c) * 0.9, slope * np.cos(c) * 0.9, trips + 1
    return {"y": c, "trips": np.array(trips), "da": 2 * c * slope}


CASES: dict[str, tuple[Build, Results, Results]] = {
    "map": (mapped, {"x": X, "w": W}, mapped_by_numpy()),
    "scan, all": (recurrent("all"), {"x": X, "w": W}, recurrent_by_numpy()),
    "scan, carries": (recurrent("carries"), {"x": X, "w": W}, recurrent_by_numpy()),
    "integer carry": (with_an_integer_carry, {"x": X, "steps": STEPS}, with_an_integer_carry_by_numpy()),
    "nested": (nested, {"x": X, "w": W}, nested_by_numpy()),
    "while": (until(10.0, 64), {"a": WIDE}, until_by_numpy(10.0, 64)),
    "while, no trip": (until(1e9, 64), {"a": WIDE}, until_by_numpy(1e9, 64)),
    "while, at its bound": (until(0.0, 5), {"a": WIDE}, until_by_numpy(0.0, 5)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 2e-4)])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_a_loop_of_numpy(case: str, dtype: str, tolerance: float):
    pytest.importorskip("llvmlite", reason="the native engine is an extra")
    build, feeds, wanted = CASES[case]
    found = results(build, feeds, dtype)
    for by in found.values():
        assert by.keys() == wanted.keys()
        for name, x in wanted.items():
            if x.dtype.kind != "f":
                np.testing.assert_array_equal(by[name], x, err_msg=name)
            else:
                size = max(1.0, float(np.abs(x).max()))
                np.testing.assert_allclose(by[name], x, rtol=0, atol=tolerance * size, err_msg=name)
    one, two = found["native", 1], found["native", 2]
    assert {name: x.tobytes() for name, x in one.items()} == {name: x.tobytes() for name, x in two.items()}
