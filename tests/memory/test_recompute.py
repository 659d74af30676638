"""Scopes whose forward ops run again in the backward pass, by `Program.recompute` and `compiler plan --recompute`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

import prograd
from compiler.__main__ import main
from compiler.errors import CompileError
from compiler.planning.units import forward_ops
from prograd import Program, adam, layers, ops
from prograd_proto.blocks import BlockAnalyses
from registry import OpError

RNG = np.random.default_rng(0)
FED = {name: RNG.normal(size=(32, 32, 64)).astype("f4") for name in "xy"}
ENGINES = ("reference", "native")


def built(*scopes: str, rate: bool = False) -> Program:
    program = Program("net", seed=1)
    x, y = (program.input(name, "float32", ("batch", 32, 64)) for name in "xy")
    with program.scope("layers"):
        for number in range(3):
            with program.scope(f"{number}"):
                x = ops.dropout(layers.transformer_block(x, "block", 4), ratio=0.1)
    program.minimize(ops.squared_error(x, y), adam(program.setting("rate", 1e-3) if rate else 1e-3))
    if scopes:
        program.recompute(*scopes)
    return program


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_scopes_run_again_with_equal_bits_in_less_memory(engine: str):
    plain = built().compile(batch=32)
    [before] = [b for b in plain.plan().bindings if b.entry == "train"]
    assert (before.repeated, before.arena_before) == (0, None)
    hashes, arenas = set[str](), list[int]()
    for scopes in ((), ("layers.0",), ("layers.*",)):
        compiled = built(*scopes).compile(batch=32)
        [memory] = [b for b in compiled.plan().bindings if b.entry == "train"]
        assert memory.arena_before == (before.plan.arena_bytes if scopes else None)
        assert (memory.repeated > 0) is bool(scopes)
        arenas.append(memory.plan.arena_bytes)
        run = prograd.Run(compiled, engine=engine)  # type: ignore[arg-type]
        for _ in range(2):
            run.step(FED)
        hashes.add(run.state_sha256)
    assert len(hashes) == 1
    assert arenas[0] > arenas[1] > arenas[2]
    assert arenas[2] < 0.7 * arenas[0]


def test_several_scopes_by_name_are_those_of_a_pattern():
    named, matched = (built(*scopes).compile(batch=32) for scopes in (("layers.0", "layers.1,layers.2"), ("layers.*",)))
    assert named.desc.blocks == matched.desc.blocks


def test_each_op_of_a_scope_runs_at_most_twice_and_others_once():
    compiled = built("layers.1").compile(batch=32)
    [binding] = [b for entry in compiled.desc.entries if entry.name == "train" for b in entry.bindings]
    block = compiled.desc.blocks[binding.block]
    again = [op.recompute_of for op in block.ops if op.recompute_of]
    assert len(again) == len(set(again)) > 5
    made = {op.id: op.outputs[0] for op in block.ops}
    assert all(made[number].startswith("layers.1.") for number in again)


@pytest.mark.thorough
def test_a_budget_is_kept_beside_recomputed_scopes():
    compiled = built("layers.0").compile(batch=32)
    [memory] = [b for b in compiled.plan().bindings if b.entry == "train"]
    budget = memory.plan.arena_bytes * 3 // 4
    [within] = [b for b in compiled.plan(budget=budget).bindings if b.entry == "train"]
    assert within.plan.arena_bytes <= budget
    assert within.repeated > memory.repeated
    runs = [prograd.Run(each) for each in (compiled, built().compile(batch=32))]
    for run in runs:
        run.step(FED)
    assert runs[0].state_sha256 == runs[1].state_sha256


def test_the_ops_of_a_rate_are_no_part_of_the_forward_pass():
    compiled = built(rate=True).compile(batch=32)
    [binding] = [b for entry in compiled.desc.entries if entry.name == "train" for b in entry.bindings]
    block = BlockAnalyses(compiled.desc)[binding.block]
    names = [block.ops[number].outputs[0] for number in forward_ops(block)]
    assert any(name.startswith("layers.2.") for name in names)
    updates = {name for op in block.ops if op.type == "adam" for name in op.inputs}
    assert not updates & {*names}


def test_the_command_shows_the_arena_before_and_writes_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    built().compile(batch=32).save("net.pb")
    assert main(["plan", "net.pb", "--recompute", "layers.*", "-o", "small.pb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  recomputed scopes: arena ") and line.endswith(" before") for line in lines)
    runs = [prograd.load(name) for name in ("net.pb", "small.pb")]
    for run in runs:
        run.step(FED)
    assert runs[0].state_sha256 == runs[1].state_sha256
    assert runs[0].sha256 != runs[1].sha256


@pytest.mark.thorough
def test_patterns_without_scopes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(CompileError) as caught:
        built("layer.*").compile(batch=32)
    words = "'layer.*' matches no scope of a step with a backward pass; did you mean 'layers.2'?"
    assert str(caught.value) == f"recompute_scopes: {words}"
    with pytest.raises(OpError) as wrong:
        built().recompute()
    assert str(wrong.value).endswith('recompute: name the scopes that run again, as in recompute("layers.*")')
    monkeypatch.chdir(tmp_path)
    built().compile(batch=32).save("net.pb")
    before = Path("net.pb").read_bytes()
    assert main(["plan", "net.pb", "--recompute", "layer.*", "--in-place"]) != 0
    assert capsys.readouterr().err == f"compiler: net.pb: recompute_scopes: {words}\n"
    assert Path("net.pb").read_bytes() == before
    program = Program("flat", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.minimize(ops.sum(x * program.parameter("w", (64,))), adam(1e-3))
    program.recompute("layers.*")
    assert told(CompileError, lambda: program.compile(batch=32)) == (
        "recompute_scopes: 'layers.*' matches no scope of a step with a backward pass; no name of a tensor has a scope"
    )
