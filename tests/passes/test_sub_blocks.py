"""The walk into sub-blocks: what goes there, and what is refused in a sentence."""

from __future__ import annotations

import pytest
from subjects.budgets import block_buffers
from subjects.commands import told

from compiler import CompileError, Program, constant, ops, sgd
from compiler.passes.bind_dimensions import bind_dimensions, only_sources, symbols_of
from compiler.passes.eliminate_dead_ops import eliminate_dead_ops
from compiler.passes.list_operators import list_operators
from compiler.passes.order_ops import order_ops
from compiler.passes.plan_memory import plan_memory, plan_of
from compiler.passes.simplify import simplify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.blocks.walk import inside
from prograd_proto.tensor_types import TensorType, tensor_desc
from runtime.check import check_program
from runtime.step import scratch_of
from runtime.target import TARGET


def with_a_loop() -> pb.ProgramDesc:
    """A program as built, with a loop in its training block in which lies another one."""
    program = Program()
    x = program.input("x", "float32", ("n", "m"))
    w = program.parameter("w", (3,), constant(0.5))
    rows = ops.map(lambda row: ops.map(lambda element: -ops.identity(element), row), x)
    program.minimize(ops.mean(w) + ops.stop_gradient(ops.mean(rows)), sgd(0.1))
    desc = program._assembled()
    for entry in desc.entries:
        entry.bindings.add(dims=[pb.SymbolSize(symbol="m", size=5), pb.SymbolSize(symbol="n", size=2)])
    return desc


def bound() -> tuple[pb.ProgramDesc, BlockAnalyses]:
    desc = with_a_loop()
    program = BlockAnalyses(desc)
    bind_dimensions(program)
    return desc, program


def train(desc: pb.ProgramDesc) -> pb.EntryDesc:
    return next(entry for entry in desc.entries if entry.name == "train")


def test_the_walk_enters_blocks_inside_blocks_and_each_once():
    desc = with_a_loop()
    source = train(desc).source_block
    assert inside(desc, [source]) == [source, 1, 2]
    assert inside(desc, [2, source]) == [2, source, 1]


def test_the_walk_refuses_a_block_that_is_not_there():
    desc = pb.ProgramDesc(blocks=[pb.BlockDesc(ops=[pb.OpDesc(blocks=[7])])])
    with pytest.raises(ProgramError) as error:
        inside(desc, [0])
    assert str(error.value) == "block 0: an op has the sub-block 7, and the program has 1 blocks"


def test_the_walk_refuses_a_block_inside_itself():
    desc = pb.ProgramDesc(blocks=[pb.BlockDesc(ops=[pb.OpDesc(blocks=[n])]) for n in (1, 0)])
    with pytest.raises(ProgramError) as error:
        inside(desc, [0])
    assert str(error.value) == "block 1: an op has the sub-block 0, inside which it lies itself"


def test_each_binding_has_sub_blocks_of_its_own_without_symbols():
    desc, _ = bound()
    entry = train(desc)
    source, running = inside(desc, [entry.source_block]), inside(desc, [entry.bindings[0].block])
    assert len(source) == len(running) == 3
    assert not set(source) & set(running)
    shapes = [[[d.size or d.symbol for d in t.shape.dims] for t in desc.blocks[n].tensors] for n in (1, running[1])]
    assert shapes == [[["m"], ["m"]], [[5], [5]]]


def test_leaving_out_what_was_bound_keeps_the_sub_blocks_of_sources():
    desc, _ = bound()
    only_sources(BlockAnalyses(desc))
    sources = inside(desc, [entry.source_block for entry in desc.entries])
    assert sorted(sources) == list(range(len(desc.blocks)))
    assert len(inside(desc, [train(desc).source_block])) == 3


def test_the_symbols_of_a_block_are_also_those_inside_its_ops():
    desc = with_a_loop()
    assert symbols_of(BlockAnalyses(desc), train(desc).source_block) == ["n", "m"]


def test_an_argument_that_nothing_reads_goes_with_its_operand():
    desc = with_a_loop()
    outer = next(op for op in desc.blocks[train(desc).source_block].ops if op.type == "scan")
    outer.inputs.append("w")
    desc.blocks[1].parameters.add(tensor="w", argument=1)
    desc.blocks[1].tensors.append(tensor_desc("w", TensorType("float32", (3,))))
    eliminate_dead_ops(BlockAnalyses(desc))
    assert outer.inputs[:] == ["x"]
    assert [parameter.tensor for parameter in desc.blocks[1].parameters] == ["x_0"]


def test_passes_over_ops_simplify_inside_ops_too():
    desc, program = bound()
    simplify(program)
    running = inside(desc, [train(desc).bindings[0].block])
    assert [[op.type for op in desc.blocks[number].ops] for number in running[1:]] == [["scan"], ["neg"]]


def test_the_operators_of_sub_blocks_are_listed():
    desc = with_a_loop()
    list_operators(BlockAnalyses(desc))
    assert "neg" in [operator.type for operator in desc.operators]


def test_the_memory_of_a_loop_is_in_the_plan_of_the_block_around_it():
    desc, program = bound()
    order_ops(program)
    plan_memory(program)
    block = program[train(desc).bindings[0].block]
    i = block.op_types.index("scan")
    [(name, arena), (_, row)] = scratch_of(block, TARGET)[i]
    assert arena.nbytes == plan_of(block.sub_blocks(i)[0]).arena_bytes > 0
    assert row == TensorType("float32", (5,))
    assert (name, arena.nbytes) in [(buffer.name, buffer.nbytes) for buffer in block_buffers(block)]


def test_blocks_lie_in_one_another_to_a_depth_that_has_a_bound():
    blocks = [pb.BlockDesc(ops=[pb.OpDesc(blocks=[n])]) for n in range(1, 30)]
    with pytest.raises(ProgramError, match=r"its op lies in 16 blocks, one in another; there are at most as many$"):
        inside(pb.ProgramDesc(blocks=[*blocks, pb.BlockDesc()]), [0])


def test_sub_blocks_of_an_operator_that_runs_none_are_refused_in_a_sentence():
    from compiler.build.compiled import compile_program

    desc = with_a_loop()
    next(op for op in desc.blocks[0].ops if op.type == "mean").blocks.append(2)
    desc.blocks[1].ops[0].blocks[:] = []
    assert told(CompileError, lambda: compile_program(desc, {"n": 2, "m": 5})) == (
        "block 0: op 2 (mean) has a sub-block; this breaks the rule: "
        "no op has sub-blocks unless its operator runs them, and such an op has them"
    )


def test_the_runtime_refuses_an_op_with_sub_blocks_and_says_which():
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    program.outputs(y=ops.exp(x))
    desc = program.compile(n=2).desc
    running = desc.blocks[desc.entries[0].bindings[0].block]
    running.ops[0].blocks.append(len(desc.blocks))
    desc.blocks.add()
    with pytest.raises(ProgramError, match=r"has sub-blocks, which its kernel does not run$"):
        check_program(desc, TARGET)
