"""The walk into sub-blocks: what goes there, and what refuses to, in a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler import CompileError, Program, constant, ops, sgd
from compiler.analyses.step_graph import step_graph
from compiler.passes.bind_dimensions import bind_dimensions, only_sources, symbols_of
from compiler.passes.eliminate_dead_ops import eliminate_dead_ops
from compiler.passes.list_operators import list_operators
from compiler.passes.order_ops import order_ops
from compiler.passes.plan_memory import plan_memory
from compiler.passes.simplify import simplify
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.blocks.walk import inside
from prograd_proto.tensor_types import TensorType, tensor_desc
from runtime.check import check_program
from runtime.target import TARGET


def with_a_loop() -> pb.ProgramDesc:
    """A program as built, with an op in its training block that has a sub-block, in which one has another."""
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,), constant(0.5))
    program.minimize(ops.mean(ops.exp(x * w)), sgd(0.1))
    desc = program._assembled()
    training = next(entry.source_block for entry in desc.entries if entry.name == "train")
    outer = next(op for op in desc.blocks[training].ops if op.type == "exp")
    for name in ("a", "b"):
        outer.blocks.append(len(desc.blocks))
        block = desc.blocks.add()
        block.parameters.add(tensor=name, argument=0)
        block.tensors.append(tensor_desc(name, TensorType("float32", ("n", "m"))))
        block.tensors.append(tensor_desc(f"{name}1", TensorType("float32", ("n", "m"))))
        block.tensors.append(tensor_desc(f"{name}2", TensorType("float32", ("n", "m"))))
        block.ops.add(id=1, type="identity", inputs=[name], outputs=[f"{name}1"], stage=pb.STAGE_FORWARD)
        block.ops.add(id=2, type="neg", inputs=[f"{name}1"], outputs=[f"{name}2"], stage=pb.STAGE_FORWARD)
        block.results.append(f"{name}2")
        outer = block.ops[1]
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
    count = len(desc.blocks)
    assert inside(desc, [source]) == [source, count - 2, count - 1]
    assert inside(desc, [count - 1, source]) == [count - 1, source, count - 2]


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
    for number in running[1:]:
        assert [[dim.size for dim in tensor.shape.dims] for tensor in desc.blocks[number].tensors] == [[2, 5]] * 3
    for number in source[1:]:
        assert [[dim.symbol for dim in tensor.shape.dims] for tensor in desc.blocks[number].tensors] == [["n", "m"]] * 3


def test_leaving_out_what_was_bound_keeps_the_sub_blocks_of_sources():
    desc, _ = bound()
    only_sources(BlockAnalyses(desc))
    sources = inside(desc, [entry.source_block for entry in desc.entries])
    assert sorted(sources) == list(range(len(desc.blocks)))
    assert len(inside(desc, [train(desc).source_block])) == 3


def test_the_symbols_of_a_block_are_also_those_inside_its_ops():
    desc = with_a_loop()
    assert symbols_of(BlockAnalyses(desc), train(desc).source_block) == ["n", "m"]


def test_what_a_sub_block_is_given_stays_though_nothing_reads_it():
    desc = with_a_loop()
    inner = desc.blocks[-1]
    inner.parameters.add(tensor="c", argument=1)
    inner.tensors.append(tensor_desc("c", TensorType("float32", ("n",))))
    eliminate_dead_ops(BlockAnalyses(desc))
    assert [parameter.tensor for parameter in desc.blocks[-1].parameters] == ["b", "c"]


def test_passes_over_ops_simplify_inside_ops_too():
    desc, program = bound()
    simplify(program)
    running = inside(desc, [train(desc).bindings[0].block])
    assert [[op.type for op in desc.blocks[number].ops] for number in running[1:]] == [["neg"], ["neg"]]


def test_the_operators_of_sub_blocks_are_listed():
    desc = with_a_loop()
    list_operators(BlockAnalyses(desc))
    assert "neg" in [operator.type for operator in desc.operators]


@pytest.mark.parametrize(
    ("asked", "who"),
    [
        (lambda program: step_graph(program.bound[0]), "a graph of a step"),
        (order_ops, "a graph of a step"),
        (plan_memory, "a plan of memory"),
    ],
)
def test_who_knows_one_list_of_ops_only_refuses_sub_blocks(asked: Callable[[BlockAnalyses], object], who: str):
    _, program = bound()
    with pytest.raises(ProgramError) as error:
        asked(program)
    assert str(error.value) == (
        f"op 2 (exp) has sub-blocks, which {who} does not enter; it takes a block whose ops have none"
    )


def test_a_program_with_sub_blocks_is_not_compiled_but_refused_in_a_sentence():
    from compiler.build.compiled import compile_program

    desc = with_a_loop()
    with pytest.raises(CompileError) as error:
        compile_program(desc, {"n": 2, "m": 5})
    assert str(error.value) == (
        "block 0: op 2 (exp) has a sub-block; this breaks the rule: "
        "no op has sub-blocks unless its operator takes them, and no operator does yet"
    )


def test_the_runtime_refuses_an_op_with_sub_blocks_and_says_which():
    program = Program()
    x = program.input("x", "float32", ("n", 3))
    program.outputs(y=ops.exp(x))
    desc = program.compile(n=2).desc
    running = desc.blocks[desc.entries[0].bindings[0].block]
    running.ops[0].blocks.append(len(desc.blocks))
    desc.blocks.add()
    with pytest.raises(ProgramError, match=r"has sub-blocks, which no kernel of this runtime takes$"):
        check_program(desc, TARGET)
