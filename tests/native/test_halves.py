"""Floats of 16 bits: every one of them, and all that rounding has to look at, against the reference's casts."""

import ml_dtypes
import numpy as np
import pytest
from native.bound import bind_compiled, lowered
from native.building import every_target
from native.staged import expected, op_of, staged

from prograd_proto import TensorType
from prograd_proto.dtypes import ITEM_BYTES
from registry import OPS, Block
from runtime.dtypes import numpy_dtype
from runtime.memory.aligned import aligned_bytes

HALVES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
EVERY_HALF = np.arange(2**16, dtype="u2")
both_kinds = pytest.mark.parametrize("kind", HALVES)


def check(target, name, *inputs, **attributes):
    block = op_of(name, inputs, attributes)
    [got], [wanted] = staged(target, block, inputs), expected(block.ops[0], inputs)
    if wanted.dtype.kind == "f":
        np.testing.assert_array_equal(got, wanted)  # of a NaN other bits may differ
        assert (np.signbit(got) == np.signbit(wanted)).all()
    else:
        assert got.tobytes() == wanted.tobytes(), (name, attributes, inputs)


def near_halves(kind, wide):
    """Numbers of 16 bits, what lies halfway to the next, and just beside that."""
    with np.errstate(all="ignore"):
        x = EVERY_HALF[::11].view(HALVES[kind]).astype(wide)
        after = (EVERY_HALF[::11] + np.uint16(1)).view(HALVES[kind]).astype(wide)
        middle = x + (after - x) / 2
        beside = [np.nextafter(middle, wide(sign * np.inf)) for sign in (1, -1)]
        rest = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 65519.9, 65520.0, 1e-45, 1.2e300, -1e-300]
        return np.concatenate([x, middle, *beside, np.array(rest, wide)])


@every_target
@both_kinds
def test_every_number_is_widened_to_itself(target, kind):
    x = EVERY_HALF.view(numpy_dtype(kind))
    for dtype in ("float32", "float64", "bool"):
        check(target, "cast", x, dtype=dtype)
    fractions = np.concatenate([np.arange(0, 255, 0.5), [2048, 30000, 1e-7]]).astype(HALVES[kind])
    for dtype in ("int32", "int64"):
        check(target, "cast", np.concatenate([fractions, -fractions]).view(numpy_dtype(kind)), dtype=dtype)
    check(target, "cast", fractions[:510].view(numpy_dtype(kind)), dtype="uint8")


@every_target
@both_kinds
def test_numbers_are_rounded_once_to_the_nearest_even_one(target, kind):
    rng = np.random.default_rng(0)
    for wide in (np.float32, np.float64):
        check(target, "cast", near_halves(kind, wide), dtype=kind)
    for dtype in ("int32", "int64"):
        powers = 2 ** rng.integers(0, np.iinfo(dtype).bits - 1, 999)
        check(target, "cast", (powers + rng.integers(-2, 3, 999)).clip(0).astype(dtype), dtype=kind)
    check(target, "cast", np.arange(256, dtype="u1"), dtype=kind)
    check(target, "cast", np.array([True, False, True]), dtype=kind)
    for other in HALVES:
        check(target, "cast", EVERY_HALF.view(numpy_dtype(other)), dtype=kind)


@every_target
@both_kinds
def test_an_odd_number_is_rounded_among_ordinary_ones(target, kind):
    """An instruction for whole vectors does not round some numbers as casts do."""
    odd = np.array(
        [1, 0x8001, 0x7FFF, 0x8000, 0x7FFFFF, 0x807F8000, 0x7F800001, 0xFFA12345, 0x7FC00000, 0x7F7FFFFF], "u4"
    )
    rows = np.random.default_rng(4).normal(size=(16 * len(odd), 16)).astype("f4")
    rows.view("u4")[np.arange(len(rows)), np.arange(len(rows)) % 16] = np.repeat(odd, 16)
    rows[:, 5][rows[:, 5] > 0] = 0.0
    check(target, "cast", rows, dtype=kind)


@every_target
@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_what_only_moves_elements_takes_them_as_they_are(target, dtype):
    rng, kind = np.random.default_rng(1), numpy_dtype(dtype)
    x, y = (
        rng.integers(0, 2 if dtype == "bool" else 256, 21 * kind.itemsize).astype("u1").view(kind) for _ in range(2)
    )
    check(target, "where", rng.integers(0, 2, (3, 7)).astype(bool), x.reshape(3, 7), y[:7])
    check(target, "broadcast_to", x.reshape(3, 1, 7), shape=(2, 3, 5, 7))
    check(target, "broadcast_to", x[:3].reshape(3, 1), shape=(3, 131))
    for value in (0.0, 1.0) if dtype in ("bool", "uint8") else (1.0, -3.0, 257.0):
        check(target, "full", shape=(7, 19), value=value, dtype=dtype)


@every_target
@both_kinds
def test_in_a_group_numbers_are_rounded_wherever_the_program_casts_them(target, kind):
    x = np.random.default_rng(2).normal(size=(3, 37)).astype("f4")
    block = Block()
    operand = block.define("x", TensorType("float32", x.shape))
    low = OPS["cast"](operand, dtype=kind)
    again = OPS["cast"](OPS["cast"](low, dtype="float32") * 3.0, dtype=kind)
    made = OPS["cast"](again, dtype="float32") + OPS["cast"](low, dtype="float32")
    block.desc.parameters.add(tensor="x", feed="x")
    step = lowered(block.desc, [made.name], target)
    assert len(step.groups) == 1
    compiled = bind_compiled(step, {}, aligned_bytes(step.memory.arena_bytes))
    compiled.arrays["x"][...] = x
    compiled()
    half = HALVES[kind]
    first = x.astype(half)
    wanted = (first.astype("f4") * np.float32(3)).astype(half).astype("f4") + first.astype("f4")
    np.testing.assert_array_equal(compiled.arrays[made.name], wanted)
