"""16-bit floats: widened to float32, and narrowed to the nearest, with ties to even.

A bfloat16 is the upper half of a float32. Some instruction sets have no instructions for float16. There, integer
additions move the exponent, and a floating-point sum rounds numbers below the least normal one.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir.types import FLOAT32, INT32, UINT32, Type
from runtime.codegen.ir.value import Value

HALF: Final = Type("float", 16)
"""The type of a float16 in LLVM's instructions."""

INSTRUCTION_LANES: Final = 16
"""Lanes of a vector that `vcvtneps2bf16` rounds."""

NAN_OR_DENORMAL: Final = 0x01 | 0x20 | 0x80
"""The classes of `vfpclassps`: quiet NaN, denormal, signaling NaN."""

BIAS_DIFFERENCE: Final = 127 - 15
"""The difference of the exponent biases of float32 and float16."""


def widened(x: Value) -> Value:
    """Return the same numbers as float32."""
    f, lanes = x.function, x.type.lanes
    whole = f.emit(f"zext {x.type} {x.text} to {UINT32.of(lanes)}", UINT32.of(lanes))
    if x.type.kind == "bfloat16":
        return _as(whole << 16, FLOAT32)
    if _has_instructions(x):
        half = f.emit(f"bitcast {x.type} {x.text} to {HALF.of(lanes)}", HALF.of(lanes))
        return f.emit(f"fpext {half.type} {half.text} to {FLOAT32.of(lanes)}", FLOAT32.of(lanes))
    size = (whole & 0x7FFF) << 13
    exponent = size & (0x1F << 23)
    normal = size + (BIAS_DIFFERENCE << 23)
    beyond = normal + (BIAS_DIFFERENCE << 23)
    small = _as(_as(normal + (1 << 23), FLOAT32) - 2.0**-14, UINT32)
    size = _choice(exponent.equal(0x1F << 23), beyond, _choice(exponent.equal(0), small, normal))
    return _as(size | ((whole & 0x8000) << 16), FLOAT32)


def narrowed(x: Value, kind: Type) -> Value:
    """Return the nearest numbers of that kind to these of float32 or float64, rounded once."""
    single = _rounded_to_odd(x) if x.type.bits == 64 else x
    return _to_bfloat16(single, kind) if kind.kind == "bfloat16" else _to_float16(single, kind)


def _rounded_to_odd(x: Value) -> Value:
    """Return float64 as float32, rounded to odd, so that rounding the result again equals rounding x once.

    Boldo and Melquiond, "When double rounding is odd", 2005.
    """
    f, single = x.function, FLOAT32.of(x.type.lanes)
    near = f.emit(f"fptrunc {x.type} {x.text} to {single}", single)
    back = f.emit(f"fpext {single} {near.text} to {x.type}", x.type)
    size, wanted = (f.intrinsic("fabs", x.type, value) for value in (back, x))
    whole = _as(near, UINT32)
    whole = _choice(size > wanted, whole - 1, whole)
    return _as(_choice(back.not_equal(x), whole | 1, whole), FLOAT32)


def _to_bfloat16(x: Value, kind: Type) -> Value:
    if "+avx512bf16" in x.function.target.features and x.type.lanes == INSTRUCTION_LANES:
        return _to_bfloat16_by_instruction(x, kind)
    return _to_bfloat16_by_integers(x, kind)


def _to_bfloat16_by_instruction(x: Value, kind: Type) -> Value:
    """Return a vector rounded by one instruction.

    The instruction counts denormal numbers as 0 and keeps the payload of a NaN, so vectors with such numbers are
    rounded by integers instead.
    """
    f, to = x.function, kind.of(x.type.lanes)
    convert, classify = "llvm.x86.avx512bf16.cvtneps2bf16.512", "llvm.x86.avx512.fpclass.ps.512"
    f.module.declare(f"declare <16 x bfloat> @{convert}(<16 x float>)")
    f.module.declare(f"declare <16 x i1> @{classify}(<16 x float>, i32)")
    near = f.emit(f"call <16 x bfloat> @{convert}({x.type} {x.text})", to)
    near = f.emit(f"bitcast <16 x bfloat> {near.text} to {to}", to)
    odd = f.emit(f"call <16 x i1> @{classify}({x.type} {x.text}, i32 {NAN_OR_DENORMAL})", to)
    odd = f.emit(f"bitcast <16 x i1> {odd.text} to i16", Type("unsigned", 16)).not_equal(0)
    before, again, after = f.block, f.label(), f.label()
    f.line(f"br i1 {odd.text}, label %{again}, label %{after}")
    f.begin(again)
    exact = _to_bfloat16_by_integers(x, kind)
    f.line(f"br label %{after}")
    f.begin(after)
    return f.emit(f"phi {to} [ {near.text}, %{before} ], [ {exact.text}, %{again} ]", to)


def _to_bfloat16_by_integers(x: Value, kind: Type) -> Value:
    whole = _as(x, UINT32)
    rounded = (
        whole + (((whole >> 16) & 1) + 0x7FFF)
    ) >> 16  # carries above one half, or at one half after an odd digit
    quiet = ((whole >> 16) & 0x8000) | 0x7FC0
    return _in_16_bits(_choice(x.not_equal(x), quiet, rounded), kind)


def _to_float16(x: Value, kind: Type) -> Value:
    f, lanes = x.function, x.type.lanes
    if _has_instructions(x):
        half = f.emit(f"fptrunc {x.type} {x.text} to {HALF.of(lanes)}", HALF.of(lanes))
        return f.emit(f"bitcast {half.type} {half.text} to {kind.of(lanes)}", kind.of(lanes))
    whole = _as(x, INT32)
    size = whole & 0x7FFFFFFF
    normal = (size + (0xFFF - (BIAS_DIFFERENCE << 23)) + ((size >> 13) & 1)) >> 13
    small = _as(_as(size, FLOAT32) + 0.5, INT32) - (126 << 23)  # its last digit is that of the least float16
    beyond = _choice(size > (255 << 23), size.like(0x7E00), size.like(0x7C00))
    number = _choice(size < ((BIAS_DIFFERENCE + 1) << 23), small, normal)
    number = _choice(size < ((BIAS_DIFFERENCE + 31) << 23), number, beyond)
    return _in_16_bits(number | ((whole >> 16) & 0x8000), kind)


def _has_instructions(x: Value) -> bool:
    return any(feature in x.function.target.features for feature in ("+f16c", "+neon"))


def _choice(condition: Value, a: Value, b: Value) -> Value:
    chosen = f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}"
    return a.function.emit(chosen, a.type)


def _as(x: Value, kind: Type) -> Value:
    type = kind.of(x.type.lanes)
    return x.function.emit(f"bitcast {x.type} {x.text} to {type}", type)


def _in_16_bits(x: Value, kind: Type) -> Value:
    type = kind.of(x.type.lanes)
    return x.function.emit(f"trunc {x.type} {x.text} to {type}", type)
