"""Rematerialisation to a budget: the peak falls, the budget holds, and every bit of a run stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.memory import collide
from oracles.poison import Poisoned
from subjects.budgets import deep, normalised, placed_of
from subjects.commands import told
from subjects.random_training import training_programs
from subjects.steps import Oracle, Stepper, bound_block, bound_blocks, same_bits

from compiler import Program, adam, constant, global_norm, momentum, ops
from compiler.analyses.step_graph import step_graph
from compiler.build.compiled import Compiled
from compiler.errors import CompileError, LimitError
from compiler.passes.plan_memory import plan_of
from compiler.passes.verify import verify
from compiler.planning.rematerialise import lower
from compiler.planning.timeline import Choice, Timeline, repeat, timeline_of
from compiler.planning.write_timeline import write_timeline
from compiler.train.optimizers import Optimizer
from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.identity import program_sha256
from runtime.step.arithmetic import operations, operations_of


def test_a_chain_of_layers_fits_into_three_fifths_of_its_plan_for_a_third_of_its_operations():
    compiled = deep().compile(n=256)
    budget = compiled.desc.entries[0].bindings[0].plan.arena_bytes * 3 // 5
    train = compiled.plan(budget=budget).bindings[0]
    assert train.plan.arena_bytes <= budget
    assert 0 < train.repeated < len(bound_block(compiled.desc).ops) // 4
    assert 1 < train.cost < 1.35


@pytest.mark.sampled(2)
@pytest.mark.parametrize("optimizer", [momentum(0.1), adam(0.01, clip=global_norm(0.1))], ids=["plain", "clipped"])
@pytest.mark.parametrize(("build", "rows"), [(deep, 64), (normalised, 8)], ids=["dropout", "batch_norm"])
def test_a_run_within_a_budget_has_the_bits_of_a_plain_one(
    build: Callable[[Optimizer], Program], rows: int, optimizer: Optimizer
):
    plain, tight = build(optimizer).compile(n=rows), build(optimizer).compile(n=rows)
    before = plain.desc.entries[0].bindings[0].plan.arena_bytes
    report = tight.plan(budget=before * 3 // 4)
    assert report.bindings[0].repeated
    one, other = Stepper(plain), Poisoned(tight)
    assert other.executor.footprint.arena <= before * 3 // 4
    for seed in range(3):
        feeds = {name: np.random.default_rng(seed).normal(size=feed.shape) for name, feed in one.executor.feeds.items()}
        same_bits(one.step(**feeds), other.step(**feeds))
        same_bits(one.snapshot(), other.snapshot())


def test_running_averages_are_updated_once_by_the_first_normalisation():
    compiled = normalised().compile(n=8)
    compiled.plan(budget=compiled.desc.entries[0].bindings[0].plan.arena_bytes * 3 // 4)
    block = bound_block(compiled.desc)
    norms = [op for op in block.ops if op.type == "batch_norm"]
    again = {name for op in norms if op.recompute_of for name in op.outputs}
    assert again
    assert again.isdisjoint(update.tensor for update in block.updates)
    states = {p.tensor for p in block.parameters if p.state}
    for op in norms:
        assert set(op.inputs[3:5]) <= states, "also a repetition reads the averages of before the step"


@given(program=training_programs(), part=st.sampled_from([0.5, 0.7, 0.9]))
@settings(max_examples=15)
def test_any_program_keeps_its_bits_and_its_budget_or_says_that_it_cannot(program: Program, part: float):
    compiled = program.compile(rows=16)
    before = compiled.desc.SerializeToString(deterministic=True)
    budget = int(compiled.desc.entries[0].bindings[0].plan.arena_bytes * part)
    try:
        compiled.plan(budget=budget)
    except LimitError:
        assert compiled.desc.SerializeToString(deterministic=True) == before
        return
    for entry in compiled.desc.entries:
        for binding in entry.bindings:
            placed = placed_of(compiled.desc.blocks[binding.block], binding.plan)
            assert max((p.offset + p.nbytes for p in placed), default=0) <= binding.plan.arena_bytes <= budget
            assert not any(collide(a, b) for i, a in enumerate(placed) for b in placed[:i])
    stepper = Poisoned(compiled)
    oracle = Oracle(program.compile(rows=16).desc, stepper.snapshot())
    for seed in range(2):
        x = np.random.default_rng(seed).normal(size=(16, 4))
        same_bits(stepper.step(x=x), oracle.step(x=x))
        same_bits(stepper.snapshot(), oracle.states)


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=8)
def test_the_peak_never_rises_however_low_the_budget(program: Program):
    for block in bound_blocks(program.compile(rows=16).desc):
        timeline, costs = timeline_of(step_graph(BlockAnalysis(block))), operations_of(BlockAnalysis(block))
        for budget in (timeline.peak, timeline.peak // 2, 0):
            found = lower(timeline, costs, budget)
            assert found.peak <= timeline.peak
            assert budget < timeline.peak or found is timeline


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=8)
def test_what_is_measured_of_a_schedule_is_what_the_block_then_needs(program: Program):
    for block in bound_blocks(program.compile(rows=16).desc):
        timeline = lower(timeline_of(step_graph(BlockAnalysis(block))), operations_of(BlockAnalysis(block)), 0)
        write_timeline(BlockAnalysis(block), timeline)
        needed = step_graph(BlockAnalysis(block)).peak(list(range(len(block.ops))))
        assert needed == plan_of(BlockAnalysis(block)).lower_bound <= timeline.peak  # less where a view was dead


def test_a_choice_repeats_no_more_than_it_must():
    program = Program()
    x = program.input("x", "float32", ("n", 16))
    w = program.parameter("w", (16,), constant(0.5))
    a = ops.exp(x * w)
    b = ops.sin(a)
    c = ops.tanh(ops.abs(b))
    program.minimize(ops.mean(a * c), momentum(0.1))
    block = bound_block(program.compile(n=4).desc)
    timeline = timeline_of(step_graph(BlockAnalysis(block)))
    graph, types = timeline.graph, [op.type for op in block.ops]
    kept = graph.writes[types.index("tanh")][0]
    last = timeline.position[graph.readers[kept][-1]]
    assert repeated_types(block, repeat(timeline, Choice(kept, last, 0.0, False))) == ["sin", "abs", "tanh"]
    assert repeated_types(block, repeat(timeline, Choice(kept, last, 1.0, False))) == ["tanh"]
    assert timeline.order == list(range(len(block.ops))), "a timeline is never edited"


def repeated_types(block: pb.BlockDesc, timeline: Timeline) -> list[str]:
    return [block.ops[timeline.ops[i]].type for i in timeline.order if timeline.ops[i] != i]


def test_repetitions_say_what_they_repeat_and_replay_its_random_numbers():
    compiled = deep().compile(n=256)
    compiled.plan(budget=compiled.desc.entries[0].bindings[0].plan.arena_bytes // 2)
    block = bound_block(compiled.desc)
    first = {op.id: op for op in block.ops if not op.recompute_of}
    again = [op for op in block.ops if op.recompute_of]
    assert any(op.random_stream for op in again)
    for op in again:
        assert (op.type, op.random_stream, op.stage, op.location) == (
            first[op.recompute_of].type,
            first[op.recompute_of].random_stream,
            first[op.recompute_of].stage,
            first[op.recompute_of].location,
        )
    verify(BlockAnalyses(compiled.desc))


def test_a_budget_that_is_large_enough_changes_no_op():
    compiled = deep().compile(n=64)
    before = [block.SerializeToString(deterministic=True) for block in compiled.desc.blocks]
    report = compiled.plan(budget=1 << 40)
    assert [block.SerializeToString(deterministic=True) for block in compiled.desc.blocks] == before
    assert [(memory.repeated, memory.cost) for memory in report.bindings] == [(0, 1.0)] * 3


def test_a_later_budget_forgets_what_an_earlier_one_made_run_again():
    compiled = deep().compile(n=256)
    plain = compiled.desc.entries[0].bindings[0].plan.arena_bytes
    compiled.plan(budget=plain // 2)
    assert compiled.plan().bindings[0].repeated, "without a budget the ops stay as they are"
    assert not compiled.plan(budget=plain).bindings[0].repeated
    assert program_sha256(compiled.desc) == program_sha256(deep().compile(n=256).desc)


def test_an_impossible_budget_is_refused_with_the_op_that_is_in_the_way():
    compiled = deep(depth=1).compile(n=1)
    before = compiled.desc.SerializeToString(deterministic=True)
    assert told(LimitError, lambda: compiled.plan(budget=64)) == (
        "entry 'train': the smallest arena found has 832 bytes, more than the budget of 64; "
        "op 25 (momentum), where the peak is, works on 768 by itself"
    )
    assert compiled.desc.SerializeToString(deterministic=True) == before


ATTENDED = [(1, 2, 6, 4), (1, 2, 5, 4), (1, 2, 5, 3)]


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "cost"),
    [
        ("matmul", [(5, 2, 3), (5, 3, 4)], [(5, 2, 4)], 2 * 5 * 2 * 3 * 4),
        ("matmul", [(3, 2), (4, 3)], [(2, 4)], 2 * 2 * 3 * 4),  # both transposed
        ("outer_sum", [(6, 3), (6, 4)], [(3, 4)], 2 * 6 * 3 * 4),
        ("conv2d", [(2, 8, 8, 3), (3, 3, 3, 5)], [(2, 6, 6, 5)], 2 * 2 * 6 * 6 * 5 * 27),
        ("conv2d_input_gradient", [(2, 6, 6, 5), (3, 3, 3, 5)], [(2, 8, 8, 3)], 2 * 2 * 6 * 6 * 5 * 27),
        ("conv2d_filter_gradient", [(2, 8, 8, 3), (2, 6, 6, 5)], [(3, 3, 3, 5)], 2 * 2 * 6 * 6 * 5 * 27),
        ("scaled_dot_product_attention", [*ATTENDED, None], [(1, 2, 6, 3)], 2 * 2 * 30 * 7),
        ("attention_gradient", [*ATTENDED, (1, 2, 6, 3), None], ATTENDED, 2 * 2 * 30 * (12 + 6)),
        ("lstm_layer", [(2, 7, 12), (3, 12), (2, 3), (2, 3), None], [(2, 7, 3)] * 2, 2 * 14 * 36 + 2 * 7 * 12),
        ("cholesky", [(2, 3, 3)], [(2, 3, 3)], 2 * 27),
        ("solve", [(3, 3), (3, 2)], [(3, 2)], 27 + 2 * 9 * 2),
        ("exp", [(2, 3)], [(2, 3)], 6),
        ("mean", [(2, 3)], [()], 6),
        ("reshape", [(2, 3)], [(6,)], 0),
    ],
)
def test_the_operations_of_an_op_follow_from_its_shapes(op_type: str, inputs, outputs, cost: int):
    read = [None if shape is None else TensorType("float32", shape) for shape in inputs]
    assert operations(op_type, read, [TensorType("float32", shape) for shape in outputs]) == cost


def test_an_absent_operand_costs_nothing():
    assert operations("clip", [TensorType("float32", (4,)), None], [TensorType("float32", (4,))]) == 4


def test_the_report_is_of_every_entry_and_all_states():
    compiled = deep().compile(n=4)
    report = compiled.plan()
    assert [memory.entry for memory in report.bindings] == ["train", "evaluate", "evaluate"]
    assert report.persistent == Stepper(compiled).states.nbytes
    assert isinstance(compiled, Compiled)


@pytest.mark.parametrize("spill", [False, True])
def test_a_search_ends_with_its_time_and_what_it_has_found_by_then(spill: bool, monkeypatch: pytest.MonkeyPatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(
        "compiler.planning.time_limit.monotonic", lambda: next(ticks)
    )  # a second for each look at the clock
    compiled = deep().compile(n=64)
    before = compiled.desc.SerializeToString(deterministic=True)
    with pytest.raises(LimitError) as error:
        compiled.plan(budget=1000, spill=spill, seconds=100)
    assert str(error.value).startswith("entry 'train': 100 seconds were not enough: with ")
    assert 0 < next(ticks) < 150
    assert compiled.desc.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("spill", [False, True])
def test_long_steps_are_planned_with_fewer_looks_and_keep_budget_and_bits(spill: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("compiler.planning.rematerialise.LONG", 10)
    plain, tight = deep().compile(n=64), deep().compile(n=64)
    budget = plain.desc.entries[0].bindings[0].plan.arena_bytes * 7 // 10
    train = tight.plan(budget=budget, spill=spill).bindings[0]
    assert train.plan.arena_bytes <= budget
    assert train.repeated or train.spilled
    one, other = Stepper(plain), Poisoned(tight)
    x = np.random.default_rng(0).normal(size=(64, 8))
    same_bits(one.step(x=x), other.step(x=x))
    same_bits(one.snapshot(), other.snapshot())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": "3"}, "budget='3': a budget is a whole number of bytes"),
        ({"budget": 2.5}, "budget=2.5: a budget is a whole number of bytes"),
        ({"seconds": -1}, "seconds=-1: a limit of time is a number of seconds, 0 or more, or None"),
        ({"seconds": float("nan")}, "seconds=nan: a limit of time is a number of seconds, 0 or more, or None"),
        ({"seconds": "9"}, "seconds='9': a limit of time is a number of seconds, 0 or more, or None"),
    ],
)
def test_a_budget_and_a_limit_are_numbers(options: dict[str, object], sentence: str):
    assert told(CompileError, lambda: deep(depth=1).compile(n=2).plan(**options)) == sentence


@pytest.mark.parametrize("spill", [False, True])
def test_a_budget_below_what_is_fed_is_refused_where_nothing_is_computed(spill: bool):
    program = Program()
    program.outputs(y=program.input("x", "float64", (1,)))
    with pytest.raises(LimitError) as error:
        program.compile().plan(budget=32, spill=spill)
    assert str(error.value) == "entry 'predict': what is fed takes 64 bytes by itself, more than the budget of 32"
