"""Scans whose iterations are independent, which threads share: equal bits on one thread, on two and on three."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from fuzz.engines import judged
from native.bound import lowered as lowered_block

from compiler import Program, ops, sgd
from prograd_proto import program_pb2 as pb
from registry import Value
from runtime import Run
from runtime.__main__ import main
from runtime.codegen.lowering.control import iterations_of_a_round
from runtime.engines.choice import ENGINES
from runtime.engines.engine import EngineOptions
from runtime.engines.native.cpu import this_machine
from runtime.entries import bound_entries
from runtime.errors import ExecutionError

RNG = np.random.default_rng(9)
SHARED = "2 threads share its iterations, each with a copy of the block's memory"


def explained(desc: pb.ProgramDesc, entry: str) -> list[str]:
    engine = ENGINES["native"](desc, EngineOptions(threads=2))
    return [line.strip() for bound in bound_entries(desc, entry) for line in engine.explain(bound)]


def is_shared(desc: pb.ProgramDesc, entry: str = "predict") -> bool:
    return any(line.endswith(SHARED) for line in explained(desc, entry))


def normalised(row: Value, w: Value) -> Value:
    return ops.softmax(ops.tanh(row) @ w) + ops.mean(row)


def with_a_scan(row: Value, w: Value) -> Value:
    last, rows = ops.scan(lambda c, r: (ops.tanh(c * 0.5 + r), c), row[0] * 0.0, row)
    return last + ops.sum(rows, axis=0) * w[0]


def with_a_condition(row: Value, w: Value) -> Value:
    return ops.cond(ops.sum(row) > 0, lambda: ops.cumsum(row, axis=0) @ w, lambda: ops.sort(row, axis=0))


def with_a_bounded_loop(row: Value, w: Value) -> Value:
    return ops.while_loop(lambda c: ops.mean(c) < 1.0, lambda c: c * 1.5 + w[0], ops.abs(row), max_trips=9)[0]


def with_a_map(row: Value, w: Value) -> Value:
    return ops.map(lambda r: ops.cumsum(r, axis=0) * w[1], row)


def with_random_numbers(row: Value, w: Value) -> Value:
    drawn = ops.dropout(ops.cumsum(row, axis=0), ratio=0.5) + ops.uniform.on(row)(shape=row.shape)
    return ops.cumsum(drawn * ops.normal.on(row)(shape=(64,)), axis=0) * w[2]


def with_random_numbers_inside(row: Value, w: Value) -> Value:
    _, rows = ops.scan(lambda c, r: (c, ops.dropout(r, ratio=0.5) * w[0]), row[0], row)
    return ops.cumsum(rows, axis=0)


CASES: dict[str, Callable[[Value, Value], Value]] = {
    "products and reductions": normalised,
    "a scan inside": with_a_scan,
    "a condition inside": with_a_condition,
    "a bounded loop inside": with_a_bounded_loop,
    "a map inside": with_a_map,
    "random numbers": with_random_numbers,
    "random numbers in a scan inside": with_random_numbers_inside,
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_map_has_the_bits_of_one_thread(case: str):
    program = Program(case, seed=4)
    x, w = program.input("x", "float32", (48, 8, 64)), program.parameter("w", (64, 64))
    y = ops.map(lambda row: CASES[case](row, w), x)
    program.minimize(ops.mean(ops.square(y)), sgd(0.1))
    program.outputs(y=y)
    desc = program.compile().desc
    assert is_shared(desc)
    verdict = judged(desc, {"x": RNG.normal(size=(48, 8, 64)).astype(np.float32)}, (1, 2, 3), case)
    assert verdict.word == "agreed", verdict


RESULTS: dict[str, Callable[[Value], tuple[Value, ...]]] = {
    "an argument": lambda row: (row, ops.sort(row)),
    "a tensor twice": lambda row: (c := ops.cumsum(row, axis=0), c, c * 2.0),
    "a constant": lambda row: (row[:3] * 0.0 + 2.0, ops.cumsum(row, axis=0)),
    "another shape": lambda row: (ops.reshape(ops.cumsum(row, axis=0), shape=(8, 8)), ops.sum(row)),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [8, 9, 300])
@pytest.mark.parametrize("case", RESULTS)
def test_results_of_every_origin(case: str, length: int, reverse: bool):
    program = Program()
    x = program.input("x", "float32", (length, 64))
    _, rows = ops.scan(lambda _, row: ((), RESULTS[case](row)), (), x, reverse=reverse)
    program.outputs(**{f"y{i}": row for i, row in enumerate(rows)})
    desc = program.compile().desc
    verdict = judged(desc, {"x": RNG.normal(size=(length, 64)).astype(np.float32)}, (1, 2, 3), case)
    assert verdict.word == "agreed", verdict


def heavy(row: Value) -> Value:
    for _ in range(12):
        row = ops.tanh(ops.matmul(row, row, transpose_b=True)) @ row * 0.5
    return row


def test_many_long_iterations_take_several_rounds():
    program = Program()
    x = program.input("x", "float32", (700, 32, 64))
    program.outputs(y=ops.map(heavy, x))
    desc = program.compile().desc
    assert is_shared(desc)
    [bound] = bound_entries(desc, "predict")
    block = lowered_block(bound.block, [], this_machine(), threads=2, blocks=desc.blocks)
    [op] = [op for op in bound.block.ops if op.type == "scan"]
    assert 1 < 700 / iterations_of_a_round(block, op) <= 4
    feed = {"x": RNG.normal(size=(700, 32, 64)).astype(np.float32) / 8}
    found = [Run(desc, engine="native", threads=threads).step(feed, entry="predict")["y"] for threads in (1, 2)]
    np.testing.assert_array_equal(*found)


def test_loops_that_cannot_be_shared_are_not():
    def shared(body: Callable[[Value], Value], shape: tuple[int, ...]) -> bool:
        program = Program()
        program.outputs(y=ops.map(body, program.input("x", "float32", shape)))
        return is_shared(program.compile().desc)

    assert shared(lambda row: ops.cumsum(row, axis=0), (64, 256))
    assert not shared(lambda row: ops.cumsum(row, axis=0), (7, 256)), "fewer than four iterations a thread"
    assert not shared(lambda row: ops.cumsum(row, axis=0), (8, 4)), "too little work"
    assert not shared(lambda row: ops.cholesky(row), (64, 16, 16)), "NumPy computes an op"
    assert not shared(lambda row: ops.while_loop(lambda c: ops.sum(c) > 1.0, lambda c: c * 0.5, row)[0], (64, 256))
    assert not shared(
        lambda row: ops.sum(ops.cumsum(ops.unsqueeze(row, axis=1) @ ops.unsqueeze(row, axis=0), axis=0)), (9, 2048)
    ), "memory"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_an_index_out_of_range_names_the_iteration(engine: str):
    program = Program()
    table, i = program.input("table", "float32", (50, 64)), program.input("i", "int64", (40, 32))
    program.outputs(y=ops.map(lambda row: ops.cumsum(ops.gather(table, row), axis=0), i))
    desc = program.compile().desc
    assert is_shared(desc)
    run = Run(desc, engine=engine, threads=2)
    feed = {"table": RNG.normal(size=(50, 64)).astype(np.float32), "i": RNG.integers(0, 50, (40, 32))}
    first = run.step(feed, entry="predict")["y"].copy()
    feed["i"][33, 7] = 50
    with pytest.raises(ExecutionError, match=r"\(scan from .*iteration 33: op \d+ \(gather from .*50"):
        run.step(feed, entry="predict")
    feed["i"][33, 7] = 49
    assert run.step(feed, entry="predict")["y"].shape == first.shape


def test_combined_steps_have_the_bits_of_single_steps():
    def trained(threads: int, ahead: int) -> np.ndarray:
        program = Program(seed=8)
        x, w = program.input("x", "float32", ("batch", 64)), program.parameter("w", (64,))
        y = ops.map(lambda row: ops.cumsum(row * w, axis=0), x)
        program.minimize(ops.mean(ops.square(y)), sgd(0.01))
        desc = program.compile(batch=32).desc
        assert is_shared(desc, "train")
        rows = {"x": np.random.default_rng(2).normal(size=(192, 64)).astype(np.float32)}
        run = Run(desc, engine="native", threads=threads)
        for _ in run.events(data=rows, epochs=3, ahead=ahead):
            pass
        return np.array(run.state["w"])

    wanted = trained(1, 1)
    for threads, ahead in ((2, 1), (2, 1000), (3, 1000)):
        np.testing.assert_array_equal(trained(threads, ahead), wanted)


ENDLESS: dict[str, Callable[[Value], Value]] = {
    "a loop in a map": lambda x: ops.map(
        lambda row: ops.while_loop(lambda c: ops.sum(c) < 1e9, lambda c: c * 0.5, row)[0], x
    ),
    "a map in a loop": lambda x: ops.while_loop(
        lambda c: ops.sum(c) < 1e9, lambda c: ops.map(lambda row: ops.cumsum(row, axis=0) * 0.01, c), x
    )[0],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("case", ENDLESS)
def test_a_limit_of_time_ends_loops_around_maps_and_in_them(
    case: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = Program(case)
    program.outputs(y=ENDLESS[case](program.input("x", "float32", (64, 256))))
    desc = program.compile()
    assert is_shared(desc.desc) == (case == "a map in a loop")
    desc.save(tmp_path / "p.pb")
    np.save(tmp_path / "x.npy", np.zeros((64, 256), np.float32))
    monkeypatch.chdir(tmp_path)
    arguments = ["--entry", "predict", "--feed=x=@x.npy", "-q", "--max-time", "0.7", "--threads", "2"]
    assert main(["execute", "p.pb", *arguments, "--engine", engine]) == 6
