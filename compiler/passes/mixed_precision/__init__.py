"""Pass: compute products with bfloat16 operands, and keep activations in bfloat16.

1. Lower: the operators with the trait `lowered`, products of matrices and convolutions with their gradients, read
   bfloat16 copies of their operands and add in float32.
2. Follow: a result is narrow if it comes from bfloat16 numbers. These are results of lowered ops, of pointwise ops and
   of ops with the trait `follows`, such as norms and pooling, whose large operands are narrow, and of ops that only
   move narrow elements. A narrow tensor that has to be in memory is rounded once, by the op that makes it, and all ops
   read the rounded one. It is a tensor that a lowered op reads, or that goes from the forward to the backward pass, or
   a product that no single pointwise op takes in registers. Pointwise ops compute in float32 between a widening load
   and a rounding store.
3. Keep: all other ops stay float32: losses, softmax, reductions and statistics, updates and the states, which are the
   masters. Results that they make are not narrow. If the backward pass reads such a tensor, or a sum of it and a narrow
   one, by ops that follow, they read a rounded copy, and forward ops read the tensor.
   A forward product with fewer than `MIN_COLUMNS` columns of a result, whose large operands are float32, stays float32
   as well: rounding the operands takes longer than the product gains.
4. A forward op that `keep` matches, by the name of an operand or of a result, stays as it is, and so do its gradient
   ops and the ops that help to differentiate these. Results of an op that `lower` matches are narrow.
5. Gradients of states are not narrow, nor are the results after the last product, such as logits and losses.
   Tensors that are compared with one another are read as they are: two rounded tensors may be equal where the tensors
   are not, and a gradient would count twice.
6. A copy of a state is made for each reader, and the op that widens a copy is appended for each reader, so that neither
   lives from the forward to the backward pass; `merge_identical` merges those that cost no memory.

The lists are those of automatic mixed precision: Micikevicius et al., "Mixed precision training", 2018.

facts     the facts about a block as it was
lowering  the rewriting of a block
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from compiler.errors import CompileError
from compiler.passes.mixed_precision.lowering import DTYPE, Lowering
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses

ORDERS: Final = {"tiles": pb.BFLOAT16_ORDER_UNSPECIFIED, "pairs": pb.BFLOAT16_ORDER_PAIRS}
"""The orders in which products of bfloat16 add; see docs/reproducibility.md."""


def mixed_precision(
    program: BlockAnalyses, *, dtype: str = "", keep: str = "", lower: str = "", order: str = "tiles"
) -> None:
    """Compute products with bfloat16 operands, and keep activations in bfloat16; off unless `dtype` is given.

    Args:
        program: its source blocks, and those inside their ops, are edited.
        dtype: bfloat16, or nothing for a program as it was built.
        keep: patterns of names, with commas between them, of tensors whose ops stay float32, such as head.*
        lower: patterns of names, likewise, of results that are rounded although an operand is not.
        order: in which products of bfloat16 add: tiles, as AMX does, or pairs, which is faster on AMD
    """
    require_order(order)
    if not dtype:
        for option, given in (("keep", keep), ("lower", lower), ("order", order if ORDERS[order] else "")):
            if given:
                raise CompileError(f"mixed: {option}={given!r} needs mixed precision; give {DTYPE!r} as mixed too")
        return
    if dtype != DTYPE:
        raise CompileError(f"mixed={dtype!r}: operands can be rounded to {DTYPE} only; write mixed={DTYPE!r}")
    program.desc.bfloat16_order = ORDERS[order]
    names = {name for number in range(len(program)) for name in program[number].names}
    found = {"keep": _patterns("keep", keep, names), "lower": _patterns("lower", lower, names)}
    for number in range(len(program)):
        Lowering(program[number], found["keep"], found["lower"]).rewrite()


def require_order(order: str) -> str:
    """Return the order; raise CompileError if there is none of this name."""
    if order not in ORDERS:
        raise CompileError(f"mixed: order={order!r} is no order of additions; there are {' and '.join(ORDERS)}")
    return order


def _patterns(option: str, text: str, names: set[str]) -> list[str]:
    """Return the patterns of an option; raise CompileError if one matches no tensor."""
    patterns = [pattern for pattern in text.split(",") if pattern]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise CompileError(f"mixed: {option}={pattern!r} matches no tensor; `compiler show` prints their names")
    return patterns
