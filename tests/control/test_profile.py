"""`runtime profile`: the ops in loops and conditions, on both engines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiler import Program, ops, sgd
from registry import Value
from runtime.__main__ import main
from runtime.engines.reference.executor import ReferenceExecutor

ENGINES = ["reference", "native"]


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program("nested", seed=1)
    x, w = program.input("x", "float32", (32, 64)), program.parameter("w", (64, 64))

    def outer(c: Value, _: None) -> tuple[Value, None]:
        c, _ = ops.scan(lambda c, _: (ops.tanh(c @ w), None), c, length=3)
        return ops.cond(ops.sum(c) > 1e9, lambda: ops.cumsum(c, axis=0), lambda: ops.log_determinant(w)[1] + c), None

    last, _ = ops.scan(outer, x, length=5)
    rows = ops.map(lambda row: ops.cumsum(row, axis=0), x)
    program.outputs(last=last, rows=rows)
    program.minimize(ops.mean(last) + ops.mean(rows), sgd(0.1))
    program.compile().save(tmp_path / "p.pb")
    plain = Program("plain")
    plain.outputs(y=plain.input("x", "float32", (3,)) * 2.0)
    plain.compile().save(tmp_path / "plain.pb")
    monkeypatch.chdir(tmp_path)


def profiled(engine: str, capsys: pytest.CaptureFixture[str], entry: str, *more: str) -> str:
    assert main(["profile", "p.pb", "--entry", entry, "--engine", engine, "--steps", "2", *more]) == 0
    return capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("engine", ENGINES)
def test_ops_in_blocks_are_listed_with_their_calls(engine: str, threads: str, capsys: pytest.CaptureFixture[str]):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    told = json.loads(profiled(engine, capsys, "predict", "--threads", threads, "--json"))
    calls = {group["name"]: group["calls"] // told["steps"] for group in told["inside"]}
    assert all(group["seconds"] > 0 and group["median"] > 0 for group in told["inside"])
    if engine == "reference":
        assert (calls["matmul in scan"], calls["tanh in scan"]) == (15, 15)
        assert (calls["log_determinant in cond"], calls["cumsum in scan"]) == (5, 32)
        assert "cumsum in cond" not in calls
    else:
        assert calls["matmul+tanh in scan"] == 15
        assert calls["log_determinant by NumPy in cond"] == 5
        assert calls["iterations of scan on 2 threads" if threads == "2" else "cumsum in scan"] >= 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_table_has_its_own_title_and_no_memory(engine: str, capsys: pytest.CaptureFixture[str]):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    tables = profiled(engine, capsys, "train").split("\n\n")
    [inside] = [table for table in tables if table.startswith("in loops and conditions")]
    assert inside.splitlines()[0].split() == [
        *("in", "loops", "and", "conditions"),
        *("calls/step", "us/step", "us/call", "share"),
    ]
    assert sum(float(line.split()[-1].rstrip("%")) for line in inside.splitlines()[1:]) == pytest.approx(100, abs=2)


def test_a_program_without_blocks_has_no_such_table(capsys: pytest.CaptureFixture[str]):
    assert main(["profile", "plain.pb", "--entry", "predict", "--engine", "reference"]) == 0
    assert "in loops and conditions" not in capsys.readouterr().out


@pytest.mark.parametrize("engine", ENGINES)
def test_profiled_steps_have_the_bits_of_other_steps(engine: str):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    from runtime import load

    run = load("p.pb", engine=engine, threads=2)
    feed = {"x": np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32)}
    wanted = run.step(feed, entry="predict")["last"].copy()
    executor = run.session.workspaces.executor(run.session.bindings("predict")[0])
    np.copyto(executor.feeds["x"], feed["x"])
    assert executor.profile_blocks()
    np.testing.assert_array_equal(executor.fetches["last"], wanted)
    executor.step()
    np.testing.assert_array_equal(executor.fetches["last"], wanted)
    assert engine != "reference" or isinstance(executor, ReferenceExecutor)
