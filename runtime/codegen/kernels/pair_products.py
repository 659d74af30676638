"""Products of pairs of bfloat16: a word of 32 bits holds two neighbours of the depth, the first one below.

A program names one of two orders of additions. That of tiles is the order of the instruction `tdpbf16ps` of AMX (Intel
64 and IA-32 Architectures Software Developer's Manual, volume 2): `matrix_tiles` has it, and `pair_chains` computes it
by vector instructions. That of pairs is one chain, the second element of each pair before the first, as `vdpbf16ps` of
AVX-512 adds: `tiles` computes it. Each product is added by a multiply-add that rounds once. Operands and sums below the
least normal number count as 0. Vector instructions do so in the mode of the processor that flushes such numbers.

x86 flushes a sum that is below the least normal number after rounding, AArch64 one that is below it before rounding.
The modes differ for sums that round to the least normal number. AArch64 sets a flag whenever it flushes a sum, so a
tile during which the flag was set is computed again, without the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from runtime.codegen.ir import FLOAT32, UINT32, Function, Type, Value
from runtime.codegen.ir.types import BFLOAT16, INT32, UINT64
from runtime.codegen.ir.words import absolute, any_lane, bits, convert, copysign, fma, where
from runtime.codegen.kernels.depth import PanelVector

WORD: Final = FLOAT32
"""The type of a pair in memory and in registers: 32 bits, which are no number."""

GROUP_PAIRS: Final = 16
"""Pairs of a group of the depth, which has a chain for the first elements of its pairs and one for the second ones."""

MXCSR_FLUSHES: Final = 0x8040
"""Bits of the control word of x86 that count denormal results and operands as 0."""

FPCR_FLUSHES: Final = 1 << 24
"""The bit of the control word of AArch64 that does."""

FPSR_FLUSHED: Final = 1 << 3
"""The bit of the status word of AArch64 that is set when a result is flushed."""

LEAST_NORMAL: Final = 2.0**-126
"""The least normal number of float32."""

TINY_SCALE: Final = 2.0**32
"""Factor that makes sums near the least normal number so large that all their digits are normal."""

VECTORS_PER_ITERATION: Final = 4
"""Vectors of words that one iteration copies."""

PAIR: Final = Type("bfloat16", 16)

UINT16: Final = Type("unsigned", 16)

EXPONENT: Final = 0x7F80
"""Bits of the exponent of a bfloat16; all are set if it is infinite or NaN."""


def widened_half(words: Value, half: int) -> Value:
    """Return the first elements of pairs as float32, or the second ones if `half` is 1."""
    whole = bits(words, UINT32)
    return bits(whole & 0xFFFF0000 if half else whole << 16, FLOAT32)


def chained(words: Value, following: Value, half: int) -> Value:
    """Return words with the first elements of pairs above those of the following pairs; with `half` 1 the second ones.

    The instruction for pairs adds them in this order.
    """
    x, y = bits(words, UINT32), bits(following, UINT32)
    return bits((x & 0xFFFF0000) | (y >> 16) if half else (x << 16) | (y & 0xFFFF), WORD)


def added_by_instruction(x: Value, y: Value, total: Value) -> Value:
    """Return the sums after the products of the upper elements of two vectors of words, then of the lower ones."""
    f, lanes = total.function, total.type.lanes
    vector, pairs, name = total.type, f"<{2 * lanes} x bfloat>", f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    f.module.declare(f"declare {vector} @{name}({vector}, {pairs}, {pairs})")
    a, b = (f.emit(f"bitcast {v.type} {v.text} to {pairs}", PAIR.of(2 * lanes)).text for v in (x, y))
    return f.emit(f"call {vector} @{name}({vector} {total.text}, {pairs} {a}, {pairs} {b})", vector)


def paired(first: Value, second: Value, mask: Value | None = None) -> Value:
    """Return words with these elements of bfloat16; `mask`, if given, is applied to the words of the second ones."""
    f, whole = first.function, UINT32.of(first.type.lanes)
    low, high = (f.emit(f"zext {x.type} {x.text} to {whole}", whole) for x in (first, second))
    high = high << 16
    if mask is not None:
        high = high & (f.splat(mask, whole.lanes) if whole.lanes else mask)
    return f.emit(f"bitcast {whole} {(low | high).text} to {WORD.of(whole.lanes)}", WORD.of(whole.lanes))


def rounded(x: Value) -> Value:
    """Return float32 rounded to bfloat16, for elements of pairs: numbers that products count as 0 may become 0."""
    f, lanes = x.function, x.type.lanes
    if not f.target.has_pair_products or 32 * lanes < 128:
        return convert(x, BFLOAT16)
    name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}"
    f.module.declare(f"declare <{lanes} x bfloat> @{name}({x.type})")
    found = f.emit(f"call <{lanes} x bfloat> @{name}({x.type} {x.text})", PAIR.of(lanes))
    return f.emit(f"bitcast <{lanes} x bfloat> {found.text} to {BFLOAT16.of(lanes)}", BFLOAT16.of(lanes))


def rounded_wide(x: Value) -> Value:
    """Return float32 rounded to bfloat16, as float32; the payload of a NaN ends with 16 zeros, as that of a bfloat16.

    Sums of bfloat16 numbers have no other NaN.
    """
    whole = bits(x, UINT32)
    return bits((whole + 0x7FFF + (whole >> 16 & 1)) & 0xFFFF0000, FLOAT32)


def in_pairs(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Return the words of float32 vectors, rounded to bfloat16."""
    return [paired(rounded(x), rounded(y)) for x, y in zip(first, second, strict=True)]


def copied_pairs(f: Function, first: Value, second: Value, to: Value, count: int, vector: Type) -> None:
    """Write `count` words with the elements of bfloat16 at two addresses."""
    whole = count // vector.lanes * vector.lanes
    many = whole // (vector.lanes * VECTORS_PER_ITERATION) * vector.lanes * VECTORS_PER_ITERATION
    for start, stop, abreast in ((0, many, VECTORS_PER_ITERATION), (many, whole, 1)):
        for i in f.range(start, stop, abreast * vector.lanes):
            for j in range(0, abreast * vector.lanes, vector.lanes):
                f.store(paired(f.load(first, i + j, vector.lanes), f.load(second, i + j, vector.lanes)), to, i + j)
    if tail := count - whole:
        low, high = (f.load(at, whole, vector.lanes, tail) for at in (first, second))
        f.store(paired(low, high), to, whole, tail)


def largest_exponents(f: Function, at: Value, depth: int, columns: int, width: int, lanes: int) -> Value:
    """Return a vector of words with the largest exponents of bfloat16 in rows of words, `width` from row to row."""
    halves = UINT16.of(2 * lanes)
    loop = f.loop(0, depth, 1, [f.constant(halves, 0)])
    for p, [most] in loop:
        for j in range(0, columns, lanes):
            exponents = bits(f.load(at, p * width + j, lanes), UINT16) & EXPONENT
            most = f.intrinsic("umax", halves, most, exponents)
        loop.carry([most])
    return bits(loop.results[0], WORD)


def are_finite_exponents(noted: Sequence[Value]) -> Value:
    """Return True, as a scalar, if no exponent of bfloat16 in vectors of `largest_exponents` is that of infinity."""
    most, f = bits(noted[0], UINT16), noted[0].function
    for words in noted[1:]:
        most = f.intrinsic("umax", most.type, most, bits(words, UINT16))
    return ~any_lane(most.equal(EXPONENT))


def added_without_mode(a: Value, b: Value, total: Value) -> Value:
    """Return the multiply-add of x86 in its mode, outside of any mode; `total` has no denormal number.

    A sum that does not round to a normal number with all its digits is 0. The sum of scaled factors has these digits.
    Where it overflows, the sum is not tiny.
    """
    a, b = _without_denormals(a), _without_denormals(b)
    exact = fma(a * TINY_SCALE, b, total * TINY_SCALE)
    is_tiny = absolute(exact) < LEAST_NORMAL * TINY_SCALE
    return where(is_tiny, copysign(0.0, exact), fma(a, b, total))


def sum_without_mode(x: Value, y: Value) -> Value:
    """Return the sum that counts as 0 if it is denormal; it is exact then."""
    return _without_denormals(x + y)


def products_added(
    f: Function,
    sums: list[Value],
    left: Value,
    right: Value,
    rows: Sequence[int],
    vectors: Sequence[PanelVector],
    lanes: int,
    add: Callable[[Value, Value, Value], Value],
    of: Callable[[Value], Value] | None = None,
) -> list[Value]:
    """Return the sums of a tile after a step of the depth.

    Args:
        f: the function that the tile is written into.
        sums: the sums of the first row, then those of the next rows.
        left: the address of the left operand at this step.
        right: the address of the right operand at this step.
        rows: the offset of each row of the left operand.
        vectors: the vectors of the row of the right operand.
        lanes: the lanes of a vector.
        add: from a vector of each operand and a sum to the sum after their products.
        of: from what is loaded to what is multiplied; by default the same.
    """
    line, out = [f.load(right, each.first, lanes, each.tail) for each in vectors], list[Value]()
    line = [of(y) for y in line] if of else line
    for row in rows:
        x = f.splat(f.load(left, row), lanes)
        x = of(x) if of else x
        out += [add(x, y, s) for y, s in zip(line, sums[len(out) : len(out) + len(line)], strict=True)]
    return out


Add = Callable[[list[Value], Value], list[Value]]
"""Adds products to sums; all its additions depend on its second argument, a vector of zeros."""


def flushed(f: Function, sums: list[Value], add: Add, add_without_mode: Add) -> list[Value]:
    """Return `add(sums)`, computed in the mode of the processor that counts denormal numbers as 0.

    `add_without_mode` computes the same by `added_without_mode` and `sum_without_mode`.

    Zeros and results are tied to the mode, because LLVM may move other instructions across a change of it.
    """
    zero = f.constant(sums[0].type, 0)
    if not f.target.triple.startswith("x86_64"):
        return _flushed_by_aarch64(f, sums, zero, add, add_without_mode)
    restore = _with_mxcsr(f)
    results = [tied(x) for x in add(sums, tied(zero))]
    restore()
    return results


def tied(x: Value) -> Value:
    """Return a value that is known only here: what computes it comes before, and what reads it comes after."""
    register = "v" if "+avx512f" in x.function.target.features else "x"
    register = register if x.function.target.triple.startswith("x86_64") else "w"
    return x.function.emit(f'call {x.type} asm sideeffect "", "={register},0"({x.type} {x.text})', x.type)


def _flushed_by_aarch64(f: Function, sums: list[Value], zero: Value, add: Add, add_without_mode: Add) -> list[Value]:
    f.module.declare("declare i64 @llvm.aarch64.get.fpsr()")
    f.module.declare("declare void @llvm.aarch64.set.fpsr(i64)")
    status = f.emit("call i64 @llvm.aarch64.get.fpsr()", UINT64)
    f.line(f"call void @llvm.aarch64.set.fpsr(i64 {(status & ~FPSR_FLUSHED).text})")
    restore = _with_fpcr(f)
    results = [tied(x) for x in add(sums, tied(zero))]
    status = f.emit("call i64 @llvm.aarch64.get.fpsr()", UINT64)
    restore()
    again = f.loop(0, where((status & FPSR_FLUSHED).not_equal(0), f.index(1), f.index(0)), 1, results)
    for _ in again:
        again.carry(add_without_mode([_without_denormals(x) for x in sums], zero))
    return again.results


def _without_denormals(x: Value) -> Value:
    return where(absolute(x) < LEAST_NORMAL, copysign(0.0, x), x)


def _with_mxcsr(f: Function) -> Callable[[], None]:
    old, new = (f.allocate(INT32) for _ in range(2))
    f.module.declare("declare void @llvm.x86.sse.stmxcsr(ptr)")
    f.module.declare("declare void @llvm.x86.sse.ldmxcsr(ptr)")
    f.line(f"call void @llvm.x86.sse.stmxcsr(ptr {old.text})")
    f.store(f.load(old) | MXCSR_FLUSHES, new)
    f.line(f"call void @llvm.x86.sse.ldmxcsr(ptr {new.text})")
    return lambda: f.line(f"call void @llvm.x86.sse.ldmxcsr(ptr {old.text})")


def _with_fpcr(f: Function) -> Callable[[], None]:
    f.module.declare("declare i64 @llvm.aarch64.get.fpcr()")
    f.module.declare("declare void @llvm.aarch64.set.fpcr(i64)")
    old = f.emit("call i64 @llvm.aarch64.get.fpcr()", UINT64)
    f.line(f"call void @llvm.aarch64.set.fpcr(i64 {(old | FPCR_FLUSHES).text})")
    return lambda: f.line(f"call void @llvm.aarch64.set.fpcr(i64 {old.text})")
