"""Folding: what is known is computed once, if that is worth it and the same on every machine."""

from __future__ import annotations

import struct

import pytest
from subjects.one_pass import Build, block_after, types

from compiler import Program, Value, ops, sgd
from compiler.passes.fold_constants import fold_constants
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from registry import OPS
from registry.op import find_op
from runtime.operators import CONTRACTS

F, INT, BOOL = ("float32", (2, 3)), ("int64", (2, 3)), ("bool", (2, 3))


def full(x: Value, number: float, shape: tuple[int, ...] = (), dtype: str = "") -> Value:
    return ops.full.on(x.block)(shape=shape, value=number, dtype=dtype or x.dtype)  # type: ignore[arg-type]


def count(x: Value, stop: float, dtype: str = "float32") -> Value:
    return ops.range.on(x.block)(stop=stop, dtype=dtype)  # type: ignore[arg-type]


def left(build: Build, x: tuple[str, tuple[int, ...]] = F) -> list[str]:
    return types(block_after("fold_constants", build, x))


FOLDED: dict[str, Build] = {
    "a quotient of numbers": lambda x: x * (full(x, 1.0) / full(x, 3.0)),
    "a number of elements": lambda x: x / ops.size.on(x.block)(shape=x.shape, dtype=x.dtype),
    "a chain": lambda x: x * ops.reshape(ops.sqrt(full(x, 1.0) + 1.0), shape=(1, 1)),
    "comparisons and choices": lambda x: x * ops.where(full(x, 1.0) > 2.0, full(x, 3.0), full(x, 4.0)),
    "integers to floats": lambda x: x * ops.cast(count(x, 3, "int64"), dtype="float32"),
    "floats to smaller ones": lambda x: x * ops.cast(full(x, 0.1, dtype="float64"), dtype="float32"),
    "floats to integers": lambda x: x * ops.cast(ops.cast(full(x, 3e9), dtype="int32"), dtype="float32"),
    "a small repetition": lambda x: x * ops.broadcast_to(full(x, 0.5), shape=(2, 3)),
    "infinities": lambda x: x * (full(x, 1.0) / full(x, 0.0)),
    "integers": lambda x: (
        x * ops.cast(ops.sum(count(x, 5, "int64")) // 3 + ops.max(count(x, 5, "int64")), dtype="float32")
    ),
}


@pytest.mark.parametrize("what", FOLDED)
def test_what_is_known_is_a_constant(what: str):
    assert len(left(FOLDED[what])) == 1


def test_a_table_is_a_constant_up_to_64_kib():
    assert left(lambda x: x[0, 0] + ops.square(count(x, 16_384))) == ["slice", "reshape", "add"]
    assert left(lambda x: x[0, 0] + ops.square(count(x, 16_385))) == ["slice", "reshape", "range", "square", "add"]


STAYS: dict[str, tuple[Build, str]] = {
    "an exponential, which CPUs round differently": (lambda x: x * ops.exp(full(x, 1.0)), "exp"),
    "a power": (lambda x: x * full(x, 3.0) ** full(x, 0.3), "pow"),
    "a sum of floats, whose order may differ": (lambda x: x * ops.sum(count(x, 3)), "sum"),
    "a mean": (lambda x: x * ops.mean(count(x, 3)), "mean"),
    "a product of matrices": (lambda x: x * (ops.reshape(count(x, 2), shape=(1, 2)) @ full(x, 2.0, (2, 1))), "matmul"),
    "a maximum of floats, which may be 0.0 or -0.0": (
        lambda x: x * ops.maximum(full(x, 0.0), full(x, -0.0)),
        "maximum",
    ),
    "a NaN, whose sign may differ": (lambda x: x * (full(x, 0.0) / full(x, 0.0)), "div"),
    "a large repetition": (lambda x: ops.concat(ops.broadcast_to(full(x, 0.5), shape=(300, 3)), x), "broadcast_to"),
    "a large filling": (lambda x: ops.concat(full(x, 0.5, (300, 3)), x), "full"),
    "a large range": (lambda x: x[0, 0] + count(x, 900), "range"),
    "a large tensor of one number": (lambda x: ops.concat(full(x, 0.5, (300, 3)) * full(x, 0.5), x), "mul"),
    "half of what an op gives": (lambda x: x * ops.split(count(x, 3), sizes=(1, 2))[0], "split"),
    "random numbers": (lambda x: x * ops.uniform.on(x.block)(shape=(3,), seed=_seed(x), step=_seed(x)), "uniform"),
    "what depends on an input": (lambda x: x * (full(x, 1.0) + full(x, 2.0) * ops.sin(x)), "add"),
}


def _seed(x: Value) -> Value:
    return full(x, 3.0, dtype="int64")


@pytest.mark.parametrize("what", STAYS)
def test_what_is_not_known_or_not_worth_it_stays(what: str):
    build, type = STAYS[what]
    assert type in left(build)


def test_the_elements_are_those_of_the_arithmetic():
    block = block_after("fold_constants", lambda x: x * (full(x, 1.0) / full(x, 3.0)), F)
    [constant] = [op for op in block.ops if op.type == "constant"]
    value = constant.attributes[0].tensor_value
    assert (value.dtype, list(value.shape)) == (pb.D_TYPE_FLOAT32, [])
    assert value.data == struct.pack("<f", struct.unpack("<f", struct.pack("<f", 1 / 3))[0])


def test_a_folded_op_keeps_its_id_its_tensor_and_its_stage():
    block = block_after("fold_constants", lambda x: x * (full(x, 1.0) / full(x, 3.0)), F)
    [constant, product] = block.ops
    assert (constant.id, list(constant.outputs), constant.stage) == (3, ["div_3"], pb.STAGE_FORWARD)
    assert list(product.inputs) == ["x0", "div_3"]


CHOICES: dict[str, tuple[Build, list[str]]] = {
    "always": (lambda x: ops.where(full(x, 1, dtype="bool"), -x, ops.exp(x)), ["neg"]),
    "never": (lambda x: ops.where(full(x, 0, (2, 3), dtype="bool"), -x, ops.exp(x)), ["exp"]),
    "of a smaller one": (lambda x: ops.where(full(x, 1, dtype="bool"), x[:1], ops.exp(x)), ["slice", "exp", "where"]),
    "now and then": (lambda x: ops.where(count(x, 3) > 1.0, -x, ops.exp(x)), ["neg", "exp", "where"]),
}


@pytest.mark.parametrize("what", CHOICES)
def test_a_choice_that_is_known_is_what_is_chosen(what: str):
    build, stay = CHOICES[what]
    assert left(build) == stay


def test_what_is_chosen_is_known():
    assert left(lambda x: x * (ops.where(full(x, 1, dtype="bool"), full(x, 2.0), x[0, 0]) * 3.0)) == ["mul"]


def test_a_constant_that_is_an_output_may_be_fetched():
    block = block_after("fold_constants", lambda x: [full(x, 1.0) + full(x, 2.0), x], F)
    assert [op.type for op in block.ops] == ["constant"]
    assert block.fetches[0].tensor == block.ops[0].outputs[0]


def test_the_number_of_rows_is_folded_where_it_is_bound_and_nowhere_else():
    program = Program()
    x, w = program.input("x", "float32", ("batch", 3)), program.parameter("w", (3,))
    program.minimize(ops.mean(ops.square(x * w)), sgd(0.1))
    desc = program.compile(batch=4).desc
    [entry] = [entry for entry in desc.entries if entry.name == "train"]
    assert "size" in types(desc.blocks[entry.source_block])
    assert "size" not in types(desc.blocks[entry.bindings[0].block])


def test_a_second_walk_finds_nothing():
    program = Program()
    x, w = program.input("x", "float32", (4, 3)), program.parameter("w", (3,))
    program.minimize(ops.mean(ops.square(x * w)), sgd(0.1))
    desc = program.compile().desc
    before = desc.SerializeToString(deterministic=True)
    fold_constants(BlockAnalyses(desc))
    assert desc.SerializeToString(deterministic=True) == before


def test_every_operator_that_is_exact_draws_nothing_and_has_one_result():
    names = [name for name, op in OPS.items() if op.traits.exact]
    assert len(names) > 50
    assert not any(CONTRACTS[name].random or find_op(name).signature.variadic_outputs for name in names)
    assert all(len(find_op(name).signature.outputs) == 1 for name in names)
