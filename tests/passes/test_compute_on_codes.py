"""Codes of eight bits are moved, and looked up in tables, where the numbers that they stand for would be computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from subjects.one_pass import Build, block_after, types
from subjects.steps import same_bits

import runtime
from compiler import Program, Value, ops
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb

C = ("uint8", (2, 32, 64))
IMAGE = ("uint8", (1, 8, 8, 4))


def numbers(codes: Value, scale: float = 0.1, zero: int = 7) -> Value:
    return ops.dequantize_linear(codes, *parameters(codes, scale, zero))


def codes(x: Value, scale: float = 0.1, zero: int = 7) -> Value:
    return ops.quantize_linear(x, *parameters(x, scale, zero))


def parameters(x: Value, scale: float, zero: int) -> tuple[Value, Value]:
    constants = []
    for dtype, number in (("float32", scale), ("uint8", zero)):
        array = np.array(number, dtype)
        small = pb.SmallTensor(dtype=getattr(pb, f"D_TYPE_{dtype.upper()}"), data=array.tobytes())
        constants.append(ops.constant.on(x.block)(value=small))
    return constants[0], constants[1]


def after(build: Build, *inputs: tuple[str, tuple[int, ...]]) -> list[str]:
    return types(block_after("compute_on_codes", build, *inputs))


def dtypes(block: pb.BlockDesc, operator: str) -> list[int]:
    tensors = {tensor.name: tensor.dtype for tensor in block.tensors}
    return [tensors[op.outputs[0]] for op in block.ops if op.type == operator]


MOVED = {
    "reshape": (lambda x: ops.reshape(x, shape=(64, 64)), C),
    "transpose": (lambda x: ops.transpose(x, axis=(1, 2, 0)), C),
    "slice": (lambda x: x[:, 3:, ::2], C),
    "max_pool2d": (lambda x: ops.max_pool2d(x, window=(2, 2), stride=(2, 2), padding=(1, 1)), IMAGE),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_move_of_numbers_is_one_of_their_codes(name: str):
    move, given = MOVED[name]
    block = block_after("compute_on_codes", lambda c: move(numbers(c)), given)
    assert types(block) == [name, "dequantize_linear"]
    assert dtypes(block, name) == [pb.D_TYPE_UINT8]
    assert after(lambda c: codes(move(numbers(c))), given) == [name, "identity"]


def test_moves_follow_each_other_and_numbers_may_be_read_as_well():
    def build(c: Value) -> list[Value]:
        x = numbers(c)
        return [codes(ops.reshape(ops.transpose(x, axis=(2, 0, 1)), shape=(64, 64))), x + 1.0]

    assert after(build, C) == ["dequantize_linear", "transpose", "reshape", "identity", "add"]


def test_pieces_of_a_split_are_pieces_of_codes():
    def build(c: Value) -> list[Value]:
        first, second = ops.split(numbers(c), sizes=(20, 44), axis=2)
        return [codes(first), codes(second)]

    assert after(build, C) == ["split", "identity", "identity"]


def test_a_concatenation_of_one_scale_is_of_codes():
    def build(a: Value, b: Value) -> Value:
        return codes(ops.concat(numbers(a), numbers(b), axis=1))

    assert after(build, C, C) == ["concat", "identity"]


def test_a_concatenation_of_several_scales_is_quantised_before():
    def build(a: Value, b: Value) -> Value:
        return codes(ops.concat(numbers(a), numbers(b, 0.25), axis=1))

    block = block_after("compute_on_codes", build, C, C)
    assert types(block) == ["dequantize_linear", "identity", "quantize_linear", "concat"]
    assert dtypes(block, "concat") == [pb.D_TYPE_UINT8]


STAYS: dict[str, Build] = {
    "another scale": lambda c: codes(ops.reshape(numbers(c), shape=(64, 64)), 0.2),
    "another zero point": lambda c: codes(numbers(c), 0.1, 8),
    "a scale whose products are denormal": lambda c: codes(numbers(c, 1e-38), 1e-38),
    "a scale that makes infinities": lambda c: codes(numbers(c, 1e38), 1e38),
    "a negative scale": lambda c: codes(numbers(c, -0.1), -0.1),
}


@pytest.mark.parametrize("what", STAYS)
def test_numbers_of_other_scales_are_quantised_again(what: str):
    assert "quantize_linear" in after(STAYS[what], C)


def test_a_scale_that_is_fed_is_no_constant():
    assert after(lambda c, s, z: ops.reshape(ops.dequantize_linear(c, s, z), shape=(64, 64)), C, ("float32", ()), (
        "uint8", ())) == ["dequantize_linear", "reshape"]  # fmt: skip


def gelu(x: Value) -> Value:
    return codes(x * (ops.erf(x / 1.5) + 1.0), 0.3, 20)


def test_a_long_chain_is_a_table_with_equal_bits():
    block = block_after("compute_on_codes", lambda c: gelu(numbers(c)), C)
    assert types(block) == ["dequantize_linear", "div", "erf", "add", "mul", "quantize_linear", "gather"]
    sizes = {tensor.name: [dim.size for dim in tensor.shape.dims] for tensor in block.tensors}
    assert all(sizes[op.outputs[0]] == [256] for op in block.ops if op.type == "erf")


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_engines_have_equal_bits_with_and_without_tables(engine: str):
    rows = np.random.default_rng(0).integers(0, 256, (2, 32, 64)).astype("u1")
    found: list[dict[str, np.ndarray]] = []
    for size in (64, 1):  # one element is no table
        program = Program()
        x = numbers(program.input("c", "uint8", (2, 32, size)))
        program.outputs(y=gelu(x), z=x + ops.exp(x))
        run = runtime.Run(program.compile(), engine=engine)
        parts = [rows[..., i : i + size] for i in range(0, 64, size)]
        results = [run.predict({"c": part}) for part in parts]
        found.append({name: np.concatenate([each[name] for each in results], -1) for name in ("y", "z")})
        assert ("gather" in types_of(run)) == (size == 64)
    same_bits(*found)


def types_of(run: runtime.Run) -> Sequence[str]:
    return [op.type for op in run.session.bindings("predict")[0].block.ops]


SHORT: dict[str, tuple[Build, tuple[str, tuple[int, ...]]]] = {
    "one that only quantises again": (lambda c: codes(ops.relu(numbers(c)), 0.2, 0), C),
    "a small tensor": (lambda c: gelu(numbers(c)), ("uint8", (2, 64))),
}


@pytest.mark.parametrize("what", SHORT)
def test_a_chain_that_is_cheaper_in_registers_stays(what: str):
    build, given = SHORT[what]
    assert "gather" not in after(build, given)


def test_a_chain_of_two_tensors_stays_and_one_behind_it_is_a_table():
    def build(a: Value, b: Value) -> Value:
        return gelu(numbers(codes(numbers(a) * numbers(b), 0.4)))

    assert after(build, C, C)[-1] == "gather"
    assert after(build, C, C).count("mul") == 2


def test_the_pass_changes_nothing_more_when_it_runs_again():
    program = Program()
    c = program.input("c", "uint8", (2, 32, 64))
    program.outputs(y=gelu(ops.reshape(numbers(c), shape=(64, 64))))
    desc = program._assembled()
    desc.entries[0].bindings.add()
    run_passes(desc, PASSES.only("use_inference_forms", "eliminate_dead_ops", "bind_dimensions", "compute_on_codes"))
    before = desc.SerializeToString(deterministic=True)
    run_passes(desc, PASSES.only("compute_on_codes"))
    assert desc.SerializeToString(deterministic=True) == before


def drawn_chain(seed: int, *given: Value) -> list[Value]:
    """Return results of random ops of codes and their numbers."""
    rng = np.random.default_rng(seed)
    scales = (0.1, 0.25, 0.03)
    values = [numbers(c, scales[rng.integers(3)], int(rng.integers(0, 256))) for c in given]

    def other(x: Value) -> Value:
        alike = [value for value in values if value.shape == x.shape]
        return alike[rng.integers(len(alike))]

    steps: list[Build] = [
        lambda x: numbers(codes(x, scales[rng.integers(3)], 7), scales[rng.integers(3)], 7),
        lambda x: numbers(codes(x)),
        lambda x: ops.transpose(x, axis=tuple(rng.permutation(3).tolist())),
        lambda x: ops.reshape(x, shape=(int(x.shape[2]), int(x.shape[0]), int(x.shape[1]))),
        lambda x: x[:, ::-1, 1:],
        lambda x: ops.concat(x, other(x), axis=int(rng.integers(3))),
        lambda x: ops.split(x, sizes=(1, int(x.shape[2]) - 1), axis=2)[1],
        lambda x: x * other(x),
        lambda x: ops.tanh(x) + x,
        lambda x: ops.relu(x - 1.0),
        lambda x: ops.exp(-ops.abs(x)) / 3.0,
    ]
    for _ in range(int(rng.integers(3, 12))):
        values.append(steps[rng.integers(len(steps))](values[rng.integers(len(values))]))
    return [codes(x, 0.2, 100) if rng.random() < 0.6 else x for x in values[-3:]]


@pytest.mark.sampled(50)
@pytest.mark.parametrize("seed", range(100))
def test_random_chains_keep_their_bits(seed: int):
    given = ("uint8", (4, 24, 30))
    block_after("compute_on_codes", lambda *c: drawn_chain(seed, *c), given, given)
