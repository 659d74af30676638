"""Budgets of programs with loops: the gradient computes again what the loop would store, with equal bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler import LimitError, Program, Value, constant, ops, sgd
from compiler.build.compiled import Compiled
from prograd_proto.errors import ProgramError
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


@pytest.mark.thorough
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


def deep() -> Compiled:
    """Layers of 256 before a loop over them and behind it, whose activations wait for the gradient."""
    made = Program(seed=1)
    x = made.input("x", "float32", (64, 256))
    weights = [made.parameter(f"w{i}", (256, 256)) for i in range(9)]

    def layers(h: Value, some: list[Value]) -> Value:
        for w in some:
            h = ops.tanh(h @ w)
        return h

    h, rows = ops.scan(lambda c, _: (ops.tanh(c @ weights[8]), ops.sum(c, axis=1)), layers(x, weights[:4]), length=6)
    made.minimize(ops.mean(ops.square(layers(h, weights[4:8]))) + ops.mean(rows), sgd(0.1))
    return made.compile()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_values_wait_in_a_file_while_a_loop_runs_with_equal_bits(engine: str, tmp_path: Path):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")

    def states(compiled: Compiled, threads: int) -> list[bytes]:
        run = Run(copy_of(compiled.desc), engine=engine, threads=threads, spill=tmp_path)
        for _ in range(2):
            run.step({"x": np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)})
        found = [run.states.arrays[name].tobytes() for name in sorted(run.states.arrays)]
        run.close()
        return found

    compiled = deep()
    before, wanted = arena(compiled), states(compiled, 1)
    compiled.plan(budget=int(before * 0.8), spill=True, seconds=5)
    block = compiled.desc.blocks[compiled.desc.entries[0].bindings[0].block]
    types = [op.type for op in block.ops]
    assert types.index("spill") < types.index("scan") < len(types) - types[::-1].index("reload")
    assert arena(compiled) <= before * 0.8
    assert states(compiled, 1) == wanted
    assert states(compiled, 2) == wanted


def test_an_op_that_moves_values_to_a_file_is_refused_in_a_loop_by_compile_and_by_run():
    made = Program()
    x = made.input("x", "float32", (32, 64))
    made.outputs(last=ops.scan(lambda c, _: (ops.reload(ops.spill(c)) * 2.0, None), x, length=3)[0])
    with pytest.raises(
        ProgramError, match=r"^[^;]*op 1 \(spill\) has an effect; this breaks the rule: no op in a block of"
    ):
        made.compile()
    made = Program()
    x = made.input("x", "float32", (32, 64))
    made.outputs(last=ops.scan(lambda c, _: (ops.tanh(c), None), x, length=3)[0])
    desc = copy_of(made.compile().desc)
    for op in (op for block in desc.blocks for op in block.ops if op.type == "tanh"):
        op.type = "spill"
    next(version for version in desc.operators if version.type == "tanh").type = "spill"
    with pytest.raises(ProgramError) as raised:
        Run(desc, engine="reference")
    assert str(raised.value).endswith(
        "): it has effects, and lies in a block of another op; call it outside of loops and conditions"
    ), raised.value
