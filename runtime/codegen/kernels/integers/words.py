"""Words of 32 bits that hold neighbours of the depth, and their multiply-add, which never saturates.

1. A word is a pair of 16-bit integers. Differences of bytes have nine bits, so two products of them have a sum of 18
   bits. The instruction `pmaddwd` of SSE2, AVX2 and AVX-512 adds the products of pairs. Elsewhere each half of a word
   is widened and multiplied.
2. Where the target has an instruction for bytes, a word is four codes of the left operand, or four codes minus 128 of
   the right one. Its four products and the sum that it adds to are added in 32 bits. `vpdpbusd` multiplies codes.
   `sdot` of NEON multiplies signed bytes, so codes of the left operand are made codes minus 128 in registers.
   `corrections` has the terms that make sums of differences from zero points of these sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.codegen.ir import INT32, UINT8, Function, Index, Type, Value
from runtime.codegen.ir.words import bits, convert
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.machine import Target

INT8: Final = Type("signed", 8)
INT16: Final = Type("signed", 16)

INSTRUCTIONS: Final = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
"""Names of the instruction for pairs by the bits of its vectors, as LLVM spells them."""

SIGN: Final = 128
"""Difference between a code of the right operand and the signed byte that stands for it in a word of four."""

SIGNS: Final = -0x7F7F7F80
"""The word of four signs: it makes a code the byte that is 128 less."""


def elements_of_word(target: Target) -> int:
    """Return the number of neighbours of the depth that a word holds."""
    return 4 if target.has_byte_products else 2


def has_signed_products(target: Target) -> bool:
    """Return True if words of four are multiplied as signed bytes: codes of the left operand count 128 less."""
    return target.has_byte_products and target.architecture == "aarch64"


def word_at(f: Function, address: Value, offset: Index, lanes: int) -> Value:
    """Return the word at an address of bytes or of 16-bit integers, in all lanes of a vector."""
    element = address.element
    word = f.load(address, offset, INT32.bits // element.bits)
    return f.splat(f.emit(f"bitcast {word.type} {word.text} to {INT32}", INT32), lanes)


def multiply_add(left: Value, right: Value, total: Value, element: Type) -> Value:
    """Return the sums plus the products of words; all are vectors of INT32, and `element` is that of the left words."""
    f, width = total.function, total.type.bits * total.type.lanes
    if element == UINT8 and has_signed_products(f.target):
        a, b, name = bits(left ^ SIGNS, INT8), bits(right, INT8), f"llvm.aarch64.neon.sdot.v{total.type.lanes}i32"
        name = f"{name}.v{a.type.lanes}i8"
        f.module.declare(f"declare {total.type} @{name}({total.type}, {a.type}, {b.type})")
        return f.emit(f"call {total.type} @{name}({_typed(total)}, {_typed(a)}, {_typed(b)})", total.type)
    if element == UINT8:
        name = f"llvm.x86.avx512.vpdpbusd.{width}"
        f.module.declare(f"declare {total.type} @{name}({total.type}, {total.type}, {total.type})")
        return f.emit(f"call {total.type} @{name}({_typed(total)}, {_typed(left)}, {_typed(right)})", total.type)
    if f.target.architecture != "x86_64":
        low = ((left << 16) >> 16) * ((right << 16) >> 16)
        return total + low + (left >> 16) * (right >> 16)
    a, b, name = bits(left, INT16), bits(right, INT16), f"llvm.x86.{INSTRUCTIONS[width]}"
    f.module.declare(f"declare {total.type} @{name}({a.type}, {b.type})")
    product = f.emit(f"call {total.type} @{name}({_typed(a)}, {_typed(b)})", total.type)
    return _as_it_is(total + product)


def _typed(x: Value) -> str:
    return f"{x.type} {x.text}"


def _as_it_is(x: Value) -> Value:
    """Return a sum that LLVM does not take apart: adding the products of several steps first needs more registers."""
    register = "v" if "+avx512f" in x.function.target.features else "x"
    return x.function.emit(f'call {x.type} asm "", "={register},0"({x.type} {x.text})', x.type)


def difference(codes: Value, zero: Value) -> Value:
    """Return codes minus a zero point as INT16; `codes` are UINT8 and `zero` is INT16."""
    return convert(codes, INT16) - zero


def joined(elements: Sequence[Value]) -> Value:
    """Return the words of vectors of their elements, INT16 or UINT8, the lowest first; absent elements are 0."""
    each = elements[0].type.bits
    word = convert(elements[0], INT32) & ((1 << each) - 1)
    for i, x in enumerate(elements[1:], 1):
        word = word | ((convert(x, INT32) & ((1 << each) - 1)) << (i * each))
    return word


def zero_point(context: KernelContext, number: int) -> Value:
    """Return a zero point, an operand by number, as INT16."""
    return convert(context.f.load(context.f.cast(context.operand(number), UINT8)), INT16)
