"""Training in one arena against the oracle in which every tensor has memory of its own: the same bits, always."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from subjects.models import MODELS, start_of
from subjects.steps import Oracle, Stepper, same_bits

from compiler import Program, adam, constant, global_norm, gradients, look_ahead, momentum, ops, sgd, warmup_cosine
from compiler.build.compiled import Compiled
from compiler.train.optimizers import Optimizer
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from runtime.engines.reference.bind import bind
from runtime.step.scratch import is_scratch

POISON = 0xFF
"""A byte that makes every float NaN and every integer -1."""

OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {
    "sgd": lambda: sgd(0.1, decay=0.01),
    "nesterov": lambda: momentum(0.05, nesterov=True, clip=global_norm(0.5)),
    "adam": lambda: adam(warmup_cosine(0.05)),
}


def compiled(model: str, optimizer: str) -> tuple[Compiled, dict[str, np.ndarray], dict[str, np.ndarray]]:
    start, feeds = start_of(MODELS[model])
    program = Program()
    w = {name: program.parameter(name, a.shape, constant(0.0), dtype="float64") for name, a in start.items()}
    loss = MODELS[model].build(program, w)
    program.minimize(loss, OPTIMIZERS[optimizer]())
    return program.compile(rows=len(feeds["x"])), start, feeds


def poisoned(stepper: Stepper) -> None:
    """Overwrite the whole arena; states lie outside."""
    arena = next(iter(stepper.executor.feeds.values()))
    while arena.base is not None:
        arena = arena.base
    assert arena.nbytes >= stepper.executor.footprint.arena
    arena.view(np.uint8).fill(POISON)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("model", "optimizer"), [("linear", "nesterov"), ("layers", "sgd"), ("layers", "adam"), ("images", "adam")]
)
def test_training_in_a_poisoned_arena_gives_the_oracles_bits(model: str, optimizer: str, threads: int):
    program, start, feeds = compiled(model, optimizer)
    stepper = Stepper(program, threads=threads)
    stepper.states.arrays["total_steps"][...] = 50
    for name, array in start.items():
        stepper.states.arrays[name][...] = array
    oracle = Oracle(program.desc, stepper.snapshot())
    for _ in range(50):
        poisoned(stepper)
        same_bits(stepper.step(**feeds), oracle.step(**feeds))
        same_bits(stepper.snapshot(), oracle.states)
    assert np.isfinite(stepper.states.arrays[next(iter(start))]).all()
    stepper.executor.close()


def test_the_arena_of_a_training_step_is_smaller_than_its_tensors_together():
    program, _, _ = compiled("images", "adam")
    stepper = Stepper(program)
    bound = bind(stepper.block, stepper.states.arrays)
    outside = {id(array) for array in stepper.states.arrays.values()}
    together = sum(array.nbytes for array in bound.arrays.values() if id(array) not in outside)
    assert stepper.executor.footprint.arena < 0.6 * together


@pytest.mark.thorough
def test_every_tensor_that_is_fetched_besides_has_the_oracles_bits():
    """All at once, and one by one: pinning changes the plan, never a value."""
    program, start, feeds = compiled("layers", "adam")
    names = [name for op in Stepper(program).block.ops for name in op.outputs]
    for fetch in [names, *([name] for name in names)]:
        stepper = Stepper(program, fetch=fetch)
        for name, array in start.items():
            stepper.states.arrays[name][...] = array
        oracle = Oracle(program.desc, stepper.snapshot())
        oracle.block.fetches.extend(pb.FetchDesc(name=name, tensor=name) for name in fetch)
        poisoned(stepper)
        same_bits(stepper.step(**feeds), oracle.step(**feeds))
        del oracle.block.fetches[-len(fetch) :]


def test_higher_orders_and_fetched_gradients_share_the_arena_as_well():
    program = Program()
    x = program.input("x", "float32", (9, 4))
    w = program.parameter("w", (4, 4), constant(0.1))
    h = ops.tanh(x @ w)
    [dx] = gradients(ops.sum(ops.sigmoid(h @ w)), [x])
    assert dx is not None
    [(_, dw)] = program.minimize(ops.mean(ops.square(dx)) + ops.mean(h), sgd(0.1))
    program.fetch("dw", dw)
    program.fetch("h", h)
    done = program.compile()
    stepper = Stepper(done, threads=2)
    oracle = Oracle(done.desc, stepper.snapshot())
    for seed in range(20):
        fed = np.random.default_rng(seed).normal(size=(9, 4)).astype("float32")
        poisoned(stepper)
        same_bits(stepper.step(x=fed), oracle.step(x=fed))
        same_bits(stepper.snapshot(), oracle.states)
    stepper.executor.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_accumulation_groups_averages_and_look_ahead_share_the_arena_as_well(threads: int):
    program = Program()
    x = program.input("x", "float64", (6, 4))
    v, w = program.parameter("v", (4, 4), dtype="float64"), program.parameter("w", (4, 1), dtype="float64")
    loss = ops.mean(ops.square(ops.tanh(x @ v) @ w - 1.0))
    optimizer = look_ahead(adam(0.05, clip=global_norm(0.5)), every=2)
    program.minimize(loss, optimizer, groups=[([w], momentum(0.1, decay=0.01))], accumulate=3)
    program.average(0.9, every=3)
    done = program.compile()
    stepper = Stepper(done, threads=threads)
    oracle = Oracle(done.desc, stepper.snapshot())
    before = stepper.snapshot()
    for seed in range(20):
        fed = np.random.default_rng(seed).normal(size=(6, 4))
        poisoned(stepper)
        same_bits(stepper.step(x=fed), oracle.step(x=fed))
        same_bits(stepper.snapshot(), oracle.states)
    changed = {name for name, array in stepper.snapshot().items() if not np.array_equal(array, before[name])}
    assert {"v", "w", "v.average", "w.average", "v.slow", "w.velocity"} <= changed
    stepper.executor.close()


# Plans


def with_plan(program: Compiled) -> tuple[Stepper, pb.MemoryPlan]:
    """A plan that keeps every buffer apart."""
    stepper = Stepper(program)
    outside = {p.tensor for p in stepper.block.parameters if p.WhichOneof("source") == "state"}
    outside |= {name for op in stepper.block.ops if op.type == "constant" for name in op.outputs}
    for op in stepper.block.ops:
        outside |= {op.outputs[pair.output] for pair in op.in_place}
    plan = pb.MemoryPlan()
    for name, array in bind(stepper.block, stepper.states.arrays).arrays.items():
        if name not in outside:
            plan.placements.add(tensor=name, offset=plan.arena_bytes)
            plan.arena_bytes += -(-array.nbytes // 64) * 64
    return stepper, plan


def a_program() -> Compiled:
    program = Program()
    x = program.input("x", "float64", (8,))
    w = program.parameter("w", (8,), constant(0.5), dtype="float64")
    program.minimize(ops.mean(ops.square(ops.exp(x * w))), sgd(0.1))
    return program.compile()


def test_a_plan_in_the_program_is_used_as_it_is_and_changes_no_bit():
    plain, plan = with_plan(a_program())
    planned = Stepper(a_program(), plan=plan)
    assert planned.executor.footprint.arena == plan.arena_bytes > plain.executor.footprint.arena
    for _ in range(5):
        poisoned(planned)
        same_bits(plain.step(x=0.3), planned.step(x=0.3))


def test_a_plan_does_not_know_of_a_pinned_tensor_and_is_put_aside():
    program = Program()
    x = program.input("x", "float64", (8,))
    first = ops.exp(x)
    program.outputs(y=ops.exp(ops.exp(first)))
    done = program.compile()
    plan = pb.MemoryPlan(arena_bytes=64, placements=[pb.Placement(tensor="x")])
    assert Stepper(done, "predict", plan=plan).executor.footprint.arena == 64, "all is written over the feed"
    pinned = Stepper(done, "predict", plan=plan, fetch=[first.name])
    np.testing.assert_array_equal(pinned.step(x=0.0)[first.name], 1)


def without_scratch(plan: pb.MemoryPlan, arena_bytes: int) -> None:
    kept = [placement for placement in plan.placements if not is_scratch(placement.tensor)]
    assert len(kept) < len(plan.placements)
    plan.CopyFrom(pb.MemoryPlan(arena_bytes=arena_bytes, placements=kept))


def test_a_plan_for_kernels_that_had_more_scratch_is_made_anew():
    plain, plan = with_plan(a_program())
    plan.arena_bytes = 2 * plan.arena_bytes
    planned = Stepper(a_program(), plan=plan)
    assert planned.executor.footprint.arena < plan.arena_bytes
    for _ in range(5):
        poisoned(planned)
        same_bits(plain.step(x=0.3), planned.step(x=0.3))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda plan: plan.placements[1].CopyFrom(pb.Placement(tensor=plan.placements[1].tensor, offset=0)),
            "the plan puts %x and %mul_1 in the same bytes while both are needed",
        ),
        (
            lambda plan: plan.placements.add(tensor="stranger"),
            "the plan and the block differ in %stranger; compile again",
        ),
        (
            lambda plan: without_scratch(plan, arena_bytes=1 << 50),
            "the plan has an arena of 1125899906842624 bytes; without any sharing its buffers take {apart}",
        ),
        (
            lambda plan: setattr(plan.placements[0], "offset", -64),
            "the plan puts %x (64 bytes) at offset -64 of an arena of {apart} bytes; it must lie inside, at a multiple "
            "of 64",
        ),
    ],
)
def test_a_plan_that_lies_is_refused(change: Callable[[pb.MemoryPlan], object], sentence: str):
    program = a_program()
    _, plan = with_plan(program)
    apart = plan.arena_bytes
    change(plan)
    with pytest.raises(ProgramError) as error:
        Stepper(program, plan=plan)
    assert str(error.value) == sentence.format(apart=apart)
