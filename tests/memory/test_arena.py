"""Training in one arena against the oracle in which every tensor has memory of its own: the same bits, always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import pytest
from subjects.models import MODELS, start_of
from subjects.steps import Oracle, Stepper, bound_block, same_bits

from compiler import Program, adam, constant, global_norm, gradients, look_ahead, momentum, ops, sgd, warmup_cosine
from compiler.build.compiled import Compiled
from compiler.train.optimizers import Optimizer
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.bind import bind
from runtime.engines.reference.target import REFERENCE
from runtime.placement import Buffer, aligned
from runtime.placement.placement import QUICK, Effort, Placement, place
from runtime.step import places_of

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


def a_program() -> Compiled:
    program = Program()
    x = program.input("x", "float64", (8,))
    w = program.parameter("w", (8,), constant(0.5), dtype="float64")
    program.minimize(ops.mean(ops.square(ops.exp(x * w))), sgd(0.1))
    return program.compile()


@pytest.mark.parametrize("plan", [None, pb.MemoryPlan(), pb.MemoryPlan(arena_bytes=1 << 50), "own"])
def test_whatever_a_plan_says_the_arena_is_the_same(plan: pb.MemoryPlan | str | None):
    compiled = a_program()
    own = compiled.desc.entries[0].bindings[0].plan
    stepper = Stepper(compiled, plan=own if isinstance(plan, str) else plan)
    assert stepper.executor.footprint.arena == own.arena_bytes > 0
    oracle = Oracle(compiled.desc, stepper.snapshot())
    for _ in range(5):
        poisoned(stepper)
        same_bits(stepper.step(x=0.3), oracle.step(x=np.full(8, 0.3)))


def test_a_plan_does_not_know_of_a_pinned_tensor():
    program = Program()
    x = program.input("x", "float64", (8,))
    first = ops.exp(x)
    program.outputs(y=ops.exp(ops.exp(first)))
    done = program.compile()
    [plan] = [entry.bindings[0].plan for entry in done.desc.entries if entry.name == "predict"]
    assert Stepper(done, "predict", plan=plan).executor.footprint.arena == 64, "all is written over the feed"
    pinned = Stepper(done, "predict", plan=plan, fetch=[first.name])
    assert pinned.executor.footprint.arena == 128
    np.testing.assert_array_equal(pinned.step(x=0.0)[first.name], 1)


def test_what_the_quick_placement_misses_a_longer_search_finds_again(monkeypatch: pytest.MonkeyPatch):
    """A plan is kept although the quick placement takes more; the bits stay those of the oracle."""
    compiled = a_program()
    block = BlockAnalysis(bound_block(compiled.desc))
    tight = places_of(block, REFERENCE)

    def quick_misses(buffers: Sequence[Buffer], effort: Effort, **given: int) -> Placement:
        if effort != QUICK or given["alignment"] != 64:
            return place(buffers, effort, **given)
        ends = list(accumulate(aligned(buffer.nbytes) for buffer in buffers))
        return Placement([0, *ends[:-1]], ends[-1], tight.lower_bound, False, "apart")

    monkeypatch.setattr("runtime.placement.placement.place", quick_misses)
    plan = pb.MemoryPlan(arena_bytes=tight.arena_bytes)
    assert Stepper(compiled, plan=plan).executor.footprint.arena == tight.arena_bytes
    for other in (tight.arena_bytes - 1, 1 << 40):
        stepper = Stepper(compiled, plan=pb.MemoryPlan(arena_bytes=other))
        assert stepper.executor.footprint.arena > tight.arena_bytes, "an impossible plan is not searched for"
