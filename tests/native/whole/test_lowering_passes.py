"""The table of the passes of lowering, the snapshots that they leave, and blocks inside ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from subjects.steps import bound_block

from compiler import Program, adam, ops
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import TensorType, tensor_desc
from runtime.codegen.explain import explained
from runtime.codegen.lower import lowered
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.passes.pass_table import Pass, PassTable
from runtime.codegen.lowering.passes.pipeline import PASSES
from runtime.engines.native.cpu import this_machine

SQUARE = TensorType("float32", (64, 64))


def lowered_block(
    block: pb.BlockDesc, threads: int = 2, is_instrumented: bool = False, blocks: list[pb.BlockDesc] | None = None
) -> LoweredBlock:
    return lowered(block, (), this_machine(), threads, is_instrumented, blocks=blocks or [])


def perceptron() -> pb.BlockDesc:
    program = Program("perceptron")
    x = h = program.input("x", "float32", ("batch", 64))
    for i in range(3):
        h = ops.tanh(h @ program.parameter(f"w{i}", (64, 64)) + program.parameter(f"b{i}", (64,)))
    program.minimize(ops.mean(ops.square(ops.softmax(h) - x)), adam(0.1))
    return bound_block(program.compile(batch=128).desc)


def heads() -> pb.BlockDesc:
    """A perceptron of sequences with attention, whose heads are split from the result of one product."""
    program = Program("heads")
    x = program.input("x", "float32", ("batch", 8, 64))
    parts = ops.split(x @ program.parameter("w0", (64, 192)), axis=2, sizes=(64, 64, 64))
    q, k, v = (ops.transpose(ops.reshape(part, shape=("batch", 8, 4, 16)), axis=(0, 2, 1, 3)) for part in parts)
    y = ops.transpose(ops.scaled_dot_product_attention(q, k, v), axis=(0, 2, 1, 3))
    y = ops.tanh(ops.reshape(y, shape=("batch", 8, 64)) @ program.parameter("w1", (64, 64)))
    program.minimize(ops.mean(ops.square(ops.softmax(y) - x)), adam(0.1))
    return bound_block(program.compile(batch=128).desc)


def without(name: str) -> tuple[Pass, ...]:
    return tuple(each for each in PASSES if each.name != name)


# The table.


def test_every_pass_has_the_name_of_its_file_and_says_what_it_does_in_a_line():
    for each in PASSES:
        assert each.function.__module__.rpartition(".")[2] == each.name
        assert each.does.endswith(".")


@pytest.mark.parametrize("each", [*PASSES], ids=lambda each: each.name)
def test_no_pass_can_be_left_out_unless_all_facts_that_it_establishes_are_optional(each: Pass):
    wanted = {fact for other in PASSES for fact in other.requires} | PASSES.promises.keys()
    if wanted.isdisjoint(each.establishes):
        assert PassTable("native", without(each.name), promises=PASSES.promises)
    else:
        with pytest.raises(ValueError, match=r"^native: |^native promises "):
            PassTable("native", without(each.name), promises=PASSES.promises)


def test_a_wrong_order_is_refused_with_the_reason():
    names = [each.name for each in PASSES]
    i = names.index("prepack")
    passes = [*PASSES]
    passes[i], passes[i + 1] = passes[i + 1], passes[i]
    with pytest.raises(ValueError, match="requires 'phases'") as error:
        PassTable("native", passes, promises=PASSES.promises)
    assert str(error.value) == (
        "native: place requires 'phases' (the pass counts lifetimes in phases), which prepack, before it, invalidates "
        "(prepacked kernel steps belong to no phase); put schedule between"
    )


def test_the_order_is_checked_for_instrumented_steps_too():
    everywhere = [replace(each, applies_to="ordinary steps") if each.name == "separate" else each for each in PASSES]
    with pytest.raises(ValueError, match=r"^native: partition requires 'groups' \(each group becomes one kernel\), "):
        PassTable("native", everywhere, promises=PASSES.promises)


# Snapshots.


def lines_after_each_pass(block: LoweredBlock) -> Iterator[tuple[str, LoweredBlock, list[str]]]:
    for name, snapshot in PASSES.snapshots(block.unlowered()):
        yield name, snapshot, list(explained(snapshot))


@pytest.mark.parametrize("is_instrumented", [False, True])
def test_no_pass_edits_the_states_before_it(is_instrumented: bool):
    states = list(lines_after_each_pass(lowered_block(heads(), is_instrumented=is_instrumented)))
    assert len({tuple(lines) for _, _, lines in states}) > len(states) / 2
    for name, snapshot, lines in states:
        assert list(explained(snapshot)) == lines, name


def test_the_last_snapshot_is_the_lowered_block():
    block = lowered_block(perceptron())
    assert list(explained(block, "chunk")) == list(explained(block))


def test_equal_kernels_have_the_kernel_steps_of_the_first_one():
    block = lowered_block(perceptron())
    first: dict[str, int] = {}
    for i, kernel in enumerate(block.kernels):
        assert kernel is not None
        same = first.setdefault(kernel.key, i)
        assert block.steps[i] is block.steps[same]
        if same == i:
            assert block.plans[kernel.key].kernel is kernel
    assert len(first) < len(block.kernels)


# Blocks inside ops.


def body(name: str, inner: tuple[int, int] | None = None) -> pb.BlockDesc:
    """A block of two products and an activation, or of two products and a condition with these blocks inside."""
    desc = pb.BlockDesc(results=[f"{name}.result"])
    desc.parameters.add(tensor=name, argument=0)
    desc.tensors.extend(tensor_desc(f"{name}{suffix}", SQUARE) for suffix in ("", ".square", ".tanh", ".result"))
    desc.ops.add(id=1, type="matmul", inputs=[name, name], outputs=[f"{name}.square"])
    for attribute in ("transpose_a", "transpose_b"):
        desc.ops[0].attributes.add(name=attribute, bool_value=False)
    desc.ops.add(id=2, type="tanh", inputs=[f"{name}.square"], outputs=[f"{name}.tanh"])
    desc.ops.add(id=3, type="neg", inputs=[f"{name}.tanh"], outputs=[f"{name}.result"])
    if inner is not None:
        desc.tensors.append(tensor_desc(f"{name}.choice", TensorType("bool", ())))
        desc.parameters.add(tensor=f"{name}.choice", argument=1)
        del desc.ops[2].inputs[:]
        desc.ops[2].type = "cond"
        desc.ops[2].inputs.extend([f"{name}.choice", f"{name}.tanh", f"{name}.choice"])
        desc.ops[2].blocks.extend(inner)
    return desc


def around() -> tuple[pb.BlockDesc, list[pb.BlockDesc]]:
    """A block whose last op has two blocks, of which the second has two inside."""
    outer = body("x", (0, 1))
    outer.parameters[0].state = "state of x"
    outer.parameters[1].state = "state of the choice"
    return outer, [body("a"), body("b", (2, 3)), body("c"), body("d")]


def test_a_block_inside_an_op_is_lowered_like_any_other():
    outer, blocks = around()
    block = lowered_block(outer, blocks=blocks)
    assert [group.name for group in block.groups] == ["matmul+tanh", "cond"]
    assert block.is_control(block.groups[1])
    first, second = block.bodies[3]
    assert [group.name for group in first.groups] == ["matmul+tanh+neg"]
    assert [group.name for group in second.groups] == ["matmul+tanh", "cond"]
    assert second.is_control(second.groups[1])
    for inside in (first, second, *second.bodies[3]):
        assert inside.chunks
        assert inside.memory.stored[-1] == inside.desc.results
        assert inside.nodes.feeds[0] == inside.desc.parameters[0].tensor


def test_blocks_inside_an_op_share_an_arena_in_the_arena_around_it():
    outer, blocks = around()
    block = lowered_block(outer, blocks=blocks)
    first, second = block.bodies[3]
    at = block.memory.bodies[3].arena
    spans = [(at, at + max(first.memory.arena_bytes, second.memory.arena_bytes))]
    spans += [(offset, offset + SQUARE.nbytes) for offset in block.memory.offsets.values()]
    spans.sort()
    assert len(spans) == 3  # the operand and the result of the op, and the arena
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert spans[-1][1] <= block.memory.arena_bytes
    assert first.memory.arena_bytes < second.memory.arena_bytes  # the operand of the inner op


def test_arguments_and_results_have_no_memory_in_a_block_inside_an_op():
    outer, blocks = around()
    first, second = lowered_block(outer, blocks=blocks).bodies[3]
    assert not first.memory.offsets
    assert [*second.memory.offsets] == ["b.tanh"]


def test_a_host_op_in_a_block_inside_an_op_has_a_phase_without_chunks():
    outer, blocks = around()
    blocks[3].ops[2].type = "log_determinant"
    block = lowered_block(outer, blocks=blocks)
    assert block.is_control(block.groups[1])
    inner = [body for bodies in block.bodies.values() for body in bodies]
    inner += [body for each in inner for bodies in each.bodies.values() for body in bodies]
    [(body, i)] = [(b, i) for b in inner for i, g in enumerate(b.groups) if g.is_host and not b.is_control(g)]
    assert not body.chunks[body.phases.first[i]]


def test_an_instrumented_step_has_no_blocks_inside_ops():
    outer, blocks = around()
    assert not lowered_block(outer, is_instrumented=True, blocks=blocks).bodies


def test_a_block_inside_an_op_is_printed_below_it_after_each_pass():
    outer, blocks = around()
    block = lowered_block(outer, blocks=blocks)
    for each in PASSES.of_step(is_instrumented=False):
        lines = list(explained(block, each.name))
        at = next(i for i, line in enumerate(lines) if "blocks  " in line)
        assert lines[at + 1].strip() == "block 1 of cond"
        assert "block 2 of cond" in map(str.strip, lines)
        alone = [line.strip() for line in explained(lowered_block(blocks[0]), each.name) if "arena " not in line]
        inside = [line.strip() for line in lines[at + 2 :] if "arena " not in line]
        assert inside[: len(alone)] == alone
