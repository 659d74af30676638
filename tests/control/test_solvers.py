"""Solvers as loops until a tolerance: without a bound in predictions, with one in training, on both engines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.engines import stepped

from compiler import Program, gradients, ops
from registry import Value

SIZE = 64
RNG = np.random.default_rng(9)
A = (lambda m: m @ m.T / SIZE + np.eye(SIZE))(RNG.normal(size=(SIZE, SIZE)))
B = RNG.normal(size=(SIZE, 1))
ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])


def conjugate_gradients(a: Value, b: Value, max_trips: int | None = None) -> tuple[Value, Value]:
    """Return x with a @ x = b [n, 1], for a symmetric and positive definite a, and the number of steps."""

    def step(x: Value, rest: Value, direction: Value, size: Value) -> tuple[Value, Value, Value, Value]:
        turned = a @ direction
        far = size / ops.sum(direction * turned)
        x, rest = x + far * direction, rest - far * turned
        after = ops.sum(rest * rest)
        return x, rest, rest + after / size * direction, after

    first = b * 0.0, b, b, ops.sum(b * b)
    (x, *_), trips = ops.while_loop(lambda x, rest, direction, size: size > 1e-22, step, *first, max_trips=max_trips)
    return x, trips


@ENGINES
def test_conjugate_gradients_solve_without_a_bound(engine: str):
    program = Program("solver")
    x, trips = conjugate_gradients(program.input("a", "float64", A.shape), program.input("b", "float64", B.shape))
    program.outputs(x=x, trips=trips)
    found = stepped(program.compile().desc, "predict", {"a": A, "b": B}, 1, engine)[0]
    np.testing.assert_allclose(found["x"], np.linalg.solve(A, B), rtol=1e-9, atol=1e-11)
    assert 10 < found["trips"] < SIZE


@ENGINES
@pytest.mark.parametrize("save", ["all", "carries"])
def test_the_gradient_of_a_solver_with_a_bound_is_that_of_the_solution(engine: str, save: str):
    program = Program("square root")
    a = program.input("a", "float64", (32, SIZE))
    root, _ = ops.while_loop(
        lambda x: ops.max(ops.abs(x * x - a)) > 1e-12, lambda x: (x + a / x) * 0.5, a, max_trips=40, save=save
    )
    [da] = gradients(ops.sum(root), [a])
    program.outputs(root=root, da=da)
    given = RNG.uniform(0.5, 9.0, size=(32, SIZE))
    found = stepped(program.compile().desc, "predict", {"a": given}, 1, engine)[0]
    np.testing.assert_allclose(found["root"], np.sqrt(given), rtol=1e-12)
    np.testing.assert_allclose(found["da"], 0.5 / np.sqrt(given), rtol=1e-9)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_gradient_through_conjugate_gradients_is_a_solution_itself(engine: str):
    program = Program("solver")
    a, b = program.input("a", "float64", A.shape), program.input("b", "float64", B.shape)
    x, _ = conjugate_gradients(a, b, max_trips=SIZE)
    [db] = gradients(ops.sum(ops.square(x)), [b])
    program.outputs(db=db)
    found = stepped(program.compile().desc, "predict", {"a": A, "b": B}, 1, engine)[0]
    np.testing.assert_allclose(found["db"], np.linalg.solve(A, 2.0 * np.linalg.solve(A, B)), rtol=1e-6, atol=1e-8)


@ENGINES
@pytest.mark.parametrize("tolerance", [1e-9, -1.0], ids=["it ends", "it never ends"])
def test_a_limit_of_time_ends_a_loop_that_does_not_end(
    engine: str, tolerance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from runtime.__main__ import main

    program = Program("square root")
    a = program.input("a", "float64", ())
    root, trips = ops.while_loop(lambda x: ops.abs(x * x - a) > tolerance, lambda x: (x + a / x) * 0.5, a)
    program.outputs(root=root, trips=trips)
    program.compile().save(tmp_path / "p.pb")
    monkeypatch.chdir(tmp_path)
    arguments = ["--entry", "predict", "--feed=a=2.0", "-q", "--max-time", "60" if tolerance > 0 else "0.5"]
    code = main(["execute", "p.pb", *arguments, "--engine", engine])
    out, err = capsys.readouterr()
    if tolerance > 0:
        assert (code, err) == (0, "")
        assert "root=1.41421 trips=4" in out
    else:
        assert (code, out) == (6, "")
        assert re.search("the run took its 0.5 seconds", err)
