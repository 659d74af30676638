"""16-bit floats: rounded exactly, moved as they are, refused by arithmetic, differentiated in float32."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from oracles.half_floats import GREATEST, TYPES, hard_numbers, number, rounded
from samples import SAMPLES
from subjects.commands import told

import runtime
from compiler import OpError, Program, Value, constant, gradients, ops, sgd
from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.elements import pack, unpack
from registry.op import OPS
from runtime.conversion import converted
from runtime.dtypes import BFLOAT16
from runtime.operators import CONTRACTS

HALVES = ["float16", "bfloat16"]


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint16)


def in_memory(array: np.ndarray) -> np.ndarray:
    """Convert to the runtime's own dtype, which is independent of ml_dtypes."""
    return array.view(BFLOAT16) if array.dtype == ml_dtypes.bfloat16 else array


def computed(function, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the results of a program for these arrays."""
    program = Program()
    values = [program.input(f"x{i}", x.dtype.name, x.shape) for i, x in enumerate(arrays)]
    made = function(*values)
    made = [made] if isinstance(made, Value) else list(made)
    program.entry("predict", **{f"y{i}": y for i, y in enumerate(made)})
    run = runtime.Run(program.compile().desc)
    found = run.step({f"x{i}": x for i, x in enumerate(arrays)}, entry="predict")
    return [found[f"y{i}"] for i in range(len(made))]


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_cast_rounds_to_the_nearest_and_halves_to_even(dtype, wide):
    x = hard_numbers(dtype, wide)
    expected = np.array([rounded(dtype, float(v)) for v in x], np.uint16)
    assert np.array_equal(bits(converted(x, dtype)), expected)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_cast_of_integers_rounds_once(dtype):
    for whole in ("int32", "int64", "uint8"):
        rng = np.random.default_rng(1)
        top = min(np.iinfo(whole).max, 2**53)
        x = np.concatenate([rng.integers(0, top, 3000), 257 * 2 ** np.arange(1, 22), [0, 1, 255]])
        x = np.concatenate([x, x + 1, -x]).clip(np.iinfo(whole).min, top).astype(whole)
        with np.errstate(over="ignore"):
            expected = np.array([rounded(dtype, float(v)) for v in x], np.uint16)
        assert np.array_equal(bits(converted(x, dtype)), expected)


def test_random_bits_become_float16_as_numpy_makes_it():
    x = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16)
    assert np.array_equal(converted(x, "float16"), expected, equal_nan=True)


def test_random_bits_become_bfloat16_as_another_package_makes_it():
    x = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(x)
    assert np.array_equal(bits(converted(x, "bfloat16"))[number], bits(expected)[number])


@pytest.mark.parametrize("dtype", HALVES)
def test_all_65536_bit_patterns_mean_what_they_say_and_come_back(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(in_memory(np.zeros(0, TYPES[dtype])).dtype)
    wide = converted(every, "float32")
    expected = [math.copysign(number(dtype, b & 0x7FFF), 1 - 2 * (b >> 15)) for b in range(1 << 16)]
    assert np.array_equal(wide, np.array(expected, np.float32), equal_nan=True)
    assert np.array_equal(np.signbit(wide), np.arange(1 << 16) >= 1 << 15)
    numbers = ~np.isnan(wide)
    assert np.array_equal(bits(converted(wide, dtype))[numbers], np.arange(1 << 16)[numbers])
    with np.errstate(invalid="ignore"):  # of signalling NaN
        double = wide.astype(np.float64)
    assert np.array_equal(converted(every, "float64"), double, equal_nan=True)
    assert np.array_equal(converted(every, "bool"), wide != 0)


def test_every_nan_becomes_the_quiet_bfloat16_of_its_sign():
    singles = np.array([0x7F800001, 0x7FFFFFFF, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert [hex(b) for b in bits(converted(singles, "bfloat16"))] == ["0x7fc0"] * 3 + ["0xffc0"] * 2
    assert bits(converted(np.array([np.nan]), "bfloat16")) == 0x7FC0


def test_each_16_bit_dtype_becomes_the_other_by_one_rounding():
    x = hard_numbers("float16", "float32").astype(np.float32)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
        brain = converted(x, "bfloat16")
        expected = np.array([rounded("bfloat16", float(v)) for v in half], np.uint16)
        assert np.array_equal(bits(converted(half, "bfloat16")), expected)
        expected = np.array([rounded("float16", float(v)) for v in converted(brain, "float32")], np.uint16)
    assert np.array_equal(bits(converted(brain, "float16")), expected)


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 20000])
def test_a_cast_of_any_size_gives_every_element(size):
    x = np.random.default_rng(size).normal(size=size)
    assert np.array_equal(bits(converted(x, "bfloat16")), bits(x.astype(np.float32).astype(ml_dtypes.bfloat16)))


@pytest.mark.parametrize("dtype", HALVES)
def test_constants_are_rounded_the_same_without_numpy(dtype):
    for x in hard_numbers(dtype, "float64", 200):
        beyond = rounded(dtype, abs(float(x))) == rounded(dtype, math.inf)
        if beyond and math.isfinite(x):
            with pytest.raises(OverflowError):
                pack(dtype, [float(x)])
        else:
            assert int.from_bytes(pack(dtype, [float(x)]), "little") == rounded(dtype, float(x))
    every = struct.pack("<65536H", *range(1 << 16))
    signed = [number(dtype, b & 0x7FFF) * (1 - 2 * (b >> 15)) for b in range(1 << 16)]
    assert np.array_equal(unpack(dtype, every), signed, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_constant_beyond_the_largest_number_is_refused(dtype):
    with pytest.raises(OpError, match=rf"1e\+39 does not fit {dtype}$"):
        Program().constant(1e39, dtype)
    program = Program()
    program.entry("predict", y=program.constant(GREATEST[dtype], dtype))
    assert runtime.Run(program.compile().desc).step(entry="predict")["y"] == GREATEST[dtype]


INDICES = np.array([2, 0, 2])
MOVES = {
    "reshape": (lambda x: ops.reshape(x, shape=(2, 2, 3)), lambda x: x.reshape(2, 2, 3)),
    "transpose": (ops.transpose, lambda x: x.T),
    "slice": (lambda x: x[1:, ::-2], lambda x: x[1:, ::-2]),
    "concat": (lambda x: ops.concat(x, x, axis=1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda x: ops.stack(x, x, axis=1), lambda x: np.stack([x, x], 1)),
    "split": (lambda x: ops.split(x, sizes=(1, 2), axis=1)[1], lambda x: x[:, 1:]),
    "broadcast_to": (lambda x: ops.broadcast_to(x, shape=(2, 4, 3)), lambda x: np.broadcast_to(x, (2, 4, 3))),
    "pad": (lambda x: ops.pad(x, before=(1, 0), after=(0, 2), value=-1.5), None),
    "identity": (ops.identity, lambda x: x),
    "stop_gradient": (ops.stop_gradient, lambda x: x),
    "flip": (ops.flip, lambda x: x[::-1, ::-1]),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", HALVES)
def test_what_only_moves_elements_takes_16_bits(dtype, move):
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(TYPES[dtype])
    x[0] = [np.inf, -0.0, GREATEST[dtype]]
    ours, numpys = MOVES[move]
    [y] = computed(ours, x)
    wide = x.astype(np.float32)
    expected = numpys(wide) if numpys else np.pad(wide, ((1, 0), (0, 2)), constant_values=-1.5)
    assert y.dtype == ("float16" if dtype == "float16" else "float32")
    assert np.array_equal(y, expected)
    assert np.array_equal(np.signbit(y), np.signbit(expected))


@pytest.mark.parametrize("dtype", HALVES)
def test_gather_and_where_take_16_bits(dtype):
    x = np.random.default_rng(2).normal(size=(4, 3)).astype(TYPES[dtype])
    mask = np.array([[True], [False], [True], [False]])
    [y] = computed(lambda x, i: ops.gather(x, i, axis=1), x, INDICES)
    assert np.array_equal(y, x.astype(np.float32)[:, INDICES])
    chosen, filled = computed(lambda m, x: (ops.where(m, x, x[::-1]), ops.where(m, x, 0.1)), mask, x)
    assert np.array_equal(chosen, np.where(mask, x, x[::-1]).astype(np.float32))
    assert np.array_equal(filled, np.where(mask, x, np.array(0.1, TYPES[dtype])).astype(np.float32))


MOVERS = """
    cast constant full identity stop_gradient reshape transpose slice unslice pad split concat gather broadcast_to where
    spill reload when_training
"""


FACTORS = """
    matmul outer_sum conv2d conv2d_input_gradient conv2d_filter_gradient rnn_layer rnn_layer_gradient gru_layer
    gru_layer_gradient lstm_layer lstm_layer_gradient scaled_dot_product_attention attention_gradient
"""
"""Operators that multiply bfloat16 numbers and add in float32."""


def test_the_same_operators_take_16_bits_in_the_registry_and_in_the_runtime():
    named = {*(MOVERS + FACTORS).split(), "dequantize"}  # whose scales may be of 16 bits
    assert {name for name, op in OPS.items() if op.halves} == named
    exchanges = {"all_gather"}  # of states that processes share, in any dtype
    assert {name for name, contract in CONTRACTS.items() if contract.rule.halves} == named | exchanges


def test_every_other_operator_refuses_16_bits_wherever_it_takes_floats():
    refused = set()
    for case in SAMPLES:
        op = OPS[case.op]
        floats = [i for i, operand in enumerate(case.operands) if operand and operand.dtype in ("float32", "float64")]
        if op.halves or not floats:
            continue
        made = {"float32": "bfloat16", "float64": "bfloat16"}
        types = [o and TensorType(made.get(o.dtype, o.dtype), o.shape) for o in case.operands]
        attributes = op.signature.bind([None] * len(types), op.signature.spelled(case.attributes))[1]
        name = op.signature.flat_input_names(len(types))[floats[0]]
        with pytest.raises(OpError) as caught:
            op.infer_types(types, attributes)
        assert str(caught.value) == f"{name} is bfloat16, which is stored and moved only; cast it to float32"
        refused.add(case.op)
    assert len(refused) > 100


def test_arithmetic_says_what_to_cast_and_makers_that_they_make_none():
    program = Program()
    x = program.input("x", "bfloat16", (3,))
    assert told(OpError, lambda: x + 1.0).endswith(
        "add(a: bfloat16[3], b: bfloat16[]): a is bfloat16, which is stored and moved only; cast it to float32"
    )
    assert told(OpError, lambda: ops.eye.on(program)(shape=(2, 2), dtype="float16")).endswith(
        "eye(): it does not make float16, which is stored and moved only; make float32 and cast it"
    )


def test_the_runtime_refuses_programs_that_compute_in_16_bits():
    program = Program()
    x, y = program.input("x", "float32", (3,)), program.input("y", "bool", (3,))
    program.entry("predict", z=ops.neg(x), n=ops.cast(y, dtype="float32"))
    desc = program.compile().desc
    for block in desc.blocks:
        for tensor in block.tensors:
            if tensor.dtype == pb.D_TYPE_FLOAT32:
                tensor.dtype = pb.D_TYPE_FLOAT16
    with pytest.raises(ProgramError) as caught:
        runtime.Run(desc)
    assert str(caught.value).endswith("): needs float32 or float64 or int32 or int64, not float16; cast it first")


def test_the_runtime_refuses_kernels_without_a_dtype_rule_of_their_own_too():
    program = Program()
    x = program.input("x", "float32", (3,))
    program.entry("predict", z=ops.max(x), m=ops.equal(x, x))
    desc = program.compile().desc
    for block in desc.blocks:
        for tensor in block.tensors:
            tensor.dtype = pb.D_TYPE_BFLOAT16 if tensor.dtype == pb.D_TYPE_FLOAT32 else tensor.dtype
    with pytest.raises(ProgramError) as caught:
        runtime.Run(desc)
    assert str(caught.value).endswith("): x is bfloat16, which it cannot compute with; float32 it can")


def test_the_runtime_refuses_kernels_that_would_make_16_bits():
    program = Program()
    program.entry("predict", z=ops.one_hot(program.input("i", "int64", (3,)), depth=2))
    desc = program.compile().desc
    for block in desc.blocks:
        for tensor in block.tensors:
            tensor.dtype = pb.D_TYPE_FLOAT16 if tensor.dtype == pb.D_TYPE_FLOAT32 else tensor.dtype
        for op in block.ops:
            op.attributes[1].dtype_value = pb.D_TYPE_FLOAT16
    with pytest.raises(ProgramError) as caught:
        runtime.Run(desc)
    assert str(caught.value).endswith("its output is float16, which it does not make; a cast does")


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_16_bit_tensors_are_float32_and_not_rounded(dtype):
    program = Program()
    x = program.input("x", dtype, (4, 3))
    i = program.input("i", "int64", (3,))
    m = program.input("m", "bool", (4, 3))
    c = program.input("c", "float32", (4, 3))
    pieces = ops.split(ops.concat(x, ops.pad(x[1:], before=(1, 0), after=(0, 0))), sizes=(3, 5))
    parts = [
        ops.gather(x, i, axis=1),
        ops.where(m, x, ops.identity(ops.transpose(ops.reshape(x, shape=(3, 4))))),
        ops.concat(pieces[1], pieces[0])[:4],
        ops.broadcast_to(x[:, :1], shape=(4, 3)),
    ]
    loss = ops.sum(ops.cast(parts[0], dtype="float32") * c)
    for part in parts[1:]:
        loss = loss + ops.sum(ops.square(ops.cast(part, dtype="float32")) * c)

    def build(x: Value) -> Value:
        """Compute the same in float32, where casts change nothing."""
        pieces = ops.split(ops.concat(x, ops.pad(x[1:], before=(1, 0), after=(0, 0))), sizes=(3, 5))
        total = ops.sum(ops.gather(x, i, axis=1) * c)
        for part in (
            ops.where(m, x, ops.identity(ops.transpose(ops.reshape(x, shape=(3, 4))))),
            ops.concat(pieces[1], pieces[0])[:4],
            ops.broadcast_to(x[:, :1], shape=(4, 3)),
        ):
            total = total + ops.sum(ops.square(part) * c)
        return total

    single = program.input("single", "float32", (4, 3))
    [dx], [dsingle] = gradients(loss, [x]), gradients(build(single), [single])
    assert dx.type == TensorType("float32", (4, 3))
    program.entry("predict", dx=dx, dsingle=dsingle)
    rng = np.random.default_rng(5)
    half = rng.normal(size=(4, 3)).astype(TYPES[dtype])
    found = runtime.Run(program.compile().desc).step(
        {
            "x": half,
            "single": half.astype(np.float32),
            "i": INDICES,
            "m": rng.normal(size=(4, 3)) > 0,
            "c": rng.normal(size=(4, 3)).astype(np.float32),
        },
        entry="predict",
    )
    assert np.array_equal(found["dx"], found["dsingle"])
    assert np.count_nonzero(found["dx"]) == 12


@pytest.mark.parametrize("wide", ["float32", "float64"])
@pytest.mark.parametrize("dtype", HALVES)
def test_the_gradient_passes_a_cast_to_16_bits_and_back_whole(dtype, wide):
    program = Program()
    x, c = program.input("x", wide, (5,)), program.input("c", wide, (5,))
    kept = ops.cast(x, dtype=dtype)  # between forward and backward in half the memory
    [dx] = gradients(ops.sum(ops.cast(kept, dtype=wide) * c), [x])
    program.entry("predict", dx=dx, y=kept)
    numbers = np.array([1.0, 1e-30, 3.0, 1.0 + 2**-20, -7.0], wide)
    found = runtime.Run(program.compile().desc).step({"x": numbers, "c": numbers}, entry="predict")
    assert found["dx"].dtype == wide
    assert np.array_equal(found["dx"], numbers.astype(np.float32).astype(wide))
    assert np.array_equal(found["y"], [float(n) for n in numbers.astype(TYPES[dtype])])


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_gradients_pass_as_well(dtype):
    program = Program()
    x = program.input("x", dtype, (3,))
    wide = ops.cast(x, dtype="float32")
    [dx] = gradients(ops.sum(wide * wide * wide), [x])
    [ddx] = gradients(ops.sum(dx), [x])
    program.entry("predict", ddx=ddx)
    found = runtime.Run(program.compile().desc).step({"x": [1.0, 2.0, -0.5]}, entry="predict")
    assert np.array_equal(found["ddx"], np.float32([6.0, 12.0, -3.0]))


def test_the_seed_of_a_16_bit_target_is_float32():
    program = Program()
    x = program.input("x", "float32", (3,))
    half = ops.cast(x, dtype="float16")
    [dx] = gradients(half, [x])
    program.entry("predict", dx=dx)
    found = runtime.Run(program.compile().desc).step(entry="predict")
    assert np.array_equal(found["dx"], np.ones(3, np.float32))
    with pytest.raises(ProgramError, match="is not of the type of its target"):
        gradients(half, [x], seeds=[half])


def test_a_16_bit_loss_and_initial_value_are_checked(tmp_path):
    program = Program()
    w = program.parameter("w", (2,), constant(0.1), dtype="bfloat16")
    program.minimize(ops.sum(ops.square(ops.cast(w, dtype="float32"))), sgd(0.1))
    desc = program.compile().desc
    state = next(s for s in desc.states if s.name == "w")
    next(a for a in state.op.attributes if a.name == "dtype").dtype_value = pb.D_TYPE_BFLOAT16
    with pytest.raises(ProgramError) as caught:
        runtime.Run(desc)
    assert str(caught.value) == "state 'w': its initial op gives bfloat16[2], not float32[2]"
