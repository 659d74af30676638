"""Outputs that overwrite operands in small programs: states, views, constants, and operands that are read again."""

from __future__ import annotations

import pytest
from subjects.steps import bound_block

from compiler import Program, Value, constant, global_norm, momentum, ops, sgd
from compiler.train.optimizers import Optimizer
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.engines.reference.target import REFERENCE
from runtime.step import aliases_of


def marked(program: Program) -> list[str]:
    """The states that the training block updates in place, the counter of steps last."""
    block = BlockAnalysis(bound_block(program.compile().desc))
    states = [block.state_of[name] for name in operands_in_place(block) if name in block.state_of]
    return sorted(states, key=lambda state: (state == "step", state))


def operands_in_place(block: BlockAnalysis) -> list[str]:
    """The operands in whose memory an output lies."""
    in_place = aliases_of(block, REFERENCE).in_place
    return [inputs[position] for inputs, pairs in zip(block.inputs, in_place, strict=True) for _, position in pairs]


def trained(**options: object) -> tuple[Program, Value]:
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    program.minimize(ops.sum(ops.square(x * w)), momentum(0.1), **options)  # type: ignore[arg-type]
    return program, w


def test_an_optimizer_writes_over_the_parameter_and_its_slots():
    program, _ = trained()
    assert marked(program) == ["w", "w.velocity", "step"]


def test_a_state_that_is_fetched_is_not_written_over():
    program, w = trained()
    program.fetch("w", w)
    assert marked(program) == ["w.velocity", "step"]


def test_a_state_that_another_state_takes_the_old_value_of_is_not_written_over():
    program, w = trained()
    program.update(program.buffer("old", (3,)), w)
    assert marked(program) == ["w.velocity", "step"]


def test_a_state_that_is_read_later_is_not_written_over():
    program, w = trained()
    program.fetch("later", ops.exp(w))
    assert marked(program) == ["w.velocity", "step"]


def test_a_state_that_the_op_reads_twice_is_not_written_over():
    program = Program()
    total = program.buffer("total", (3,), constant(1.0))
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        program.update(total, total + total)
    assert marked(program) == ["step"]


def test_an_op_whose_result_becomes_another_state_does_not_write_over_the_one_it_reads():
    program = Program()
    a, b = program.buffer("a", (3,)), program.buffer("b", (3,))
    with program.block.on_behalf_of(stage=pb.STAGE_UPDATE):
        program.update(b, a + 1.0)
        program.update(a, b + 1.0)
    assert marked(program) == ["step"]


def test_an_op_of_any_stage_may_write_over_the_state_that_it_updates():
    program = Program()
    a = program.buffer("a", (3,))
    program.update(a, a + 1.0)
    assert marked(program) == ["a", "step"]


def pairs(program: Program, entry: str = "predict") -> list[str]:
    """The operands that lie in the memory of an output, in the block of an entry."""
    return operands_in_place(BlockAnalysis(bound_block(program.compile().desc, entry)))


def test_a_result_is_written_over_an_operand_that_dies():
    program = Program()
    x = program.input("x", "float32", (3,))
    program.outputs(y=ops.exp(ops.sin(x)), x=x)
    assert pairs(program) == ["sin_1"]


def test_a_view_lies_in_the_memory_of_its_operand_though_both_are_read_later():
    program = Program()
    x = program.input("x", "float32", (2, 3))
    y = ops.reshape(x, shape=(3, 2))
    program.outputs(y=y, z=x * 2.0)
    assert pairs(program) == ["x"]


def test_nothing_is_written_over_what_a_view_of_it_reads_later():
    program = Program()
    x = program.input("x", "float32", (2, 3))
    s = ops.sin(x)
    y = ops.reshape(s, shape=(3, 2))
    program.outputs(z=ops.exp(s), y=y + 1.0, x=x)
    assert pairs(program) == ["sin_1", "reshape_2"], "exp may not; the view is read after it"


def test_nothing_is_written_over_the_memory_of_another_operand():
    program = Program()
    x = program.input("x", "float32", (1, 3))
    s = ops.sin(x)
    program.outputs(z=ops.atan2(s, ops.reshape(s, shape=(3,))), x=x)
    assert pairs(program) == ["sin_1"], "only the view shares"


def test_nothing_is_written_over_a_constant_or_a_view_of_a_state():
    program = Program()
    w = program.buffer("w", (2, 3))
    program.outputs(z=ops.exp(ops.reshape(w, shape=(3, 2))), y=ops.exp(program.constant(1.0)))
    assert pairs(program) == ["w"], "the reshape"


def test_a_dead_read_does_not_keep_an_update_from_being_in_place():
    program, w = trained()
    ops.exp(w)
    assert "w" in marked(program)


def in_state(program: Program, state: str, entry: str = "train") -> list[str]:
    """The ops whose results lie in the memory of a state, views not among them."""
    block = bound_block(program.compile().desc, entry)
    aliases = aliases_of(BlockAnalysis(block), REFERENCE)
    there = [(i, op) for i, op in enumerate(block.ops) if i not in aliases.views]
    return [op.type for _, op in there for name in op.outputs if aliases.root[name] == state]


def test_of_two_updates_neither_is_written_over_what_the_gradient_of_the_second_reads():
    program = Program()
    w = program.parameter("w", (3,))
    program.minimize(ops.sum(w), sgd(0.1))
    program.minimize(ops.sum(ops.square(w)), sgd(0.1))
    assert in_state(program, "w") == ["mul"], "twice the old value"


@pytest.mark.parametrize("optimizer", [momentum(0.1), momentum(0.1, clip=global_norm(1.0))], ids=["plain", "clipped"])
def test_the_sum_of_the_gradients_of_several_steps_is_written_over_the_one_before(optimizer: Optimizer):
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    program.minimize(ops.sum(ops.square(x * w)), optimizer, accumulate=2)
    assert in_state(program, "w.gradient") == ["add", "where"]
    assert [in_state(program, name) for name in ("w", "w.velocity")] == [["where"], ["where"]]


def test_a_state_is_written_over_rather_than_an_operand_in_the_arena():
    program = Program()
    x, total = program.input("x", "float32", (3,)), program.buffer("total", (3,))
    program.update(total, ops.abs(ops.sin(x) + total))
    assert in_state(program, "total") == ["add", "abs"]


def test_what_is_gone_before_the_end_of_the_step_may_lie_where_a_state_did():
    program = Program()
    x, a = program.input("x", "float32", (3,)), program.buffer("a", (3,))
    program.fetch("y", ops.sum(ops.exp(a)))
    program.update(a, ops.sin(x))
    assert in_state(program, "a") == ["exp"]


def test_what_a_fetch_or_another_state_takes_is_written_over_no_state():
    program = Program()
    x, a, b = program.input("x", "float32", (3,)), program.buffer("a", (3,)), program.buffer("b", (3,))
    program.update(b, ops.exp(a))
    program.update(a, ops.sin(x))
    program.fetch("y", ops.reshape(ops.neg(b), shape=(3, 1)))
    assert in_state(program, "a") == in_state(program, "b") == []


def test_a_new_value_may_be_a_view_of_what_is_written_over_a_view_of_the_state():
    program = Program()
    a = program.buffer("a", (2, 3))
    turned = ops.exp(ops.sin(ops.reshape(a, shape=(3, 2))))
    program.update(a, ops.reshape(turned, shape=(2, 3)))
    assert in_state(program, "a") == ["sin", "exp"]


def test_an_entry_writes_only_over_the_states_that_it_updates():
    program = Program()
    x = program.input("x", "float32", (3,))
    kept, passing = program.buffer("kept", (3,)), program.buffer("passing", (3,), lifespan="epoch")
    program.update(kept, ops.exp(kept))
    total = ops.exp(passing)
    program.update(passing, total)
    program.outputs(y=x + ops.sum(ops.exp(kept)) + ops.sum(total))
    assert in_state(program, "kept") == in_state(program, "passing") == ["exp"]
    assert in_state(program, "kept", "predict") == []
    assert in_state(program, "passing", "predict") == ["exp"]
