"""Recomputation in units of the forward pass: layers run again before their gradients, each once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from subjects.steps import same_bits

from compiler.analyses.step_graph import step_graph
from compiler.build.compiled import Compiled
from compiler.planning.timeline import timeline_of
from compiler.planning.units import by_units
from prograd import Program, Run, adamw, layers, ops
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.step.arithmetic import operations_of


def stack(depth: int, width: int = 64, words: int = 32) -> Compiled:
    """Return layers of attention and a wide product with sums around them, and two matrices that all of them read."""
    program = Program("stack", seed=3)
    x = program.input("x", "float32", ("batch", words, width))
    y = program.input("y", "float32", ("batch", words, width))
    mask = ops.reshape(ops.sum(x, axis=-1) * 1e-3, shape=("batch", 1, 1, words))
    for layer in range(depth):
        with program.scope(f"layers.{layer}"):
            h = layers.layer_norm(x, "norm_1")
            q, k, v = (heads(layers.dense(h, name, width), words, width) for name in ("q", "k", "v"))
            attended = ops.softmax(ops.matmul(q, k, transpose_b=True) * 0.25 + mask)
            z = ops.reshape(ops.transpose(ops.matmul(attended, v), axis=(0, 2, 1, 3)), shape=("batch", words, width))
            x = x + ops.dropout(layers.dense(z, "o", width), ratio=0.1)
            h = ops.gelu(layers.dense(layers.layer_norm(x, "norm_2"), "up", 4 * width))
            x = x + layers.dense(h, "down", width)
    program.minimize(ops.squared_error(x, y), adamw(1e-3))
    return program.compile(batch=4)


def heads(x: Any, words: int, width: int) -> Any:
    return ops.transpose(ops.reshape(x, shape=("batch", words, 4, width // 4)), axis=(0, 2, 1, 3))


def training_block(compiled: Compiled) -> pb.BlockDesc:
    return compiled.desc.blocks[compiled.desc.entries[0].bindings[0].block]


def arena(compiled: Compiled) -> int:
    return compiled.desc.entries[0].bindings[0].plan.arena_bytes


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_deep_step_keeps_half_of_its_memory_for_less_than_one_more_forward_pass(engine: Any):
    whole, within = stack(10), stack(10)
    report = within.plan(budget=arena(whole) // 2)
    assert arena(within) <= arena(whole) // 2
    assert report.bindings[0].cost <= 4 / 3, "a forward pass is a third of a step"
    again = Counter(op.recompute_of for op in training_block(within).ops if op.recompute_of)
    assert again
    assert max(again.values()) == 1, "no op runs a third time"
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((4, 32, 64)).astype(np.float32) for name in ("x", "y")}
    runs = [Run(each, engine=engine) for each in (whole, within)]
    for _ in range(2):
        same_bits(*(run.step(feeds) for run in runs))
    assert runs[0].state_sha256 == runs[1].state_sha256


def test_more_is_recomputed_the_lower_the_budget():
    block = BlockAnalysis(training_block(stack(8)))
    timeline, costs = timeline_of(step_graph(block)), operations_of(block)

    def repeated(share: float) -> int:
        found = by_units(timeline, costs, int(share * timeline.peak), numbers_of(block.ops))
        assert found is not None
        assert found.peak <= share * timeline.peak
        return found.cost(costs)

    needed = [repeated(share) for share in (0.9, 0.7, 0.5)]
    assert timeline.cost(costs) < needed[0] < needed[1] < needed[2]


def test_a_product_alone_has_no_units():
    program = Program("one", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.minimize(ops.mean(layers.dense(x, "one", 64)), adamw(1e-3))
    block = BlockAnalysis(training_block(program.compile(batch=32)))
    assert by_units(timeline_of(step_graph(block)), operations_of(block), 0, numbers_of(block.ops)) is None


def numbers_of(desc: Sequence[pb.OpDesc]) -> set[int]:
    return {i for i, op in enumerate(desc) if op.stage == pb.STAGE_FORWARD}
