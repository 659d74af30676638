"""Pass: compute with codes of eight bits in place of the numbers that they stand for.

1. Numbers of codes, by a scale and a zero point that are constants, move as codes: a reshape, a transpose, a slice or a
   concatenation of `dequantize_linear(c)` is `dequantize_linear` of that op of c. Maxima of windows are those of codes,
   because a positive scale keeps the order. If the operands of a concatenation have different scales and the result is
   quantised, each operand is quantised first.
2. Numbers of codes that are quantised again by the same scale and zero point are these codes: both roundings of
   k * s / s are within 2 ** -22 of k, which is an integer of at most nine bits.
3. A chain of pointwise ops whose only tensor is one of codes has at most 256 different elements. If it is worth the
   pass over memory, it is computed for all 256 codes, and its result is gathered from this table.

moves    codes that are moved, and quantised again
new_ops  the ops of a block that are written anew
tables   chains of pointwise ops that become tables
"""

from __future__ import annotations

from compiler.passes.compute_on_codes.moves import move_codes
from compiler.passes.compute_on_codes.tables import tabulate
from prograd_proto.blocks import BlockAnalyses


def compute_on_codes(program: BlockAnalyses) -> None:
    """Move codes of eight bits instead of numbers, and gather results of long chains from tables of 256 elements."""
    for block in program.bound:
        if "dequantize_linear" in block.op_types:
            move_codes(block)
            tabulate(block)
