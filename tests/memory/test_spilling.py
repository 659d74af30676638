"""Values that wait in a file to keep a budget: the budget holds, the file is planned, and every bit of a run stays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.memory import Placed, collide
from oracles.poison import Poisoned
from subjects.budgets import deep, normalised, placed_of, spilled_buffers
from subjects.commands import run_compiler as run
from subjects.commands import told
from subjects.random_training import training_programs
from subjects.steps import Oracle, Stepper, bound_block, bound_blocks, same_bits

from compiler import Program, adam, constant, global_norm, momentum, ops
from compiler.analyses.step_graph import step_graph
from compiler.build.compiled import Compiled
from compiler.errors import LimitError
from compiler.passes.plan_memory import plan_of
from compiler.passes.verify import verify
from compiler.planning.prefetch import prefetch
from compiler.planning.rematerialise import lower
from compiler.planning.timeline import RELOAD, SPILL, Choice, Timeline, spill, timeline_of
from compiler.planning.write_timeline import write_timeline
from compiler.train.optimizers import Optimizer
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.identity import program_sha256
from runtime.engines.reference.target import REFERENCE
from runtime.step import places_within
from runtime.step.arithmetic import operations_of


def wide() -> Program:
    """A chain whose values cost much to compute again: products with large matrices."""
    program = Program("wide")
    h = program.input("x", "float32", ("n", 64))
    for i in range(6):
        h = ops.tanh(h @ program.parameter(f"w{i}", (64, 64), constant(0.01 + i / 1000)))
    program.minimize(ops.mean(ops.square(h)), momentum(0.1))
    return program


def arena_of(compiled: Compiled) -> int:
    return compiled.desc.entries[0].bindings[0].plan.arena_bytes


def moves(block: pb.BlockDesc) -> list[str]:
    return [op.type for op in block.ops if op.type in ("spill", "reload")]


def test_what_is_dear_to_compute_again_waits_in_the_file():
    compiled = wide().compile(n=4096)
    budget = arena_of(compiled) // 2
    train = compiled.plan(budget=budget, spill=True).bindings[0]
    assert train.plan.arena_bytes <= budget
    assert train.cost < 1.05
    moved = moves(bound_block(compiled.desc))
    assert moved.count("spill") == train.spilled > 0
    assert moved.count("reload") >= train.spilled
    assert train.moved >= 2 * train.spilled * 64 * 4096
    verify(BlockAnalyses(compiled.desc))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("optimizer", [momentum(0.1), adam(0.01, clip=global_norm(0.1))], ids=["plain", "clipped"])
@pytest.mark.parametrize(("build", "rows"), [(deep, 64), (normalised, 8)], ids=["dropout", "batch_norm"])
def test_a_run_with_a_file_has_the_bits_of_a_plain_one(
    build: Callable[[Optimizer], Program], rows: int, optimizer: Optimizer
):
    plain, tight = build(optimizer).compile(n=rows), build(optimizer).compile(n=rows)
    report = tight.plan(budget=arena_of(plain) * 3 // 4, spill=True)
    assert report.bindings[0].spilled or report.bindings[0].repeated
    one, other = Stepper(plain), Poisoned(tight)
    for seed in range(3):
        feeds = {name: np.random.default_rng(seed).normal(size=feed.shape) for name, feed in one.executor.feeds.items()}
        same_bits(one.step(**feeds), other.step(**feeds))
        same_bits(one.snapshot(), other.snapshot())


@pytest.mark.thorough
@given(program=training_programs(), part=st.sampled_from([0.4, 0.6, 0.8]))
@settings(max_examples=15)
def test_any_program_keeps_its_bits_and_its_budget_or_says_that_it_cannot(program: Program, part: float):
    compiled = program.compile(rows=16)
    budget = int(arena_of(compiled) * part)
    try:
        compiled.plan(budget=budget, spill=True)
    except LimitError:
        return
    for entry in compiled.desc.entries:
        for binding in entry.bindings:
            block = compiled.desc.blocks[binding.block]
            placed = placed_of(block, binding.plan)
            assert max((p.offset + p.nbytes for p in placed), default=0) <= binding.plan.arena_bytes <= budget
            assert not any(collide(a, b) for i, a in enumerate(placed) for b in placed[:i])
            in_file = in_file_of(block, binding.plan)
            assert max((p.offset + p.nbytes for p in in_file), default=0) <= binding.plan.file_bytes
            assert not any(collide(a, b) for i, a in enumerate(in_file) for b in in_file[:i])
    stepper = Poisoned(compiled)
    oracle = Oracle(program.compile(rows=16).desc, stepper.snapshot())
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=(16, 4))
        same_bits(stepper.step(x=x), oracle.step(x=x))
        same_bits(stepper.snapshot(), oracle.states)


def in_file_of(block: pb.BlockDesc, plan: pb.MemoryPlan) -> list[Placed]:
    """The spilled tensors, from the ops alone."""
    in_file = {
        buffer.name: (buffer.nbytes, at) for buffer, at in places_within(BlockAnalysis(block), REFERENCE, plan).in_file
    }
    made = {op.outputs[0]: i for i, op in enumerate(block.ops) if op.type == "spill"}
    assert made.keys() == in_file.keys()
    last = {op.inputs[0]: i for i, op in enumerate(block.ops) if op.type == "reload"}
    return [Placed(in_file[name][0], i, last[name] + 1, in_file[name][1]) for name, i in made.items()]


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=8)
def test_what_is_measured_of_a_schedule_is_what_the_block_then_needs(program: Program):
    for block in bound_blocks(program.compile(rows=16).desc):
        costs = operations_of(BlockAnalysis(block))
        found = lower(timeline_of(step_graph(BlockAnalysis(block))), costs, 0, spilling=True)
        for timeline in (found, prefetch(found, costs, found.peak)):
            trial = pb.BlockDesc()
            trial.CopyFrom(block)
            write_timeline(BlockAnalysis(trial), timeline)
            needed = step_graph(BlockAnalysis(trial)).peak(list(range(len(trial.ops))))
            assert needed == plan_of(BlockAnalysis(trial)).lower_bound <= timeline.peak == found.peak


def two_uses() -> tuple[pb.BlockDesc, Timeline, int]:
    """A block, its timeline, and the fed value, which the first op, the last op and the end read."""
    program = Program()
    x = program.input("x", "float32", ("n", 16))
    h = ops.exp(x)
    for _ in range(4):
        h = ops.sin(h)
    program.entry("predict", y=h * x, x=x)
    block = bound_block(program.compile(n=4).desc, "predict")
    timeline = timeline_of(step_graph(BlockAnalysis(block)))
    return block, timeline, timeline.graph.value_of["x"]


def words(block: pb.BlockDesc, timeline: Timeline) -> list[str]:
    word = {SPILL: "spill", RELOAD: "reload"}
    return [word.get(op) or block.ops[op].type for op in (timeline.ops[i] for i in timeline.order)]


def test_a_value_goes_to_the_file_at_once_and_comes_back_where_it_is_needed():
    block, timeline, x = two_uses()
    moved = spill(timeline, Choice(x, 5))
    assert words(block, moved) == ["spill", "exp", *["sin"] * 4, "reload", "mul"]
    assert timeline.order == list(range(len(block.ops))), "a timeline is never edited"
    assert [nbytes // 256 for nbytes in timeline.live] == [2] * 6
    assert [nbytes // 256 for nbytes in moved.live] == [1, 1, 1, 1, 1, 1, 2, 2], "exp writes over x"
    write_timeline(BlockAnalysis(block), moved)
    assert [(op.type, op.inputs[:], op.outputs[:]) for op in (block.ops[0], block.ops[6])] == [
        ("spill", ["x"], ["x.spilled"]),
        ("reload", ["x.spilled"], ["x.again"]),
    ]
    assert block.ops[7].inputs[1] == "x.again"
    assert {fetch.name: fetch.tensor for fetch in block.fetches}["x"] == "x.again", "the end reads the copy that lasts"


def test_a_value_that_is_left_twice_goes_to_the_file_once():
    block, timeline, x = two_uses()
    once = spill(timeline, Choice(x, 5))
    twice = spill(once, Choice(x, len(once.order)))
    assert words(block, twice) == ["spill", "exp", *["sin"] * 4, "reload", "mul", "reload"]


def test_a_reload_starts_as_early_as_the_budget_has_room_and_is_worth_it():
    block, timeline, x = two_uses()
    moved = spill(timeline, Choice(x, 5))
    none = [0] * len(block.ops)
    assert prefetch(moved, none, 256).order == moved.order
    assert words(block, prefetch(moved, none, 512)) == ["spill", "reload", "exp", *["sin"] * 4, "mul"]
    costly = [10**6] * len(block.ops)
    assert words(block, prefetch(moved, costly, 1 << 30)) == ["spill", "exp", *["sin"] * 3, "reload", "sin", "mul"]


def test_tensors_that_wait_at_different_times_share_the_file():
    compiled = wide().compile(n=512)
    compiled.plan(budget=arena_of(compiled) // 2, spill=True)
    plan = compiled.desc.entries[0].bindings[0].plan
    assert all(p.offset % 4096 == 0 for p in in_file_of(bound_block(compiled.desc), plan))
    lives = sorted((b.start, b.stop) for b in spilled_buffers(BlockAnalysis(bound_block(compiled.desc))))
    assert any(b[0] < a[1] for a, b in pairwise(lives)), "some wait at the same time"
    assert plan.file_bytes <= 512 * 64 * 4 * len(lives)


def test_a_later_budget_brings_everything_back():
    compiled = wide().compile(n=512)
    plain = arena_of(compiled)
    compiled.plan(budget=plain // 2, spill=True)
    assert moves(bound_block(compiled.desc))
    compiled.plan(budget=plain)
    assert program_sha256(compiled.desc) == program_sha256(wide().compile(n=512).desc)


def test_an_impossible_budget_says_whether_a_file_could_help():
    compiled = wide().compile(n=64)
    with pytest.raises(LimitError) as caught:
        compiled.plan(budget=66 * 1024)
    assert str(caught.value).endswith("by itself; values may also wait in a file: spill=True")
    assert told(LimitError, lambda: compiled.plan(budget=1024, spill=True)).endswith("by itself")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A program, and the same within a budget for which values wait in a file."""
    monkeypatch.chdir(tmp_path)
    compiled = wide().compile(n=4096)
    compiled.save("wide.pb", force=True)
    compiled.plan(budget=5 * 2**20, spill=True)
    compiled.save("small.pb", force=True)
    return Path("wide.pb"), Path("small.pb")


def test_the_command_says_what_goes_to_the_file(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "plan", files[0], "--budget", "5MiB", "--spill", "-o", "again.pb")
    assert (code, err) == (0, "")
    assert out.splitlines()[4] == (
        "  5 values wait in a file of 4.00 MiB beside the arena: 8.00 MiB go there or come back in a step"
    )
    assert Path("again.pb").read_bytes() == files[1].read_bytes()
    assert run(capsys, "check", "again.pb")[0] == 0


def test_a_file_without_a_budget_is_refused(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    assert run(capsys, "plan", files[0], "--spill") == (
        2,
        "",
        "compiler: --spill is a way to keep a budget; give --budget\n",
    )


def test_the_view_of_memory_shows_the_file(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    lines = run(capsys, "show", files[1], "--memory")[1].splitlines()
    assert "file   4198400 bytes (4.00 MiB) beside the arena, for 5 of its tensors" in lines
    at = lines.index("in the file")
    assert lines[at + 1 : at + 4] == [
        "   offset    bytes  tensor    put there by     last read by",
        "        0  1048576  %x        1: op 69 spill   60: op 77 reload",
        "  1048576  1048576  %tanh_2   7: op 70 spill   58: op 76 reload",
    ]
    assert "in the file" not in run(capsys, "show", files[0], "--memory")[1]


def test_what_only_moves_is_of_no_forward_op(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    out = run(capsys, "show", files[1], "--order")[1]
    assert " spill" not in out
    assert " reload" not in out
    assert out.splitlines()[-1].startswith("  of no forward op: 1-4, 7, ")


def test_a_difference_in_the_file_is_said_in_words(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "diff", *files)
    assert code == 1
    assert "  plan: file bytes: 0 -> 4198400" in out.splitlines()
    assert "  op 74 reload is new, at position 44" in out.splitlines()
    assert run(capsys, "diff", files[1], files[1])[0] == 0
