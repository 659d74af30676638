"""Merging: identical ops are one, and what only looks identical stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from subjects.one_pass import Build, block_after, types
from subjects.steps import Oracle, Stepper, bound_block, same_bits

from compiler import Program, Value, gradients, ops, sgd
from compiler.passes.merge_identical import merge_identical
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses

F = ("float32", (2, 3))


def left(build: Build, *inputs: tuple[str, tuple[int, ...]]) -> list[str]:
    return types(block_after("merge_identical", build, *inputs))


def test_equal_ops_are_computed_once():
    assert left(lambda x: ops.exp(x) + ops.exp(x), F) == ["exp", "add"]


def test_chains_of_equal_ops_are_computed_once():
    assert left(lambda x: ops.sin(ops.exp(x)) * ops.sin(ops.exp(x)), F) == ["exp", "sin", "mul"]


def test_ops_with_several_outputs_are_merged_whole():
    def build(x):
        first, second = (ops.split(x, sizes=(1, 1)) for _ in range(2))
        return [first[0] - second[1], second[0] - first[1]]

    assert left(build, F) == ["split", "sub"]


def test_equal_tensors_from_nothing_are_one():
    def build(x):
        fill = ops.full.on(x.block)
        return fill(shape=(3,), value=2.0) * x * fill(shape=(3,), value=2.0)

    assert left(build, F) == ["full", "mul", "mul"]


STAYS: dict[str, tuple[Build, list[str]]] = {
    "operands in another order": (lambda x: (x + 1.0) * (1.0 + x), ["add", "add", "mul"]),
    "other attributes": (lambda x: ops.sum(x, axis=(0,)) * ops.sum(x, axis=(1,), keepdims=True), ["sum", "sum", "mul"]),
    "an attribute that differs in the sign of a zero": (
        lambda x: ops.pad(x, before=(1, 0), after=(0, 0)) * ops.pad(x, before=(1, 0), after=(0, 0), value=-0.0),
        ["pad", "pad", "mul"],
    ),
    "other operators": (lambda x: ops.floor(x) * ops.trunc(x), ["floor", "trunc", "mul"]),
    "other operands": (lambda x: ops.exp(x) * ops.exp(-x), ["exp", "neg", "exp", "mul"]),
}


@pytest.mark.parametrize("what", STAYS)
def test_what_is_not_identical_stays(what: str):
    build, stay = STAYS[what]
    assert left(build, F) == stay


def test_random_ops_are_merged_only_within_a_stream():
    program = Program()
    x = program.input("x", "float32", (8,))
    w = program.parameter("w", (8,))
    a, b = (ops.dropout(x * w) for _ in range(2))
    program.minimize(ops.sum(a * b), sgd(0.1))
    block = bound_block(program.compile().desc)
    drawn = [op.random_stream for op in block.ops if op.type == "dropout" and op.stage == pb.STAGE_FORWARD]
    assert len(set(drawn)) == len(drawn) == 2
    copy = block.ops.add()
    copy.CopyFrom(next(op for op in block.ops if op.type == "dropout"))
    copy.id, copy.outputs[:] = 1000, ["again"]
    block.tensors.add(name="again", dtype=block.tensors[0].dtype, shape=block.tensors[0].shape)
    block.fetches.add(name="again", tensor="again", over=pb.OVER_LAST)
    desc = pb.ProgramDesc(blocks=[block], entries=[pb.EntryDesc(name="train", bindings=[pb.Binding(block=0)])])
    merge_identical(BlockAnalyses(desc))
    [merged] = desc.blocks
    assert [op.random_stream for op in merged.ops if op.type == "dropout" and op.stage == pb.STAGE_FORWARD] == drawn
    assert merged.fetches[-1] == pb.FetchDesc(
        name="again", tensor=next(op.outputs[0] for op in merged.ops if op.type == "dropout"), over=pb.OVER_LAST
    )


def network() -> pb.ProgramDesc:
    """A loss that needs exp(x * w) twice, and once more while it is differentiated."""
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    h = ops.sin(x * w)
    program.minimize(ops.sum(h * ops.sin(x * w)), sgd(0.1))
    program.fetch("h", h)
    program.fetch("slope", ops.cos(x * w))
    return program.compile().desc


def test_the_merged_op_is_the_first_one_under_its_id_and_counts_to_the_earliest_stage():
    block = bound_block(network())
    [cos] = [op for op in block.ops if op.type == "cos"]
    assert cos.stage == pb.STAGE_FORWARD, "what the backward pass needs first is a fetch of the forward pass, too"
    assert cos.gradient_of == 0
    assert len([op for op in block.ops if op.type == "sin"]) == 1
    assert cos.id < max(op.id for op in block.ops)


def test_what_differentiates_a_merged_op_differentiates_the_one_that_is_left():
    block = bound_block(network())
    ids = {op.id: op for op in block.ops}
    of_sin = {op.gradient_of for op in block.ops if op.gradient_of and ids[op.gradient_of].type == "sin"}
    assert len(of_sin) == 1


def test_a_merged_gradient_is_known_as_the_gradient_that_it_was():
    program = Program()
    x = program.input("x", "float32", (3,))
    y, z = ops.exp(x), ops.sin(x)
    dy, dz = gradients(ops.sum(y * ops.cos(x) + z * ops.cos(x)), [y, z])
    assert dy is not None
    assert dz is not None
    program.outputs(dy=dy, dz=dz, plain=ops.cos(x))
    _, block = program.compile().desc.blocks
    links = {tensor.name: tensor.gradient_of for tensor in block.tensors}
    assert links[block.fetches[0].tensor] in (y.name, z.name)
    assert len(block.fetches) == 3


def test_states_that_become_the_same_are_updated_each():
    program = Program()
    fed = program.input("x", "float32", (3,))
    a, b = program.buffer("a", (3,)), program.buffer("b", (3,))
    program.update(a, a + fed)
    program.update(b, a + fed)
    program.fetch("y", ops.exp(a + fed))
    compiled = program.compile()
    assert types(bound_block(compiled.desc)).count("add") == 2, "one of them counts steps"
    stepper = Stepper(compiled)
    oracle = Oracle(compiled.desc, stepper.snapshot())
    for i in range(3):
        x = np.full(3, i)
        same_bits(stepper.step(x=x), oracle.step(x=x))
        same_bits(stepper.snapshot(), oracle.states)
    assert stepper.snapshot()["b"].tolist() == [3.0] * 3


def between(x: Value, table: Callable[[], Value]) -> Value:
    """A table [8, 8] for rows [2, 8], made at either end of what needs most."""
    wide = ops.exp(ops.concat(*[x @ table()] * 16, axis=1)) * 0.5
    return ops.sum(ops.reshape(wide, shape=(2, 16, 8)), axis=(1,)) @ table()


def filled(x: Value, value: float, *shape: int) -> Value:
    return ops.full.on(x.block)(shape=shape, value=value)


ROWS, TABLE = ("float32", (2, 8)), ("float32", (8, 8))


def test_what_is_cheap_stays_where_keeping_it_raises_the_peak():
    found = left(lambda x: between(x, lambda: ops.sin(filled(x, 2.0, 8, 8))), ROWS)
    assert (found.count("full"), found.count("sin")) == (2, 2)


def test_what_is_cheap_is_computed_once_where_its_operand_would_be_kept_instead():
    assert left(lambda x, w: between(x, lambda: ops.cos(w)), ROWS, TABLE).count("cos") == 1


def test_what_costs_much_is_computed_once_whatever_memory_that_takes():
    found = left(lambda x: between(x, lambda: filled(x, 2.0, 8, 8) @ filled(x, 3.0, 8, 8)), ROWS)
    assert (found.count("full"), found.count("matmul")) == (2, 3)


def test_only_those_stay_that_make_the_difference():
    def build(x):
        y = between(x, lambda: filled(x, 2.0, 8, 8))
        return filled(x, 3.0, 2, 16) * (filled(x, 3.0, 2, 16) + ops.concat(y, y, axis=1))

    found = left(build, ROWS)
    assert found.count("full") == 3, "two tables, and one of the other two"


def test_a_second_walk_finds_nothing():
    desc = network()
    before = desc.SerializeToString(deterministic=True)
    merge_identical(BlockAnalyses(desc))
    assert desc.SerializeToString(deterministic=True) == before


def cubes() -> tuple[Program, Value, Value]:
    """The gradient of a cube, and the gradient of a function of the gradient of another."""
    program = Program()
    x, z = program.input("x", "float32", (3,)), program.input("z", "float32", (3,))
    [once] = gradients(ops.sum(x**3), [x])
    [again] = gradients(ops.sum(z**3), [z])
    assert once is not None
    assert again is not None
    [twice] = gradients(ops.sum(again * again), [z])
    assert twice is not None
    return program, once, twice


def test_what_helped_to_differentiate_one_op_and_then_a_later_one_is_kept_as_help_for_the_first():
    program, once, twice = cubes()
    program.outputs(once=once, twice=twice)
    compiled = program.compile()
    block = compiled.desc.blocks[-1]
    assert all(op.gradient_of < op.id for op in block.ops)
    stepper = Stepper(compiled, "predict")
    x, z = np.float32([1, 2, 3]), np.float32([2, 3, 4])
    fetched = stepper.step(x=x, z=z)
    np.testing.assert_allclose(fetched["once"], 3 * x**2)
    np.testing.assert_allclose(fetched["twice"], 36 * z**3)


def test_two_losses_of_which_the_second_penalises_a_gradient_are_compiled():
    program = Program()
    x, w, v = program.input("x", "float32", (3,)), program.parameter("w", (3,)), program.parameter("v", (3,))
    program.minimize(ops.sum((x * w) ** 3), sgd(0.1), [w])
    loss = ops.sum((x * v) ** 3)
    [dx] = gradients(loss, [x])
    assert dx is not None
    program.minimize(loss + ops.sum(dx * dx), sgd(0.1), [v], name="second")
    block = bound_block(program.compile().desc)
    stages = {op.id: op.stage for op in block.ops}
    helped = [(op.id, op.gradient_of) for op in block.ops if op.gradient_of]
    assert all(of < number and stages.get(of, pb.STAGE_FORWARD) == pb.STAGE_FORWARD for number, of in helped)


def test_of_ops_in_another_order_the_one_that_was_built_first_gives_its_id():
    block = pb.BlockDesc(
        tensors=[
            pb.TensorDesc(name=name, dtype=pb.D_TYPE_FLOAT32, shape=pb.Shape()) for name in ("x", "late", "early", "dx")
        ],
        parameters=[pb.ParameterDesc(tensor="x", feed="x")],
        ops=[
            pb.OpDesc(id=9, type="exp", inputs=["x"], outputs=["late"], stage=pb.STAGE_DERIVATIVE, gradient_of=7),
            pb.OpDesc(id=2, type="exp", inputs=["x"], outputs=["early"], stage=pb.STAGE_FORWARD),
            pb.OpDesc(id=3, type="mul", inputs=["x", "early"], outputs=["dx"], stage=pb.STAGE_GRADIENT, gradient_of=2),
        ],
        fetches=[pb.FetchDesc(name=name, tensor=name, over=pb.OVER_LAST) for name in ("late", "dx")],
    )
    program = pb.ProgramDesc(blocks=[block], entries=[pb.EntryDesc(name="predict", bindings=[pb.Binding(block=0)])])
    merge_identical(BlockAnalyses(program))
    kept, reader = program.blocks[0].ops
    assert (kept.id, kept.stage, kept.gradient_of, [*kept.outputs]) == (2, pb.STAGE_FORWARD, 0, ["late"])
    assert (reader.gradient_of, [*reader.inputs]) == (2, ["x", "late"])
