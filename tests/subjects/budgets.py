"""Networks whose step a budget makes smaller, and where a plan puts their buffers."""

from __future__ import annotations

from oracles.memory import Placed

from compiler import Program, constant, momentum, ops
from compiler.train.optimizers import Optimizer
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.target import REFERENCE
from runtime.placement import Buffer
from runtime.step import aliases_of, buffers_of, places_within, scratch_of, spilled_of


def deep(optimizer: Optimizer | None = None, *, depth: int = 8, width: int = 8) -> Program:
    """A perceptron with more bytes in its activations than in its weights; some units are dropped."""
    program = Program("deep", seed=3)
    x = h = program.input("x", "float32", ("n", width))
    for i in range(depth):
        w = program.parameter(f"w{i}", (width, width), constant(0.1 + i / 50))
        h = ops.dropout(ops.tanh(h @ w), ratio=0.25)
    program.minimize(ops.mean(ops.square(h - x)), optimizer or momentum(0.1))
    return program


def normalised(optimizer: Optimizer | None = None, *, depth: int = 4) -> Program:
    """Convolutions with batch normalisation, whose running averages are states that the forward pass updates."""
    program = Program("normalised", seed=4)
    h = program.input("x", "float32", ("n", 6, 6, 4))
    for i in range(depth):
        w = program.parameter(f"w{i}", (3, 3, 4, 4), constant(0.03 * (i + 1)))
        scale, bias = program.parameter(f"s{i}", (4,), constant(1.0)), program.parameter(f"b{i}", (4,))
        mean, variance = program.buffer(f"m{i}", (4,)), program.buffer(f"v{i}", (4,), constant(1.0))
        y, new_mean, new_variance, *_ = ops.batch_norm(ops.conv2d(h, w, padding=(1, 1)), scale, bias, mean, variance)
        program.update(mean, new_mean)
        program.update(variance, new_variance)
        h = ops.relu(y) + h
    program.minimize(ops.mean(ops.square(h)), optimizer or momentum(0.01))
    return program


def placed_of(block: pb.BlockDesc, plan: pb.MemoryPlan) -> list[Placed]:
    """The buffers of a step, as the runtime places them by its plan."""
    places = places_within(BlockAnalysis(block), REFERENCE, plan)
    assert places.arena_bytes == plan.arena_bytes
    return [Placed(b.nbytes, b.start, b.stop, offset) for b, offset in places.in_arena if b.nbytes]


def block_buffers(block: BlockAnalysis) -> list[Buffer]:
    """The buffers of the arena of a step; the memory of blocks inside ops is scratch."""
    scratch = [[(name, type.nbytes) for name, type in row] for row in scratch_of(block, REFERENCE)]
    return buffers_of(block, aliases_of(block, REFERENCE), scratch)


def spilled_buffers(block: BlockAnalysis) -> list[Buffer]:
    """The buffers of the file beside the arena."""
    return spilled_of(block, aliases_of(block, REFERENCE))
