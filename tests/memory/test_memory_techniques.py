"""A network with all that could go wrong, trained with each memory technique on and off: always the same states."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
from subjects.budgets import block_buffers
from subjects.hazards import buffers_apart, nothing_in_place
from subjects.steps import Stepper, bound_blocks, same_bits

from compiler import Program, adam, constant, global_norm, ops, sgd, warmup_cosine
from compiler.errors import LimitError
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis

STEPS = 5


def network() -> Program:
    """Convolution, batch norm, dropout, a tied weight, clipping by the global norm, micro-batches and two losses."""
    program = Program("everything", seed=3)
    image = program.input("image", "float32", ("n", 8, 8, 2))
    label = program.input("label", "int64", ("n",))
    channels = (6,)
    x = ops.conv2d(image, program.parameter("filter", (3, 3, 2, 6)), padding=(1, 1))
    mean, variance = program.buffer("mean", channels), program.buffer("variance", channels, constant(1.0))
    scale, bias = program.parameter("scale", channels, constant(1.0)), program.parameter("bias", channels)
    x, new_mean, new_variance, *_ = ops.batch_norm(x, scale, bias, mean, variance)
    program.update(mean, new_mean)
    program.update(variance, new_variance)
    x = ops.dropout(ops.reshape(ops.max_pool2d(ops.relu(x), window=(2, 2), stride=(2, 2)), shape=("n", 96)), ratio=0.3)
    h = ops.gelu(x @ program.parameter("hidden", (96, 16)))
    tied = program.parameter("tied", (16, 16))
    h = ops.dropout(ops.tanh(h @ tied) + ops.sin(h @ ops.transpose(tied)), ratio=0.3)
    logits = h @ program.parameter("output", (16, 5))
    loss = ops.softmax_cross_entropy(logits, label)
    program.minimize(loss, adam(warmup_cosine(0.01), clip=global_norm(0.5)), accumulate=2)
    program.minimize(ops.mean(ops.square(h)), sgd(0.01), [tied], name="small")
    return program


def states_after(desc: pb.ProgramDesc, *, planned: bool = True, **options: object) -> str:
    """The hash of all states after some steps on random rows."""
    plan = desc.entries[0].bindings[0].plan if planned else None
    stepper = Stepper(desc, plan=plan, **options)
    stepper.states.arrays["total_steps"][...] = STEPS
    for seed in range(STEPS):
        rng = np.random.default_rng(seed)
        stepper.step(image=rng.normal(size=(4, 8, 8, 2)), label=rng.integers(0, 5, 4))
    stepper.executor.close()
    return hashlib.sha256(b"".join(array.tobytes() for _, array in sorted(stepper.snapshot().items()))).hexdigest()


def bound_by(*left_out: str) -> pb.ProgramDesc:
    """The network, compiled by all passes but some."""
    desc = network().compile(n=4).desc
    run_passes(desc, PASSES.without(*left_out).since("bind_dimensions"))
    return desc


@pytest.fixture(scope="module")
def expected() -> str:
    """Ops as written, no memory shared but by time, one thread."""
    with nothing_in_place():
        return states_after(bound_by("order_ops"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("left_out", [(), ("order_ops",)], ids=["all", "no order_ops"])
@pytest.mark.parametrize("sharing", [nullcontext, nothing_in_place, buffers_apart])
def test_no_technique_and_no_number_of_threads_changes_a_bit(
    left_out: tuple[str, ...], sharing: Callable[[], AbstractContextManager[None]], threads: int, expected: str
):
    with sharing():
        assert states_after(bound_by(*left_out), threads=threads) == expected


def test_a_runtime_that_places_for_itself_changes_no_bit(expected: str):
    assert states_after(bound_by("plan_memory"), planned=False) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_computed_again_to_fit_a_budget_changes_no_bit(threads: int, expected: str):
    compiled = network().compile(n=4)
    full = compiled.desc.entries[0].bindings[0].plan.arena_bytes
    with pytest.raises(LimitError) as error:
        compiled.plan(1)
    [least] = re.findall(r"arena found has (\d+) bytes", str(error.value))
    assert int(least) < full
    compiled.plan(int(least))
    assert compiled.desc.entries[0].bindings[0].plan.arena_bytes <= int(least)
    assert any(op.recompute_of for op in bound_blocks(compiled.desc)[0].ops)
    assert states_after(compiled.desc, threads=threads) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_waits_in_a_file_to_fit_a_budget_changes_no_bit(threads: int, expected: str):
    compiled = network().compile(n=4)
    with pytest.raises(LimitError) as error:
        compiled.plan(1, spill=True)
    [least] = re.findall(r"arena found has (\d+) bytes", str(error.value))
    with pytest.raises(LimitError):
        compiled.plan(int(least))  # not without a file
    report = compiled.plan(int(least), spill=True, threads=threads)
    assert report.bindings[0].spilled
    assert states_after(compiled.desc, threads=threads) == expected


def accumulating(every: int, clip: float | None = None) -> Program:
    """A perceptron whose parameters are updated by the mean gradient of some steps."""
    program = Program()
    x = h = program.input("x", "float32", ("n", 16))
    for i in range(6):
        h = ops.tanh(h @ program.parameter(f"w{i}", (16, 16)))
    optimizer = adam(0.01, clip=global_norm(clip) if clip else None)
    program.minimize(ops.mean(ops.square(h - x)), optimizer, accumulate=every)
    return program


@pytest.mark.parametrize("clip", [None, 0.1], ids=["plain", "clipped"])
def test_sums_of_gradients_take_nothing_of_the_arena(clip: float | None):
    desc = accumulating(3, clip).compile(n=2).desc
    block = bound_blocks(desc)[0]
    [total] = {b.nbytes for b in block_buffers(BlockAnalysis(block)) if b.nbytes == 16 * 16 * 4}
    kept = [buffer for buffer in block_buffers(BlockAnalysis(block)) if buffer.stop > len(block.ops)]
    assert max(buffer.nbytes for buffer in kept) < total, "only the loss and what counts is there at the end"
    once = accumulating(1, clip).compile(n=2).desc.entries[0].bindings[0].plan.arena_bytes
    assert desc.entries[0].bindings[0].plan.arena_bytes < once + 4 * total, "what one update gives and a choice"


def test_training_with_sums_of_gradients_has_the_bits_that_it_has_when_nothing_is_in_place():
    x = np.random.default_rng(0).normal(size=(2, 16))
    shared, apart = accumulating(3, 0.1).compile(n=2).desc, accumulating(3, 0.1).compile(n=2).desc
    one = Stepper(shared, plan=shared.entries[0].bindings[0].plan)
    with nothing_in_place():
        other = Stepper(apart)
    assert one.executor.footprint.arena < other.executor.footprint.arena
    for _ in range(7):
        one.step(x=x), other.step(x=x)
        same_bits(one.snapshot(), other.snapshot())


def test_the_techniques_are_not_without_effect():
    sizes = [desc.entries[0].bindings[0].plan.arena_bytes for desc in (bound_by(), bound_by("order_ops"))]
    with nothing_in_place():
        sizes.append(bound_by("order_ops").entries[0].bindings[0].plan.arena_bytes)
    assert sizes[0] < sizes[1] < sizes[2]
