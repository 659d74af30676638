"""Outputs in place, compared with a model of memory by cells: all that keep every value are in place, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.in_place import keeps_every_value
from subjects.random_training import training_programs
from subjects.steps import bound_block, bound_blocks

from compiler import Program, adam, constant, momentum, ops, sgd
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.files import load
from runtime.engines.reference.kernels import KERNELS
from runtime.engines.reference.target import REFERENCE
from runtime.step import UNREAD_FEED, aliases_of, views_of
from runtime.step.phases import phases_of, waits_of

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "compiled").glob("*.pb"))
Pairs = list[list[tuple[int, int]]]


def with_views_and_states() -> pb.ProgramDesc:
    """Views of views, a state with a long way to its new value, one that stays, and one tensor read twice by an op."""
    program = Program()
    x = program.input("x", "float32", (2, 3))
    w = program.parameter("w", (2, 3), constant(0.5))
    kept = program.buffer("kept", (2, 3), constant(2.0), dtype="float32")
    made = ops.exp(x * w)
    flat = ops.reshape(made, shape=(6,))
    y = ops.reshape(ops.sin(flat) + ops.tanh(flat), shape=(2, 3)) * kept + ops.cos(made)
    program.fetch("flat", ops.reshape(flat, shape=(3, 2)))
    program.minimize(ops.sum(y * y + ops.square(w)), momentum(0.1), accumulate=2)
    return program.compile().desc


def with_many_pairs() -> pb.ProgramDesc:
    program = Program()
    x = program.input("x", "float32", (4, 3))
    w, b = program.parameter("w", (3, 3), constant(0.5)), program.parameter("b", (3,), constant(0.0))
    program.minimize(ops.mean(ops.square(ops.tanh(ops.tanh(x @ w + b) @ w))), adam(0.1))
    return program.compile().desc


PROGRAMS = {
    "views and states": with_views_and_states,
    "many pairs": with_many_pairs,
    **{path.stem: lambda path=path: load(path) for path in GOLDEN},
}


def pairs_of(block: pb.BlockDesc, **given) -> Pairs:
    return [[*pairs] for pairs in aliases_of(BlockAnalysis(block), REFERENCE, **given).in_place]


def in_phases(block: pb.BlockDesc, phases: Sequence[int], draws: Sequence[float]) -> list[int]:
    """An order of ops by phases, and in a phase by draws; views, which compute nothing, come first in theirs."""
    views = views_of(BlockAnalysis(block))
    return sorted(range(len(block.ops)), key=lambda i: (phases[i], -1 if i in views else draws[i], i))


def is_refused_by_choice(block: pb.BlockDesc, pairs: Pairs, i: int, output: int, position: int) -> bool:
    """Return True if another pair of the op excludes this one, or if this one would need a copy of a state."""
    if any(output == written or position == read for written, read in pairs[i]):
        return True
    analysis = BlockAnalysis(block)
    aliases = aliases_of(analysis, REFERENCE)
    state = analysis.state_of.get(aliases.root[block.ops[i].inputs[position]])
    new = block.ops[i].outputs[output]
    lasts = aliases.lifetimes.get(new, UNREAD_FEED).stop > len(block.ops)
    return state in analysis.updates and analysis.updates[state] != new and lasts


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=list(PROGRAMS))
def test_just_what_keeps_every_value_is_in_place(make):
    taken = refused = 0
    for block in bound_blocks(make()):
        pairs = pairs_of(block)
        assert keeps_every_value(block, pairs)
        for i, op in enumerate(block.ops):
            for output, position in product(range(len(op.outputs)), range(len(op.inputs))):
                if not op.inputs[position] or (output, position) in pairs[i]:
                    taken += (output, position) in pairs[i]
                    continue
                more = [[*each, (output, position)] if i == j else each for j, each in enumerate(pairs)]
                keeps = keeps_every_value(block, more) and not is_refused_by_choice(block, pairs, i, output, position)
                assert not keeps, f"{op.type}: {output} over {position}"
                refused += 1
    assert taken
    assert refused


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=list(PROGRAMS))
def test_in_phases_every_value_is_kept_in_whatever_order_the_ops_of_a_phase_run(make):
    rng, tried = np.random.default_rng(0), 0
    for block in bound_blocks(make()):
        for phases in phases_of(BlockAnalysis(block), 2, large=0):
            pairs = pairs_of(block, phases=phases)
            for _ in range(5):
                assert keeps_every_value(block, pairs, in_phases(block, phases, rng.random(len(block.ops))))
            before = waits_of(BlockAnalysis(block))
            assert all(phases[j] < phases[i] for i, earlier in enumerate(before) for j in earlier)
            tried += 1
    assert tried or "predict" in {entry.name for entry in make().entries}


@pytest.mark.thorough
@given(training_programs(), st.integers(0, 99))
@settings(max_examples=15)
def test_any_training_keeps_every_value(program: Program, seed: int):
    block = bound_block(program.compile(rows=16).desc)
    assert keeps_every_value(block, pairs_of(block))
    for phases in phases_of(BlockAnalysis(block), 3, large=0):
        order = in_phases(block, phases, np.random.default_rng(seed).random(len(block.ops)))
        assert keeps_every_value(block, pairs_of(block, phases=phases), order)


def test_a_pinned_tensor_is_not_written_over():
    program = Program()
    x = program.input("x", "float32", (3,))
    first = ops.exp(x)
    program.outputs(y=ops.sin(first))
    block = bound_block(program.compile().desc, "predict")
    assert pairs_of(block) == [[(0, 0)], [(0, 0)]]
    assert pairs_of(block, pinned=(first.name,)) == [[(0, 0)], []]


def test_a_kernel_that_allows_two_outputs_over_one_operand_gets_one(monkeypatch):
    program = Program()
    w = program.parameter("w", (3,), constant(0.5))
    program.minimize(ops.mean(ops.exp(w)), momentum(0.1))
    block = bound_block(program.compile().desc)
    at = next(i for i, op in enumerate(block.ops) if op.type == "momentum")
    monkeypatch.setitem(KERNELS, "momentum", KERNELS["momentum"]._replace(in_place=((0, 0), (1, 0))))
    assert pairs_of(block)[at] == [(0, 0)]


def test_nothing_is_written_over_what_waits_in_the_file():
    program = Program()
    w = program.parameter("w", (3,), constant(0.5))
    program.minimize(ops.mean(ops.exp(w)), sgd(0.1))
    block = bound_block(program.compile().desc)
    exp = next(op for op in block.ops if op.type == "exp")
    for name in ("in the file", "after"):
        block.tensors.add().CopyFrom(next(tensor for tensor in block.tensors if tensor.name == exp.outputs[0]))
        block.tensors[-1].name = name
    block.ops.add(id=98, type="spill", inputs=[exp.outputs[0]], outputs=["in the file"])
    block.ops.add(id=99, type="exp", inputs=["in the file"], outputs=["after"])
    pairs = pairs_of(block)
    assert pairs[-1] == []
    assert not keeps_every_value(block, [*pairs[:-1], [(0, 0)]])
