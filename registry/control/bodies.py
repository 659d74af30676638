"""Blocks inside ops: their arguments, the ops around them, and copies of their ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import Attribute, ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from prograd_proto.blocks.control import ATTRIBUTES, WHILE, block_types, result_types
from registry.block import Block
from registry.errors import OpError
from registry.value import Value


def append_control(
    block: Block,
    op_type: str,
    operands: Sequence[Value],
    attributes: Mapping[str, Attribute],
    bodies: Sequence[pb.BlockDesc],
) -> list[Value]:
    """Append an op with these blocks and return its outputs; raise OpError if their types do not fit together."""
    try:
        types = result_types(op_type, [x.type for x in operands], attributes, [block_types(body) for body in bodies])
    except ProgramError as error:
        raise OpError(f"{op_type}: {error}") from None
    trips = attributes["carries"] if op_type == WHILE else -1
    suffixes = [".trips" if i == trips else f".{i}" if len(types) > 1 else "" for i in range(len(types))]
    kinds = ATTRIBUTES[op_type]
    messages = [attribute_message(name, kind, attributes[name]) for name, kind in kinds.items()]
    inputs = [x.name for x in operands]
    outputs = list(zip(suffixes, types, strict=True))
    made = block.append(op_type, inputs, outputs, messages)
    block.desc.ops[-1].blocks.extend(block.keep(body) for body in bodies)
    return made


def declare_arguments(body: Block, names: Sequence[str], first: int = 0) -> None:
    """Declare these tensors of a block as its arguments, numbered from `first` on."""
    for number, name in enumerate(names, first):
        body.desc.parameters.add(tensor=name, argument=number)


def drop_unused(body: Block) -> None:
    """Forget the captured tensors that no op and no result of a block reads."""
    read = {name for op in body.desc.ops for name in op.inputs} | {*body.desc.results}
    for name in [name for name in body.captured if name not in read]:
        del body.captured[name], body.types[name], body.tensors[name]
        kept = [tensor for tensor in body.desc.tensors if tensor.name != name]
        del body.desc.tensors[:]
        body.desc.tensors.extend(kept)
        body.tensors = {tensor.name: tensor for tensor in body.desc.tensors}


def copy_ops(body: pb.BlockDesc, into: Block, arguments: Mapping[int, Value]) -> dict[str, str]:
    """Append copies of the ops of a block, as ops of the forward pass, and return the new names of its tensors."""
    names = {"": ""} | {p.tensor: arguments[p.argument].name for p in body.parameters}
    types = {tensor.name: tensor for tensor in body.tensors}
    for op in body.ops:
        copy = into.desc.ops.add()
        copy.CopyFrom(op)
        copy.id, copy.stage, copy.gradient_of = into.next_id, pb.STAGE_FORWARD, 0
        into.next_id += 1
        copy.inputs[:] = [names[name] for name in op.inputs]
        copy.blocks[:] = into.copied(op.blocks)
        for i, name in enumerate(op.outputs):
            names[name] = copy.outputs[i] = _defined(into, name, types[name])
    return names


def part_of(
    block: Block, ops: Sequence[pb.OpDesc], arguments: Mapping[str, int], results: Sequence[str]
) -> pb.BlockDesc:
    """Return a block of these ops of another one, with the ops that its results need.

    Args:
        block: the other block.
        ops: ops of it, in order.
        arguments: the tensors that are arguments, with their positions.
        results: the tensors that the new block gives.
    """
    needed, kept = {*results}, list[pb.OpDesc]()
    for op in reversed(ops):
        if not needed.isdisjoint(op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    part = pb.BlockDesc(ops=reversed(kept), results=results)
    defined = {name for op in kept for name in op.outputs}
    for name, number in arguments.items():
        if name in needed and name not in defined:
            part.parameters.add(tensor=name, argument=number)
            defined.add(name)
    for op in part.ops:
        op.blocks[:] = block.copied(op.blocks)
    order = [*(p.tensor for p in part.parameters), *(name for op in part.ops for name in op.outputs)]
    part.tensors.extend(block.tensors[name] for name in order)
    for tensor in part.tensors:
        if tensor.gradient_of not in defined:
            tensor.gradient_of = ""
    return part


def _defined(into: Block, name: str, tensor: pb.TensorDesc) -> str:
    from prograd_proto import type_of

    while name in into.types:
        name += "_"
    into.define(name, type_of(tensor))
    return name


def stacked(type: TensorType, length: int | str) -> TensorType:
    """Return the type of rows of a type."""
    return TensorType(type.dtype, (length, *type.shape))
