"""Programs with mixed precision as float32 programs: as they were before mixed precision added casts.

ONNX has no operators that multiply bfloat16 numbers and add in float32. The states of such a program are float32, so a
model without the casts has the same weights, and its results differ by the rounding of operands and activations.
"""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.dtypes import NUMBERS
from prograd_proto.files import copy_of
from registry.control.control_op import CONTROL
from registry.op import find_op

BFLOAT16, FLOAT32 = NUMBERS["bfloat16"], NUMBERS["float32"]


def without_mixed_precision(program: pb.ProgramDesc) -> pb.ProgramDesc:
    """Return the program without the casts to bfloat16 that products read; the same object if there are none."""
    numbers = [i for i, block in enumerate(program.blocks) if _is_mixed(block)]
    if not numbers:
        return program
    program = copy_of(program)
    for number in numbers:
        _widen(program.blocks[number])
    return program


def _is_mixed(block: pb.BlockDesc) -> bool:
    """Return True if a product reads a tensor of bfloat16 that an op of the block makes."""
    made = _made(block)
    return any(
        op.type not in CONTROL and not made.isdisjoint(op.inputs) and bool(find_op(op.type).traits.lowered)
        for op in block.ops
    )


def _made(block: pb.BlockDesc) -> set[str]:
    """Return the tensors of bfloat16 that ops of a block make."""
    parameters = {parameter.tensor for parameter in block.parameters}
    return {tensor.name for tensor in block.tensors if tensor.dtype == BFLOAT16} - parameters


def _widen(block: pb.BlockDesc) -> None:
    """Make the tensors float32, and remove the casts from and to them."""
    made = _made(block)
    for tensor in block.tensors:
        if tensor.name in made:
            tensor.dtype = FLOAT32
    for op in block.ops:
        if made.isdisjoint(op.outputs):
            continue
        for attribute in op.attributes:
            if attribute.name == "dtype":
                attribute.CopyFrom(attribute_message("dtype", "dtype", "float32"))
    _remove_casts(block)


def _remove_casts(block: pb.BlockDesc) -> None:
    """Let readers of a cast from float32 to float32 read its operand instead.

    Casts that are results of the block stay.
    """
    dtypes = {tensor.name: tensor.dtype for tensor in block.tensors}
    kept = {*block.results, *(each.tensor for each in (*block.updates, *block.fetches))}
    replaced: dict[str, str] = {}
    ops = list(block.ops)
    del block.ops[:]
    for op in ops:
        op.inputs[:] = [replaced.get(name, name) for name in op.inputs]
        is_same = op.type == "cast" and dtypes[op.inputs[0]] == dtypes[op.outputs[0]] == FLOAT32
        if is_same and op.outputs[0] not in kept:
            replaced[op.outputs[0]] = op.inputs[0]
        else:
            block.ops.append(op)
    tensors = [tensor for tensor in block.tensors if tensor.name not in replaced]
    del block.tensors[:]
    block.tensors.extend(tensors)
