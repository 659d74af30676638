"""Budgets of programs with loops: the gradient computes again what the loop would store, with equal bits."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import LimitError, Program, Value, constant, ops, sgd
from compiler.build.compiled import Compiled
from prograd_proto.files import copy_of
from runtime import Run

X = np.random.default_rng(3).normal(size=(32, 8, 6)).astype(np.float32)


def program(kind: str) -> Compiled:
    made = Program(seed=5)
    x = made.input("x", "float32", (32, 8, 6))
    w = made.parameter("w", (6, 6), constant(0.1))

    def cell(c: Value) -> Value:
        for _ in range(3):
            c = ops.tanh(ops.exp(ops.sin(c * 0.5) * 0.1) * c)
        noise = ops.dropout(c, ratio=0.25) if kind == "random" else c
        return ops.cond(ops.sum(c) > 0, lambda: ops.sin(noise) * 0.5 + c, lambda: noise @ w)

    if kind == "while":
        last, _ = ops.while_loop(
            lambda c, n: n < 28, lambda c, n: (cell(c @ w), n + 1), x[0], made.constant(0, "int64"), max_trips=32
        )
        made.minimize(ops.sum(last[0] * last[0]), sgd(0.01))
    else:
        last, _ = ops.scan(lambda c, row: (cell(c @ w + row), None), x[0] * 0.0, x, reverse=kind == "reverse")
        made.minimize(ops.sum(last * last), sgd(0.01))
    return made.compile()


def trained(compiled: Compiled, engine: str) -> bytes:
    run = Run(copy_of(compiled.desc), engine=engine)
    for _ in range(2):
        run.step({"x": X} if "x" in [f for b in run.session.bindings("train") for f in b.feeds] else {}, entry="train")
    found = run.states.arrays["w"].tobytes()
    run.close()
    return found


def arena(compiled: Compiled) -> int:
    return max(b.plan.arena_bytes for entry in compiled.desc.entries for b in entry.bindings)


@pytest.mark.parametrize("kind", ["scan", "reverse", "random", "while"])
def test_a_budget_lets_gradients_of_loops_compute_again_with_equal_bits(kind: str):
    compiled = program(kind)
    before, bits = arena(compiled), trained(compiled, "reference")
    assert compiled.plan(budget=before // 2, seconds=5) is not None
    assert arena(compiled) <= before // 2
    assert trained(compiled, "reference") == bits


def test_a_budget_that_is_met_without_it_leaves_loops_alone():
    compiled = program("scan")
    before = [block.SerializeToString() for block in compiled.desc.blocks]
    compiled.plan(budget=2 * arena(compiled))
    assert [block.SerializeToString() for block in compiled.desc.blocks] == before


def test_a_budget_that_no_way_meets_is_refused_and_the_program_stays():
    compiled = program("scan")
    before = compiled.desc.SerializeToString()
    with pytest.raises(LimitError):
        compiled.plan(budget=5000, seconds=2)
    assert compiled.desc.SerializeToString() == before
