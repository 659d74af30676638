"""The order of ops and the memory they share: legal, never worse than the source's, and without influence on bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from oracles.poison import Poisoned
from subjects.budgets import block_buffers
from subjects.hazards import nothing_in_place
from subjects.random_training import training_programs
from subjects.steps import Oracle, Stepper, bound_blocks, same_bits

import runtime
from compiler import Program, global_norm, momentum, ops, sgd
from compiler.analyses.step_graph import step_graph
from compiler.build.compiled import Compiled
from compiler.passes.order_ops import CANDIDATES, as_written
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.target import REFERENCE
from runtime.step import aliases_of


def deep(depth: int = 6, clip: float | None = None) -> Program:
    """A perceptron with more bytes in its weights than in its activations."""
    program = Program()
    x = h = program.input("x", "float64", ("n", 16))
    for i in range(depth):
        h = ops.tanh(h @ program.parameter(f"w{i}", (16, 16), dtype="float64"))
    program.minimize(ops.mean(ops.square(h - x)), momentum(0.1, clip=global_norm(clip) if clip else None))
    return program


def compiled_by(program: Program, *passes: str, **sizes: int) -> Compiled:
    """The program, bound anew and with these passes alone after that."""
    desc = program.compile(**sizes).desc
    run_passes(desc, PASSES.only("bind_dimensions", *passes, "list_operators", "plan_memory"))
    return Compiled(desc)


def bound_of(block: pb.BlockDesc) -> int:
    """The most bytes that are alive at one time."""
    buffers = block_buffers(BlockAnalysis(block))
    times = {buffer.start for buffer in buffers}
    return max(sum(-(-b.nbytes // 64) * 64 for b in buffers if b.start <= now < b.stop) for now in times)


def trained(block: pb.BlockDesc) -> list[int]:
    """Return the positions of the updates of parameters in the list of ops."""
    return [i for i, op in enumerate(block.ops) if op.type == "momentum"]


def test_an_update_follows_its_gradient_at_once_where_that_needs_less_memory():
    block = bound_blocks(deep().compile(n=2).desc)[0]
    assert trained(block)[0] < max(i for i, op in enumerate(block.ops) if op.stage == pb.STAGE_GRADIENT)


def test_updates_wait_for_all_gradients_where_clipping_needs_their_norm():
    block = bound_blocks(deep(clip=1.0).compile(n=2).desc)[0]
    assert min(trained(block)) > max(i for i, op in enumerate(block.ops) if op.stage == pb.STAGE_GRADIENT)


def test_the_gradient_of_a_state_that_is_read_after_it_is_known_waits_for_that_read():
    block = bound_blocks(deep().compile(n=2).desc)[0]
    readers = {name: i for i, op in enumerate(block.ops) for name in op.inputs}
    in_place = aliases_of(BlockAnalysis(block), REFERENCE).in_place
    for i in trained(block):
        assert readers[block.ops[i].inputs[0]] == i, "so that it may be in place"
        assert {*in_place[i]} == {(0, 0), (1, 2)}


@pytest.mark.thorough
@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda candidate: candidate.__name__)
@given(program=training_programs())
@settings(max_examples=15, deadline=None)
def test_every_candidate_has_each_op_once_and_after_what_it_needs(candidate, program: Program):
    for block in bound_blocks(program.compile(rows=3).desc):
        graph = step_graph(BlockAnalysis(block))
        order = candidate(BlockAnalysis(block), graph)
        assert sorted(order) == list(range(len(block.ops)))
        position = {i: at for at, i in enumerate(order)}
        writer = {name: i for i, op in enumerate(block.ops) for name in op.outputs}
        for i, op in enumerate(block.ops):
            assert all(position[writer[name]] < position[i] for name in op.inputs if name in writer)


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=40, deadline=None)
def test_the_graph_knows_the_memory_of_a_block_to_the_byte(program: Program):
    for block in bound_blocks(program.compile(rows=3).desc):
        graph = step_graph(BlockAnalysis(block))
        assert graph.peak(as_written(BlockAnalysis(block), graph)) == bound_of(block)


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=40, deadline=None)
def test_training_by_the_plan_with_dead_memory_poisoned_gives_the_oracles_bits(program: Program):
    compiled = program.compile(rows=3)
    stepper = Poisoned(compiled)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(3, 4))
        same_bits(stepper.step(x=x), oracle.step(x=x))
        same_bits(stepper.snapshot(), oracle.states)


def test_the_poison_finds_a_life_that_is_too_short():
    compiled = deep().compile(n=2)
    stepper = Poisoned(compiled)
    stepper._buffers = [
        (memory, [(b._replace(stop=b.stop - 2), at) for b, at in placed]) for memory, placed in stepper._buffers
    ]
    stepper.step(x=np.ones((2, 16)))
    assert any(np.isnan(array).any() for array in stepper.snapshot().values())


def test_order_and_sharing_change_no_bit_and_each_lowers_the_need():
    x = np.random.default_rng(0).normal(size=(2, 16))
    best, unordered = deep().compile(n=2), compiled_by(deep(), n=2)
    steppers = [Stepper(compiled, plan=compiled.desc.entries[0].bindings[0].plan) for compiled in (best, unordered)]
    with nothing_in_place():
        steppers.append(Stepper(unordered))
    sizes = [stepper.executor.footprint.arena for stepper in steppers]
    assert sizes[0] < sizes[1] < sizes[2]
    for _ in range(4):
        first, *rest = [stepper.step(x=x) for stepper in steppers]
        for fetched in rest:
            same_bits(first, fetched)
    for stepper in steppers[1:]:
        same_bits(steppers[0].snapshot(), stepper.snapshot())


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=25, deadline=None)
def test_no_block_needs_more_than_in_the_order_of_its_source(program: Program):
    before = PASSES.names[PASSES.position("leave_frozen") : PASSES.position("order_ops")]
    best, unordered = program.compile(rows=3), compiled_by(program, *before, rows=3)
    for ours, source in zip(bound_blocks(best.desc), bound_blocks(unordered.desc), strict=True):
        assert bound_of(ours) <= bound_of(source)


def test_a_plan_says_what_it_needs_and_that_nothing_needs_less():
    compiled = deep().compile(n=2)
    plan = compiled.desc.entries[0].bindings[0].plan
    assert plan.lower_bound <= plan.arena_bytes == Stepper(compiled, plan=plan).executor.footprint.arena
    assert plan.optimal or plan.arena_bytes > plan.lower_bound
    assert plan.lower_bound == bound_of(bound_blocks(compiled.desc)[0])


def test_evaluation_has_a_plan_for_every_binding():
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,))
    program.minimize(ops.sum(ops.square(x * w)), sgd(0.1))
    compiled = program.compile(n=8)
    plans = {e.name: [b.plan.arena_bytes for b in e.bindings] for e in compiled.desc.entries}
    assert plans["evaluate"][1] < plans["evaluate"][0] <= plans["train"][0]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_parts_of_a_loss_go_forwards_and_back_one_by_one(engine: str):
    if engine == "native":
        pytest.importorskip("llvmlite", reason="the native engine is an extra")
    rows, length, width, classes = 4, 64, 32, 4096
    found: list[tuple[int, float, bytes]] = []
    for parts in (1, 8):
        program = Program()
        x = program.input("x", "float32", (rows, length, width))
        labels = program.input("labels", "int32", (rows, length))
        hidden = ops.matmul(x, program.parameter("inner", (width, width)))
        head = program.parameter("head", (classes, width), trainable=False)
        program.minimize(ops.linear_cross_entropy(hidden, head, labels, parts=parts), sgd(0.1))
        compiled = program.compile()
        run = runtime.Run(compiled, engine=engine, threads=1)
        rng = np.random.default_rng(3)
        drawn = rng.normal(size=(rows, length, width)).astype("f4"), rng.integers(0, classes, (rows, length), "i4")
        loss = run.step(dict(zip(("x", "labels"), drawn, strict=True)))["loss"].item()
        found.append((bound_of(bound_blocks(compiled.desc)[0]), loss, run.states.arrays["inner"].tobytes()))
    (whole, *same), (divided, *again) = found
    logits = 4 * rows * length * classes
    assert whole > 2 * logits > 4 * divided
    assert again == same or engine == "reference", "BLAS adds in an order that depends on the number of rows"
    np.testing.assert_allclose(again[0], same[0], rtol=1e-6)
