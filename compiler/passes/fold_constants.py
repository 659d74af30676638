"""Pass: compute while compiling what every step would compute alike.

1. From the first op to the last: an op whose operands are all known is evaluated by the runtime's kernel, if its result
   fits a constant and is the same on every machine. A `where` by a known condition that always chooses alike is the
   operand that it chooses.
2. From the last op to the first: a known result that a remaining op or the end of the step reads becomes a constant,
   unless it would be much more to read than the op is to compute; then the op remains, and what it reads is read.
3. What only led to constants goes.

A program must not depend on the machine that compiled it. So an op is evaluated only if its operator is declared
`exact`: IEEE 754 or the arithmetic of integers fixes its bits. There are no exponentials and their like, no sums of
floats, nothing with a NaN, whose sign differs between CPUs, no maximum of floats, which may be either of 0.0 and -0.0,
and no cast from floats to integers, which may not fit. An op with effects is never evaluated: it runs in the step.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from compiler.passes.bound_blocks import bound_blocks
from compiler.passes.rewrite import computation, rewrite
from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.attributes import attribute_message
from prograd_proto.dtypes import FLOATS, INTEGERS, NAMES
from registry.op import find_op
from registry.ops.fill import SMALL_TENSOR_BYTES
from runtime.evaluate import evaluate
from runtime.step import effects_of, ends_of

Tensors = Mapping[str, pb.TensorDesc]

PLAIN = FLOATS | INTEGERS | {"bool"}
"""Dtypes whose arithmetic is fixed; floats that are only stored are computed with in another one."""


def fold_constants(program: pb.ProgramDesc, *, small: int = 1024) -> None:
    """Compute what is known while compiling, if it is small and the same on every machine.

    Args:
        program: its blocks that run are edited.
        small: bytes of a constant that may stand in the place of any op; a larger one must be worth it.
    """
    for block in bound_blocks(program):
        _fold(block, small)


def _fold(block: pb.BlockDesc, small: int) -> None:
    tensors = {tensor.name: tensor for tensor in block.tensors}
    known: dict[str, pb.SmallTensor] = {}
    values: dict[object, pb.SmallTensor] = {}  # by what was computed: each parameter may ask for the same anew

    def visit(op: pb.OpDesc) -> Sequence[str] | None:
        type = op.type
        if type == "constant":
            value = op.attributes[0].tensor_value
        elif known.keys() >= set(op.inputs[:]) - {""} and _is_exact(op, tensors):
            value = values.get(key := computation(op))
            if value is None:
                [value] = evaluate(op, [known[name] if name else None for name in op.inputs])
                values[key] = value
        elif type == "where":
            return _always_chosen(op, tensors, known)
        else:
            return None
        if not _has_nan(value):
            known[op.outputs[0]] = value
        return None

    rewrite(block, visit, lambda: _write(block, known, small))


def _write(block: pb.BlockDesc, known: Mapping[str, pb.SmallTensor], small: int) -> bool:
    """Let the known results that are read be constants; whether there are any."""
    if not known:
        return False
    is_changed = False
    needed = set(ends_of(block))
    for op in reversed(block.ops):
        outputs = op.outputs[:]
        if needed.isdisjoint(outputs):
            continue
        value = known.get(outputs[0])
        if value is None or not _is_worth(op, value.data, small):
            needed.update(op.inputs[:])
        elif op.type != "constant":
            op.type = "constant"
            del op.inputs[:], op.attributes[:]
            op.attributes.append(attribute_message("value", "tensor", value))
            is_changed = True
    return is_changed


def _is_worth(op: pb.OpDesc, data: bytes, small: int) -> bool:
    """Whether the elements may stand in the program instead of the op."""
    is_one_number = data[8:] == data[:-8]  # eight bytes are a whole number of elements of any dtype
    return len(data) <= small or not (is_one_number or find_op(op.type).traits.grows)


def _always_chosen(op: pb.OpDesc, tensors: Tensors, known: Mapping[str, pb.SmallTensor]) -> list[str] | None:
    """The operand that has every element of a `where`; None if it depends."""
    condition = known[op.inputs[0]].data if op.inputs[0] in known else b""
    if len(set(condition)) != 1:
        return None
    chosen = op.inputs[1] if condition[0] else op.inputs[2]
    return [chosen] if type_of(tensors[chosen]) == type_of(tensors[op.outputs[0]]) else None


def _is_exact(op: pb.OpDesc, tensors: Tensors) -> bool:
    """Whether a small result follows from the operands' bits alone."""
    exact = find_op(op.type).traits.exact
    if not exact or effects_of(op.type):
        return False
    result = type_of(tensors[op.outputs[0]])
    dtypes = {result.dtype, *(type_of(tensors[name]).dtype for name in op.inputs if name)}
    if result.nbytes > SMALL_TENSOR_BYTES or not dtypes <= PLAIN:
        return False
    if op.type == "cast":
        return result.dtype not in INTEGERS or dtypes.isdisjoint(FLOATS)
    return exact == "always" or dtypes.isdisjoint(FLOATS)


def _has_nan(value: pb.SmallTensor) -> bool:
    """Whether a value has a NaN, or is of floats that are only stored."""
    dtype = NAMES[value.dtype]
    if dtype not in FLOATS:
        return dtype not in PLAIN
    code = "f" if dtype == "float32" else "d"
    return any(x != x for (x,) in struct.iter_unpack(f"<{code}", value.data))
