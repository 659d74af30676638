"""Pairs of 16-bit integers in words of 32 bits, and their multiply-add.

Differences of two bytes have nine bits, so two products of them have a sum of 18 bits: nothing saturates or overflows.
The instruction `pmaddwd` of SSE2, AVX2 and AVX-512 adds the products of pairs. Elsewhere each half of a word is widened
and multiplied.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import INT32, UINT8, Function, Index, Type, Value
from runtime.codegen.ir.words import bits, convert

INT16: Final = Type("signed", 16)

INSTRUCTIONS: Final = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
"""Names of the instruction by the bits of its vectors, as LLVM spells them."""


def pair_at(f: Function, address: Value, offset: Index, lanes: int) -> Value:
    """Return the pair of 16-bit integers at an address in all lanes of a vector of words."""
    pair = f.load(address, offset, 2)
    return f.splat(f.emit(f"bitcast {pair.type} {pair.text} to {INT32}", INT32), lanes)


def multiply_add(pairs: Value, words: Value, total: Value) -> Value:
    """Return the sums plus the products of the first and of the second elements of pairs; all are vectors of INT32."""
    f, width = total.function, total.type.bits * total.type.lanes
    if f.target.architecture != "x86_64":
        low = ((pairs << 16) >> 16) * ((words << 16) >> 16)
        return total + low + (pairs >> 16) * (words >> 16)
    halves, name = INT16.of(2 * total.type.lanes), f"llvm.x86.{INSTRUCTIONS[width]}"
    f.module.declare(f"declare {total.type} @{name}({halves}, {halves})")
    a, b = (bits(x, INT16) for x in (pairs, words))
    product = f.emit(f"call {total.type} @{name}({halves} {a.text}, {halves} {b.text})", total.type)
    return _as_it_is(total + product)


def _as_it_is(x: Value) -> Value:
    """Return a sum that LLVM does not take apart: adding the products of several steps first needs more registers."""
    register = "v" if "+avx512f" in x.function.target.features else "x"
    return x.function.emit(f'call {x.type} asm "", "={register},0"({x.type} {x.text})', x.type)


def difference(codes: Value, zero: Value) -> Value:
    """Return codes minus a zero point as INT16; `codes` are UINT8 and `zero` is INT16."""
    return convert(codes, INT16) - zero


def paired(first: Value, second: Value) -> Value:
    """Return the words of two vectors of INT16."""
    return (convert(first, INT32) & 0xFFFF) | (convert(second, INT32) << 16)


def zero_point(f: Function, address: Value | None) -> Value:
    """Return the zero point at an address as INT16."""
    assert address is not None, "a zero point is present"
    return convert(f.load(f.cast(address, UINT8)), INT16)
