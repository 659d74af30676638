"""Rules of in-place writes, compared with a model of memory cell by cell."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from oracles.in_place import keeps_every_value

from compiler import CompileError, Program, adam, constant, momentum, ops, sgd
from compiler.passes.verify import verify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import load
from runtime.check import check_program
from runtime.engines.reference.kernels import KERNELS
from runtime.engines.reference.target import REFERENCE
from runtime.step import faults

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "compiled").glob("*.pb"))


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


def running_blocks(program: pb.ProgramDesc) -> list[pb.BlockDesc]:
    return [program.blocks[binding.block] for entry in program.entries for binding in entry.bindings]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=list(PROGRAMS))
def test_the_law_allows_just_the_pairs_after_which_every_reader_finds_its_value(make):
    allowed = refused = 0
    for block in running_blocks(make()):
        assert not list(faults(BlockAnalysis(block), REFERENCE))
        assert keeps_every_value(block)
        for op in block.ops:
            before = list(op.in_place)
            for output, position in product(range(len(op.outputs)), range(len(op.inputs))):
                if not op.inputs[position]:
                    continue
                del op.in_place[:]
                op.in_place.add(output=output, input=position)
                is_lawful = not list(faults(BlockAnalysis(block), REFERENCE))
                assert is_lawful == keeps_every_value(block), f"{op.type}: {output} over {position}"
                allowed, refused = allowed + is_lawful, refused + (not is_lawful)
            del op.in_place[:]
            op.in_place.extend(before)
    assert allowed
    assert refused


@pytest.mark.parametrize("make", [with_views_and_states, with_many_pairs])
def test_the_law_judges_many_pairs_at_once_as_the_cells_do(make):
    rng = np.random.default_rng(0)
    verdicts = []
    for block in running_blocks(make()) * 40:
        marked = pb.BlockDesc()
        marked.CopyFrom(block)
        for i in rng.choice(len(marked.ops), 2):
            op = marked.ops[i]
            if rng.random() < 0.5:
                del op.in_place[:]
            for output, position in KERNELS[op.type].in_place:
                if rng.random() < 0.5 and position < len(op.inputs) and op.inputs[position]:
                    op.in_place.add(output=output, input=position)
        verdicts.append(not list(faults(BlockAnalysis(marked), REFERENCE)))
        assert verdicts[-1] == keeps_every_value(marked)
    assert len(set(verdicts)) == 2


def sum_of_what_dies() -> tuple[pb.ProgramDesc, pb.OpDesc]:
    program = Program()
    x = program.input("x", "float32", (3,))
    program.outputs(y=ops.exp(x) + ops.sin(x))
    desc = program.compile().desc
    block = running_blocks(desc)[0]
    add = next(op for op in block.ops if op.type == "add")
    del add.in_place[:]
    return desc, add


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([(0, 0), (0, 1)], "it writes %add_3 over two operands"),
        ([(1, 0)], "its kernel cannot write output 1 over input 0"),
        ([(0, 7)], "its kernel cannot write output 0 over input 7"),
    ],
)
def test_the_compiler_and_the_runtime_refuse_a_pair_in_the_same_words(pairs, sentence):
    desc, add = sum_of_what_dies()
    add.in_place.extend(pb.InPlace(output=output, input=position) for output, position in pairs)
    with pytest.raises(CompileError) as refused:
        verify(BlockAnalyses(desc))
    assert f"op {add.id} (add): {sentence}; this breaks the rule" in str(refused.value)
    with pytest.raises(ProgramError) as refused:
        check_program(desc, REFERENCE)
    assert str(refused.value).endswith(f": {sentence}")


def test_a_kernel_that_allows_two_outputs_over_one_operand_gets_one(monkeypatch):
    program = Program()
    w = program.parameter("w", (3,), constant(0.5))
    program.minimize(ops.mean(ops.exp(w)), momentum(0.1))
    block = running_blocks(program.compile().desc)[0]
    update = next(op for op in block.ops if op.type == "momentum")
    pairs = ((0, 0), (1, 0))
    monkeypatch.setitem(KERNELS, "momentum", KERNELS["momentum"]._replace(in_place=pairs))
    del update.in_place[:]
    update.in_place.extend(pb.InPlace(output=output, input=position) for output, position in pairs)
    [(_, why)] = faults(BlockAnalysis(block), REFERENCE)
    assert why == "it writes two outputs over %w"


def test_nothing_is_written_over_what_waits_in_the_file():
    program = Program()
    w = program.parameter("w", (3,), constant(0.5))
    program.minimize(ops.mean(ops.exp(w)), sgd(0.1))
    block = running_blocks(program.compile().desc)[0]
    exp = next(op for op in block.ops if op.type == "exp")
    spilled = block.tensors.add(name="in the file")
    spilled.CopyFrom(next(tensor for tensor in block.tensors if tensor.name == exp.outputs[0]))
    spilled.name = "in the file"
    after = block.tensors.add()
    after.CopyFrom(spilled)
    after.name = "after"
    block.ops.add(id=98, type="spill", inputs=[exp.outputs[0]], outputs=["in the file"])
    over = block.ops.add(id=99, type="exp", inputs=["in the file"], outputs=["after"])
    over.in_place.add(output=0, input=0)
    assert (len(block.ops) - 1, "it writes over %in the file, which waits in the file") in faults(
        BlockAnalysis(block), REFERENCE
    )
    assert not keeps_every_value(block)
