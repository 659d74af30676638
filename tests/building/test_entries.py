"""Feeds of entries and fetches that count rows, for any passes over the blocks that run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import Program, ops, sgd
from compiler.build.compiled import compile_program
from compiler.passes.pipeline import PASSES
from prograd_proto import program_pb2 as pb
from runtime import Run

EACH_LEFT_OUT = [None, "fold_constants", "simplify", "merge_identical", "order_ops"]

left_out = pytest.mark.parametrize("left_out", EACH_LEFT_OUT)


def compiled_without(program: Program, left_out: str | None, **sizes: int) -> Run:
    """A run of the program, compiled with all passes but one."""
    return Run(program.compile(PASSES.without(*([left_out] if left_out else [])), **sizes).desc)


def rows_or_a_table() -> Program:
    """Two tensors of one value that look alike for four rows: one has a number a row, one is a table."""
    program = Program()
    x = program.input("x", "float32", ("batch", 4))
    full = ops.full.on(x.block)
    program.outputs(y=x * 2, a=full(shape=("batch", 4), value=1.5), b=full(shape=(4, 4), value=1.5))
    return program


@left_out
@pytest.mark.parametrize("batch", [1, 2, 4, 8])
def test_the_types_that_were_built_say_which_fetches_count_rows(
    batch: int, left_out: str | None, monkeypatch: pytest.MonkeyPatch
):
    run = compiled_without(rows_or_a_table(), left_out, batch=batch)
    fetched = run.predict(np.ones((8, 4), "float32"))
    assert {name: array.shape for name, array in fetched.items()} == {"y": (8, 4), "a": (8, 4), "b": (4, 4)}


@left_out
@pytest.mark.parametrize(("batch", "total"), [(1, 6.0), (2, 4.0), (4, 3.0)])
def test_a_metric_that_is_the_tensor_of_rows_for_one_row_is_still_a_metric(
    batch: int, total: float, left_out: str | None, monkeypatch: pytest.MonkeyPatch
):
    program = Program()
    x = program.input("x", "float32", ("batch",))
    program.entry("evaluate", over="sum", largest=ops.max(x, axis=(0,), keepdims=True), s=x)
    run = compiled_without(program, left_out, batch=batch)
    assert run.evaluate({"x": np.arange(4, dtype="float32")}) == {"largest": total}


def test_without_a_symbol_too_a_result_does_not_count_rows_because_it_is_the_feed():
    program = Program()
    x = program.input("x", "float32", (2,))
    program.outputs(same=x * 1.0)
    fetched = Run(program.compile().desc).predict(np.ones(6, "float32"))
    assert fetched["same"].shape == (2,)


def chosen_by_a_constant() -> tuple[Program, str]:
    program = Program()
    x, y = program.input("x", "float32", (2,)), program.input("y", "float32", (2,))
    program.outputs(z=ops.where(ops.full.on(x.block)(shape=(), value=2.0) > 1.0, x, y))
    return program, "x"


def second_part_of_what_was_joined() -> tuple[Program, str]:
    program = Program()
    x, y = program.input("x", "float32", (2,)), program.input("y", "float32", (2,))
    program.outputs(z=ops.split(ops.concat(x, y), sizes=(2, 2))[1])
    return program, "y"


@left_out
@pytest.mark.parametrize("build", [chosen_by_a_constant, second_part_of_what_was_joined])
def test_a_feed_that_nothing_reads_once_sizes_and_constants_are_known_stays_a_feed(
    build: Callable[[], tuple[Program, str]], left_out: str | None, monkeypatch: pytest.MonkeyPatch
):
    program, given = build()
    feeds = {"x": np.float32([1, 2]), "y": np.float32([3, 4])}
    run = compiled_without(program, left_out)
    np.testing.assert_array_equal(run.predict(feeds)["z"], feeds[given])
    again = compile_program(pb.ProgramDesc.FromString(run.program.SerializeToString()), {})
    assert again.desc == run.program or left_out


def test_two_losses_without_names_are_numbered():
    program = Program("two")
    x = program.input("x", "float32", ("batch", 3))
    for name in ("a", "b"):
        program.minimize(ops.mean(x * program.parameter(name, (3,))), sgd(0.1))
    found = Run(program.compile(batch=2)).step({"x": np.ones((2, 3), np.float32)})
    assert list(found) == ["loss", "rate", "loss2", "rate2"]
