"""Casts from floats to integers: towards zero, to the nearest integer that there is, and 0 for NaN."""

import numpy as np
import pytest
from native.building import HERE, every_target
from native.made import Made

import runtime
from compiler import Program, ops
from prograd_proto.blocks import BlockAnalyses
from registry import OPS
from runtime.engines.native.cpu import this_machine

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["uint8", "int32", "int64"]


def odd(dtype: str) -> np.ndarray:
    """Ordinary numbers and those at the ends of every integer dtype; float32 for bfloat16, which it rounds to."""
    powers = [sign * 2.0**k for k in (7, 8, 15, 31, 32, 53, 62, 63, 64) for sign in (1, -1)]
    ends = [x + step for x in powers for step in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    others = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e30, -1e30, 0.99, -0.99, 254.9, 255.9]
    rng = np.random.default_rng(0)
    numbers = np.array([*ends, *others, *rng.normal(0, 100, 32 * 64 - len(ends) - len(others))])
    with np.errstate(over="ignore"):
        return numbers.astype("float32" if dtype == "bfloat16" else dtype).reshape(32, 64)


def cast_by_python(x: np.ndarray, dtype: str) -> np.ndarray:
    """The definition, a number at a time."""
    info = np.iinfo(dtype)

    def one(number: float) -> int:
        if number != number:
            return 0
        if abs(number) == np.inf:
            return info.max if number > 0 else info.min
        return min(max(int(number), info.min), info.max)

    return np.array([one(number) for number in x.reshape(-1).tolist()], dtype).reshape(x.shape)


def as_bfloat16(x: np.ndarray) -> np.ndarray:
    """The numbers that bfloat16 has for these."""
    whole = x.view("u4")
    rounded = ((whole + (((whole >> 16) & 1) + 0x7FFF)) >> 16) << 16
    return np.where(np.isnan(x), x, rounded.astype("u4").view("f4"))


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("dtype", FLOATS)
@every_target
def test_a_float_outside_becomes_the_nearest_integer_on_every_target(target, dtype: str, to: str):
    x = odd(dtype)
    made = Made(lambda x: OPS["cast"](x, dtype=to), [x])
    np.testing.assert_array_equal(made.wanted[0], cast_by_python(x, to))
    np.testing.assert_array_equal(made.native(target)[0], made.wanted[0])


@pytest.mark.parametrize("engine", ["reference", *(f"native.{name}" for name in HERE)])
def test_a_bfloat16_outside_becomes_the_nearest_integer(engine: str):
    program = Program()
    stored = ops.cast(program.input("x", "float32", (32, 64)), dtype="bfloat16")
    program.outputs(**{to: ops.cast(stored, dtype=to) for to in INTEGERS})
    x = odd("bfloat16")
    made = runtime.Run(program.compile().desc, engine=engine).step({"x": x}, entry="predict")
    for to in INTEGERS:
        np.testing.assert_array_equal(made[to], cast_by_python(as_bfloat16(x), to))


def test_a_cast_of_one_number_and_in_a_chain():
    def write(x):
        return OPS["cast"](OPS["cast"](OPS["mul"](x, x), dtype="int32"), dtype="float32")

    made = Made(write, [odd("float32")])
    for computed in (made.wanted[0], made.native(this_machine())[0]):
        assert computed.max() == 2.0**31
        assert computed.min() == 0
    for number in (np.nan, np.inf, 3e9):
        made = Made(lambda x: OPS["cast"](x, dtype="int32"), [np.array(number)])
        assert made.wanted[0] == made.native(this_machine())[0] == (0 if number != number else 2**31 - 1)


@pytest.mark.parametrize(("number", "wanted"), [(3e9, 2**31 - 1), (-3e9, -(2**31)), (np.inf, 2**31 - 1), (2.9, 2)])
def test_a_known_float_is_cast_alike_while_compiling(number: float, wanted: int):
    program = Program()
    x = program.input("x", "int32", (4,))
    known = ops.full_like(ops.cast(x, dtype="float32"), number)
    program.outputs(y=ops.maximum(ops.cast(known, dtype="int32"), x))
    desc = program.compile().desc
    assert all("cast" not in block.op_types for block in BlockAnalyses(desc).bound)
    for engine in ("reference", "native"):
        made = runtime.Run(desc, engine=engine).step({"x": np.full(4, -(2**31), "int32")}, entry="predict")
        assert made["y"].tolist() == [wanted] * 4


@pytest.mark.parametrize("engine", ["reference", *(f"native.{name}" for name in HERE)])
def test_a_fraction_is_dropped_where_integers_are_filled(engine: str):
    program = Program()
    x = program.input("x", "int64", (32, 64))
    values = {"int32": -1.5, "int64": 3.75, "uint8": 255.5}
    filled = {to: ops.full.on(program)(shape=(32, 64), value=value, dtype=to) for to, value in values.items()}
    program.outputs(y=x + filled["int64"], **filled)
    made = runtime.Run(program.compile().desc, engine=engine).step({"x": np.ones((32, 64), "int64")}, entry="predict")
    wanted = {"int32": -1, "int64": 3, "uint8": 255, "y": 4}
    for name, number in wanted.items():
        np.testing.assert_array_equal(made[name], number)
