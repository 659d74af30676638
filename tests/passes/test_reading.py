"""Block analyses agree with the block while passes edit it, and compute each answer once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from subjects.random_training import training_programs

from compiler import Program, adam, ops
from compiler.passes.pass_table import Pass
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis, question
from runtime.step import aliases_of, scratch_of, views_of
from runtime.target import TARGET

COLUMNS = ("ids", "stages", "op_types", "inputs", "outputs", "attributes", "blocks", "kinds")
COLUMNS += ("names", "types", "parameter_names", "state_of", "updates", "ends")


def network() -> Program:
    """Build a program on which every pass acts: dropout, statistics, constants, views, and an update."""
    program = Program()
    x = program.input("x", "float32", ("batch", 4, 4, 1))
    w, v = program.parameter("w", (3, 3, 1, 2)), program.parameter("v", (8, 3))
    h = ops.dropout(ops.relu(ops.conv2d(x, w) * 1.0), ratio=0.5)
    y = ops.reshape(ops.transpose(h, axis=(0, 3, 1, 2)), shape=("batch", 8)) @ v + ops.mean(h)
    program.minimize(ops.mean(ops.square(y)) + ops.mean(ops.square(y)), adam(1e-3))
    program.outputs(y=y)
    return program


def differences(kept: BlockAnalysis, fresh: BlockAnalysis) -> list[str]:
    """The columns of a block, and answers about it, that are not what the message says."""
    wrong = [column for column in COLUMNS if shown(getattr(kept, column)) != shown(getattr(fresh, column))]
    wrong += [column for column in ("ops", "tensors", "parameters") if getattr(kept, column) != getattr(fresh, column)]
    wrong += ["views_of"] if views_of(kept) != views_of(fresh) else []
    wrong += ["aliases_of"] if aliases_of(kept, TARGET) != aliases_of(fresh, TARGET) else []
    is_static = all(isinstance(extent, int) for type in fresh.types.values() for extent in type.shape)
    wrong += ["scratch_of"] if is_static and scratch_of(kept, TARGET) != scratch_of(fresh, TARGET) else []
    wrong += ["use_def"] if kept.use_def.chains != fresh.use_def.chains else []
    return wrong


def shown(column: object) -> object:
    """Kinds by what they say: equal ones may be two objects."""
    if isinstance(column, list) and column and hasattr(column[0], "written"):
        return [(kind.op_type, kind.inputs, kind.outputs, kind.written) for kind in column]
    return column


def looked_at_after_every_pass(program: pb.ProgramDesc, sizes: dict[str, int]) -> int:
    """Compile with a look at the kept readings after each pass; how many were compared."""
    compared = 0

    def look(kept: BlockAnalyses) -> None:
        nonlocal compared
        for number in range(len(kept)):
            assert differences(kept[number], BlockAnalysis(kept.desc.blocks[number])) == []
            compared += 1

    for entry in program.entries:
        entry.bindings.add(dims=[pb.SymbolSize(symbol=symbol, size=size) for symbol, size in sizes.items()])
    run_passes(program, [step for each in PASSES for step in (each, Pass(look))])
    return compared


def test_what_is_kept_of_a_network_is_what_its_blocks_say_after_every_pass():
    program = network()._assembled()
    assert looked_at_after_every_pass(program, {"batch": 4}) > len(PASSES.names)


@pytest.mark.thorough
@given(program=training_programs())
@settings(max_examples=10, deadline=None)
def test_what_is_kept_of_random_programs_is_what_their_blocks_say_after_every_pass(program: Program):
    assert looked_at_after_every_pass(program._assembled(), {"rows": 3}) > len(PASSES.names)


def trained() -> BlockAnalysis:
    desc = network().compile(batch=4).desc
    return BlockAnalyses(desc).bound[0]


asked: list[str] = []


@question()
def plain(block: BlockAnalysis) -> int:
    asked.append("plain")
    return len(block.ops)


@question(of_each_op=True)
def each(block: BlockAnalysis, word: str) -> list[str]:
    asked.append(f"each {word}")
    return [f"{word}{id}" for id in block.ids]


def questions_asked(block: BlockAnalysis) -> list[str]:
    asked.clear()
    plain(block), each(block, "a"), each(block, "b")
    return [*asked]


def test_a_question_is_answered_once():
    block = trained()
    assert questions_asked(block) == ["plain", "each a", "each b"]
    assert questions_asked(block) == []
