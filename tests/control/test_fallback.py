"""Ops without a lowering rule in loops and conditions: NumPy computes them between compiled phases."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from fuzz.engines import judged

from compiler import Program, ops, sgd
from prograd_proto import program_pb2 as pb
from registry import Value
from runtime import Run
from runtime.__main__ import main
from runtime.engines.choice import ENGINES
from runtime.engines.engine import EngineOptions
from runtime.entries import bound_entries
from runtime.errors import ExecutionError

RNG = np.random.default_rng(8)


def explained(desc: pb.ProgramDesc, entry: str) -> list[str]:
    engine = ENGINES["native"](desc, EngineOptions(threads=2))
    return [line.strip() for bound in bound_entries(desc, entry) for line in engine.explain(bound)]


def spread(x: Value) -> Value:
    """A symmetric matrix with a known inverse; 64 rows and more."""
    return ops.matmul(x, x, transpose_b=True) / 64.0 + ops.eye.on(x)(shape=(x.shape[0], x.shape[0]))


def shuffled(x: Value) -> Value:
    return ops.gather(x, ops.permutation.on(x)(count=x.shape[0]))


def in_a_scan(x: Value) -> Value:
    last, rows = ops.scan(lambda c, row: (ops.tanh(shuffled(c) + row) * 0.5, ops.sum(c, axis=1)), x[0], x)
    return ops.sum(last, axis=0) + ops.mean(rows)


def as_a_carry(x: Value) -> Value:
    """The op reads the carry and its result is the next one."""
    last, _ = ops.scan(lambda c, row: (ops.cholesky(spread(c + row)), None), x[0], x, reverse=True)
    return ops.sum(last, axis=0)


def rows_alone(x: Value) -> Value:
    """The op reads a row and writes a row."""
    return ops.sum(ops.map(lambda row: ops.cholesky(row), ops.map(spread, x)), axis=(0, 1))


def in_a_condition(x: Value) -> Value:
    return ops.cond(ops.sum(x) > 0, lambda: ops.sum(ops.cholesky(spread(x[1])), axis=0), lambda: ops.sum(x[0], axis=0))


def in_a_while_loop(x: Value) -> Value:
    last, trips = ops.while_loop(
        lambda c: ops.log_determinant(spread(c))[1] > 1.0, lambda c: shuffled(c) * 0.8, x[0], max_trips=40
    )
    return ops.sum(last, axis=0) + ops.cast(trips, dtype="float32")


def in_a_loop_in_a_loop(x: Value) -> Value:
    def outer(c: Value, row: Value) -> tuple[Value, Value]:
        inner, _ = ops.scan(lambda c, _: (ops.sin(shuffled(c)) + row, None), c, length=3)
        return ops.cond(ops.sum(row) > 0, lambda: shuffled(inner), lambda: inner * 0.5), ops.sum(inner, axis=0)

    last, rows = ops.scan(outer, x[0], x)
    return ops.sum(last, axis=0) + ops.sum(rows, axis=0)


CASES: dict[str, Callable[[Value], Value]] = {
    "scan": in_a_scan,
    "carry": as_a_carry,
    "rows": rows_alone,
    "cond": in_a_condition,
    "while": in_a_while_loop,
    "nested": in_a_loop_in_a_loop,
}


def network(case: str) -> pb.ProgramDesc:
    program = Program(case, seed=3)
    x, w = program.input("x", "float32", (5, 64, 64)), program.parameter("w", (64,))
    y = CASES[case](x * w)
    program.minimize(ops.mean(ops.square(y)), sgd(0.1))
    program.outputs(y=y)
    return program.compile().desc


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", CASES)
def test_training_and_predictions_are_those_of_the_reference_engine(case: str):
    desc = network(case)
    feeds = {"x": RNG.normal(size=(5, 64, 64)).astype(np.float32) / 2}
    verdict = judged(desc, feeds, (1, 2), case)
    assert verdict.word == "agreed", verdict
    lines = explained(desc, "train")
    assert any(line.startswith("by NumPy in each iteration, without a lowering rule: ") for line in lines), lines
    assert any(line.startswith("compiled with their blocks: ") for line in lines), lines


def test_show_says_which_ops_numpy_computes_and_where():
    lines = explained(network("nested"), "predict")
    assert "compiled with their blocks: scan 1" in lines
    refused = "; compiler build refuses such ops"
    assert f"by NumPy, between them: permutation 1{refused}" in lines  # in the line of the inner block
    assert f"by NumPy in each iteration, without a lowering rule: permutation 2{refused}" in lines


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_names_the_iterations_and_the_op_inside(engine: str, threads: int):
    program = Program()
    x = program.input("x", "float32", (2, 3, 32, 32))
    program.outputs(y=ops.map(lambda rows: ops.map(lambda m: ops.cholesky(m) * 2.0, rows), x))
    run = Run(program.compile().desc, engine=engine, threads=threads)
    feed = np.broadcast_to(np.eye(32, dtype=np.float32), (2, 3, 32, 32)).copy()
    np.testing.assert_array_equal(run.step({"x": feed}, entry="predict")["y"], 2 * feed)
    feed[1, 2, 5, 5] = -1.0
    with pytest.raises(ExecutionError) as raised:
        run.step({"x": feed}, entry="predict")
    text = str(raised.value)
    assert text.index("(scan from") < text.index("iteration 1: ") < text.index("iteration 2: ")
    assert text.endswith("is not positive definite: pivot 5 is -1, not above 0"), text
    feed[1, 2, 5, 5] = 1.0
    np.testing.assert_array_equal(run.step({"x": feed}, entry="predict")["y"], 2 * feed)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_loop_that_numpy_helps_to_compute_ends_at_the_limit_of_time(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    program = Program()
    x = program.input("x", "float32", (32, 64))
    last, _ = ops.while_loop(lambda c: ops.sum(c) < 1e9, lambda c: shuffled(c) * 0.9, x)
    program.outputs(last=last)
    program.compile().save(tmp_path / "p.pb")
    np.save(tmp_path / "x.npy", np.zeros((32, 64), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("runtime.runs.overtime.EXTRA_CALL_SECONDS", 600.0)  # a busy machine must not end this process
    arguments = ["execute", "p.pb", "--entry", "predict", "--feed=x=@x.npy", "-q", "--max-time", "0.7"]
    assert main([*arguments, "--engine", engine]) == 6
    assert re.search(r"op \d+ \(while_loop from .*the run took its 0.7 seconds", capsys.readouterr().err)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_nan_in_an_op_that_numpy_computes_names_the_iteration(engine: str):
    program = Program()
    x = program.input("x", "float32", (4, 32, 32))
    program.outputs(y=ops.map(lambda m: ops.log_determinant(m)[1] * 2.0, x))
    run = Run(program.compile().desc, engine=engine, check_nan=True)
    feed = np.broadcast_to(np.eye(32, dtype=np.float32), (4, 32, 32)).copy()
    run.step({"x": feed}, entry="predict")
    feed[2] = 0.0
    with pytest.raises(ExecutionError, match=r"iteration 2: op \d+ \(log_determinant from"):
        run.step({"x": feed}, entry="predict")
