"""Pass: compute at compile time the values that are equal in every step.

1. From the first op to the last: an op whose operands are all known is computed by the runtime's kernel, if its result
   fits a constant and is the same on every machine. A `where` whose known condition always makes the same choice is
   replaced by that operand.
2. From the last op to the first: a known result that a remaining op or the end of the step reads becomes a constant,
   unless reading it would cost much more than computing it. Then the op remains, and its operands count as read.
3. Ops that only led to constants are dropped.
4. Constant operands of conditions and loops become constants of their blocks, and a condition with a known predicate
   becomes the branch that is taken (`control_operands`).

A program must not depend on the machine that compiled it. So an op is computed only if its operator is declared
`exact`: IEEE 754 or the arithmetic of integers fixes its bits. There are no exponentials and their like, no sums of
floats, nothing with a NaN, whose sign differs between CPUs, and no maximum of floats, which may be either of 0.0 and
-0.0. An op with effects is never computed: it runs in the step.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache

from compiler.passes.control_operands import sink_constants
from compiler.passes.rewrite import computation, rewrite
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis, Kind
from prograd_proto.dtypes import FLOATS, INTEGERS, NAMES
from prograd_proto.result_types.arrangement import SMALL_TENSOR_BYTES
from registry.op import find_op
from runtime.one_op import compute
from runtime.step import effects_of

PLAIN = FLOATS | INTEGERS | {"bool"}
"""Dtypes whose arithmetic is exactly specified; 16-bit floats are computed with in another dtype."""


def fold_constants(program: BlockAnalyses, *, small: int = 1024) -> None:
    """Compute known values at compile time, if they are small and the same on every machine.

    Args:
        program: its blocks that run are edited.
        small: bytes of a constant that may replace any op; a larger one must save more work than it adds.
    """
    for block in program.bound:  # outer ones come first, so that blocks inside ops get the constants of those around
        fold_block(block, small)


def fold_block(block: BlockAnalysis, small: int = 1024) -> None:
    """Compute the known values of a block, which may have symbols, and give them to the blocks inside its ops."""
    _fold(block, small)
    sink_constants(block)


def _fold(block: BlockAnalysis, small: int) -> None:
    known: dict[str, pb.SmallTensor] = {}
    values: dict[object, pb.SmallTensor] = {}  # by computation: each parameter may need the same value
    is_exact = cache(_is_exact)

    def value_of(i: int) -> pb.SmallTensor | None:
        inputs = block.inputs[i]
        if block.op_types[i] == "constant":
            return block.ops[i].attributes[0].tensor_value
        if not all(name in known for name in inputs if name) or not is_exact(block.kinds[i]):
            return None
        value = values.get(key := computation(block, i))
        if value is None:
            [value] = compute(block.ops[i], [known[name] if name else None for name in inputs])
            values[key] = value
        return value

    def visit(i: int) -> Sequence[str] | None:
        value = value_of(i)
        if value is None:
            return _always_chosen(block, i, known) if block.op_types[i] == "where" else None
        if not _has_nan(value):
            known[block.outputs[i][0]] = value
        return None

    rewrite(block, visit, lambda: _write(block, known, small))


def _write(block: BlockAnalysis, known: Mapping[str, pb.SmallTensor], small: int) -> bool:
    """Replace the known results that are read by constants; return True if there are any."""
    if not known:
        return False
    is_changed = False
    needed = set(block.ends)
    for i in reversed(range(len(block.ops))):
        outputs = block.outputs[i]
        if needed.isdisjoint(outputs):
            continue
        value, op = known.get(outputs[0]), block.ops[i]
        if value is None or not _is_worth(op, value.data, small):
            needed.update(block.inputs[i])
        elif op.type != "constant":
            op.type = "constant"
            del op.inputs[:], op.attributes[:]
            op.attributes.append(attribute_message("value", "tensor", value))
            block.read_again(i)
            is_changed = True
    return is_changed


def _is_worth(op: pb.OpDesc, data: bytes, small: int) -> bool:
    """Return True if a constant with these elements may replace the op."""
    is_one_number = data[8:] == data[:-8]  # eight bytes are a whole number of elements of any dtype
    return len(data) <= small or not (is_one_number or find_op(op.type).traits.grows)


def _always_chosen(block: BlockAnalysis, i: int, known: Mapping[str, pb.SmallTensor]) -> list[str] | None:
    """Return the operand that has every element of a `where`; None if it depends."""
    selector, x, other = block.inputs[i]
    condition = known[selector].data if selector in known else b""
    if len(set(condition)) != 1:
        return None
    chosen = x if condition[0] else other
    return [chosen] if block.types[chosen] == block.types[block.outputs[i][0]] else None


def _is_exact(kind: Kind) -> bool:
    """Return True if the operands' bits determine the bits of a small result."""
    exact = find_op(kind.op_type).traits.exact
    if not exact or effects_of(kind.op_type):
        return False
    result = kind.outputs[0]
    if any(isinstance(extent, str) for extent in result.shape):
        return False
    dtypes = {result.dtype, *(type.dtype for type in kind.inputs if type is not None)}
    if result.nbytes > SMALL_TENSOR_BYTES or not dtypes <= PLAIN:
        return False
    return exact == "always" or dtypes.isdisjoint(FLOATS)


def _has_nan(value: pb.SmallTensor) -> bool:
    """Return True if a value has a NaN, or has 16-bit floats."""
    dtype = NAMES[value.dtype]
    if dtype not in FLOATS:
        return dtype not in PLAIN
    code = "f" if dtype == "float32" else "d"
    return any(x != x for (x,) in struct.iter_unpack(f"<{code}", value.data))
