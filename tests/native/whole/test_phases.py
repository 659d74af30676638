"""Phases: what is computed at the same time, and what memory that takes beside the plan of the reference engine."""

from pathlib import Path

import numpy as np
import pytest
from native.bound import lowered
from native.made import Made

import prograd
import runtime
from prograd import layers, ops
from registry import OPS
from runtime.engines.native.cpu import this_machine

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.pb"))


def test_one_thread_has_each_group_in_a_phase_of_its_own_and_several_threads_share_phases():
    def write(x, y):
        return [OPS["matmul"](x, y), OPS["matmul"](y, x)]

    desc = Made(write, [np.ones((9, 9), "f4"), np.ones((9, 9), "f4")]).desc
    assert lowered(desc, (), this_machine(), threads=1).phases.first == [0, 1]
    assert lowered(desc, (), this_machine(), threads=2).phases.first == [0, 0]


def test_groups_wait_for_the_next_phase_where_together_they_would_take_more_room_than_there_is():
    def write(x, y):
        for turn in range(4):
            wide = OPS["matmul"](y, OPS["add"](x, float(turn)))  # 400 x 400
            yield OPS["matmul"](x, wide)

    desc = Made(write, [np.ones((2, 400), "f4"), np.ones((400, 2), "f4")]).desc
    roomy, narrow = (lowered(desc, (), this_machine(), 2, memory_budget=room) for room in (1400000, 0))
    assert roomy.phases.count < narrow.phases.count
    assert narrow.memory.arena_bytes < 700000 < roomy.memory.arena_bytes < 1400000


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_take_no_more_memory_than_by_the_reference_engine(path: Path):
    run = runtime.load(path, engine="reference")
    for bound in run.session.bindings("train"):
        for threads in (1, 2):
            budget, blocks = bound.plan.arena_bytes, run.program.blocks
            step = lowered(bound.block, (), this_machine(), threads, memory_budget=budget, blocks=blocks)
            assert step.memory.arena_bytes <= bound.plan.arena_bytes


@pytest.mark.thorough
def test_a_step_that_was_planned_for_a_budget_keeps_within_it():
    program = prograd.Program("narrow", seed=0)
    x = program.input("image", "float32", ("batch", 16, 16, 32))
    for i in range(6):
        x = ops.silu(layers.batch_norm(layers.conv(x, f"conv{i}", 32, window=(1, 1)), f"norm{i}"))
    program.minimize(ops.mean(ops.square(x)), prograd.sgd(0.1))
    desc = program.compile(batch=8)
    [free] = prograd.Run(desc).session.bindings("train")
    whole = lowered(free.block, (), this_machine()).memory.arena_bytes
    desc.plan(budget=free.plan.arena_bytes * 6 // 10)
    [bound] = prograd.Run(desc).session.bindings("train")
    assert any(op.recompute_of for op in bound.block.ops)
    for threads in (1, 2):
        step = lowered(bound.block, (), this_machine(), threads, bound.plan.arena_bytes)
        assert step.memory.arena_bytes <= bound.plan.arena_bytes < whole * 0.7


def test_filters_that_the_step_computes_are_packed_in_a_later_phase():
    program = prograd.Program("filters", seed=0)
    x, filters = program.input("x", "float32", (2, 7500, 128)), program.parameter("filters", (128, 128, 3))
    rows = ops.concat(x[:, :4], x, x[:, -4:], axis=1)  # 7 MiB
    weights = ops.reshape(ops.transpose(filters, axis=(2, 1, 0)), shape=(1, 3, 128, 128))
    program.outputs(y=ops.conv(ops.reshape(rows, shape=(2, 1, 7508, 128)), weights, dilation=(1, 4)))
    [bound] = prograd.Run(program.compile()).session.bindings("predict")
    step = lowered(bound.block, (), this_machine(), threads=2, memory_budget=1 << 30)
    kinds = {group.nodes[0].op.type: i for i, group in enumerate(step.groups)}
    convolution = kinds["conv2d"]
    assert step.steps[convolution].tiled == 1  # row tiles follow a step that packs the filters
    assert step.phases.first[convolution] > step.phases.last[kinds["transpose"]]
    assert step.phases.last[convolution] > step.phases.last[kinds["concat"]]
