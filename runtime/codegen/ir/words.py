"""Operations without an operator: multiply-add, selection, roots, conversions, lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Final

from runtime.codegen.ir.halves import narrowed, widened
from runtime.codegen.ir.types import FLOAT32, FLOAT64, MASK, Type
from runtime.codegen.ir.value import Index, Operand, Value

HALVES: Final = ("float16", "bfloat16")
"""Kinds of numbers that all operations but `convert` treat as plain bits."""


def fma(a: Value, b: Operand, c: Operand) -> Value:
    """Return a * b + c, rounded once if the target has the instruction."""
    return a.function.fma(a, a.like(b), a.like(c))


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """Return a in the lanes of the condition, b elsewhere; one of them is a value."""
    model = a if isinstance(a, Value) and (a.type.lanes or not isinstance(b, Value)) else b
    assert isinstance(model, Value), "a choice between two numbers has no type"
    if condition.type.lanes and not model.type.lanes:
        model = model.function.splat(model, condition.type.lanes)
    a, b, f = model.like(a), model.like(b), model.function
    chosen = f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}"
    return f.emit(chosen, a.type)


def maximum(a: Value, b: Operand) -> Value:
    """Return the larger operand, NaN where either is NaN; one instruction beside a number that is not NaN."""
    return _extreme(a, b, lambda x, y: x > y)


def minimum(a: Value, b: Operand) -> Value:
    """Return the smaller operand, NaN where either is NaN; one instruction beside a number that is not NaN."""
    return _extreme(a, b, lambda x, y: x < y)


def _extreme(a: Value, b: Operand, beats: Callable[[Value, Value], Value]) -> Value:
    other = a.like(b)
    a = other.like(a)
    if other.known is not None and isnan(other.known):
        return other
    if other.known is not None or not a.type.is_float:
        return where(beats(other, a), other, a)  # a NaN in a wins and loses no comparison: it stays
    return where(is_nan(a), a, where(beats(a, other), a, other))


def is_nan(x: Value) -> Value:
    """Return a mask of the lanes that are NaN."""
    return x.not_equal(x)


def sqrt(x: Value) -> Value:
    """Return the square root, correctly rounded."""
    return x.function.intrinsic("sqrt", x.type, x)


def absolute(x: Value) -> Value:
    """Return the absolute value; the least integer stays as it is, as in NumPy."""
    if x.type.is_float:
        return x.function.intrinsic("fabs", x.type, x)
    return x if x.type.kind == "unsigned" else where(x < 0, 0 - x, x)


def copysign(size: Operand, sign: Value) -> Value:
    """Return the size of the first number with the sign of the second."""
    return sign.function.intrinsic("copysign", sign.type, sign.like(size), sign)


def bits(x: Value, kind: Type) -> Value:
    """Return the same bits as numbers of another kind, with other lanes if the width differs."""
    type = kind.of(x.type.lanes * x.type.bits // kind.bits)
    return x.function.emit(f"bitcast {x.type} {x.text} to {type}", type)


def convert(x: Value, element: Type) -> Value:
    """Convert numbers to another type: floats to integers towards zero, and to 16-bit floats to the nearest."""
    to = element.of(x.type.lanes)
    if to == x.type:
        return x
    if x.type.kind in HALVES:
        return convert(widened(x), element)
    if to.kind in HALVES:
        return narrowed(x if x.type.is_float else convert(x, FLOAT64 if x.type.bits > 16 else FLOAT32), element)
    if to.kind == "mask":
        return x.not_equal(0)
    if to.text == x.type.text:
        return Value(x.text, to, x.function)
    return x.function.emit(f"{_conversion(x.type, to)} {x.type} {x.text} to {to}", to)


def saturated(x: Value, element: Type) -> Value:
    """Convert floats to integers, towards zero; floats out of range become the nearest integer, and NaN becomes 0."""
    if x.type.kind in HALVES:
        x = widened(x)
    to, f = element.of(x.type.lanes), x.function
    name = f"llvm.fpto{'si' if element.kind == 'signed' else 'ui'}.sat.{to.suffix}.{x.type.suffix}"
    f.module.declare(f"declare {to} @{name}({x.type})")
    return f.emit(f"call {to} @{name}({x.type} {x.text})", to)


def _conversion(source: Type, to: Type) -> str:
    if source.is_float and to.is_float:
        return "fpext" if to.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if to.kind == "signed" else "fptoui"
    if to.is_float:
        return "sitofp" if source.kind == "signed" else "uitofp"
    if to.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "signed" else "zext"


def quotient(a: Value, b: Operand) -> Value:
    """Return a / b of integers, towards zero; b is not 0, and not -1 if a is the least integer."""
    other = a.like(b)
    a = other.like(a)
    name = "sdiv" if a.type.kind == "signed" else "udiv"
    return a.function.emit(f"{name} {a.type} {a.text}, {other.text}", a.type)


def leading_zeros(x: Value) -> Value:
    """Count the 0 bits of an integer before its first 1."""
    no = Value("false", MASK, x.function)  # the flag "is poison for 0"
    return x.function.intrinsic("ctlz", x.type, x, no)


def shuffle(a: Value, b: Value, lanes: Sequence[int]) -> Value:
    """Select lanes by number, from the lanes of a followed by those of b."""
    type, picks = a.type.of(len(lanes)), ", ".join(f"i32 {lane}" for lane in lanes)
    return a.function.emit(f"shufflevector {a.type} {a.text}, {b.type} {b.text}, <{len(lanes)} x i32> <{picks}>", type)


def transposed(square: list[Value]) -> list[Value]:
    """Transpose as many vectors as each has lanes: neighbours exchange elements, then pairs, fours and so on."""
    lanes, bit = len(square), 1
    while bit < lanes:
        lower = [lane + (lanes - bit if lane & bit else 0) for lane in range(lanes)]
        upper = [lane + (lanes if lane & bit else bit) for lane in range(lanes)]
        turned = list(square)
        for i in range(lanes):
            if not i & bit:
                a, b = square[i], square[i | bit]
                turned[i], turned[i | bit] = shuffle(a, b, lower), shuffle(a, b, upper)
        square, bit = turned, bit * 2
    return square


def lane(x: Value, number: Index) -> Value:
    """Return one lane as a scalar."""
    if not x.type.lanes:
        return x
    return x.function.emit(f"extractelement {x.type} {x.text}, i64 {_numbered(number)}", x.type.of(0))


def with_lane(x: Value, number: Index, one: Value) -> Value:
    """Return the vector with another value in one lane."""
    if not x.type.lanes:
        return one
    return x.function.emit(f"insertelement {x.type} {x.text}, {one.type} {one.text}, i64 {_numbered(number)}", x.type)


def _numbered(number: Index) -> str:
    return number.text if isinstance(number, Value) else str(number)


def across(x: Value, join: Callable[[Value, Value], Value]) -> Value:
    """Reduce all lanes to one value by combining upper and lower halves, until one lane is left.

    The bits of the result depend on this order.
    """
    count = x.type.lanes
    while count > 1:
        count //= 2
        x = join(shuffle(x, x, range(count)), shuffle(x, x, range(count, 2 * count)))
    return lane(x, 0)


def any_lane(mask: Value) -> Value:
    """Return True, as a scalar, if a mask holds in any lane."""
    if not mask.type.lanes:
        return mask
    together = Type("unsigned", mask.type.lanes)
    return mask.function.emit(f"bitcast {mask.type} {mask.text} to {together}", together).not_equal(0)


def first(x: Value, count: int) -> Value:
    """Return the mask of the first `count` lanes of a vector like this."""
    lanes = ", ".join(f"i1 {int(i < count)}" for i in range(x.type.lanes))
    return Value(f"<{lanes}>", MASK.of(x.type.lanes), x.function)
