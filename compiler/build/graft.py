"""Addition of the ops of one block to another of the same program, without duplicating existing ops.

1. A parameter exists if its tensor does. An op exists if the op with the same outputs has its type, its attributes
   and, by their names in the other block, its operands.
2. Any other op is copied behind the existing ones. An output whose name is taken gets a new one, and so do ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.files import copy_of
from registry import Block


def graft(block: Block, part: pb.BlockDesc, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Add the parameters and ops of a part to a block.

    Args:
        block: the block to extend.
        part: a well-formed block; its fetches and updates are ignored.
        known: tensors of the part that the block has, with their names there.

    Returns:
        The name in the block for each tensor of the part.
    """
    names = {"": "", **(known or {})}
    makers = {name: op for op in block.desc.ops for name in op.outputs}
    types = {tensor.name: tensor for tensor in part.tensors}
    ids = {0: 0}
    for parameter in part.parameters:
        if parameter.tensor not in names:
            names[parameter.tensor] = parameter.tensor
            _add_parameter(block, parameter, types[parameter.tensor])
    for op in part.ops:
        if all(name in names for name in op.outputs):
            continue
        found = makers.get(op.outputs[0])
        if found is None and all(name in block.types for name in op.outputs):  # a parameter there: an average, rounded
            names.update((name, name) for name in op.outputs)
        elif found is not None and _same(block, found, op, names):
            names.update(zip(op.outputs, found.outputs, strict=True))
            ids[op.id] = found.id
        else:
            ids[op.id] = _add_op(block, op, types, names, ids)
    return names


def part_for(block: pb.BlockDesc, needed: set[str]) -> pb.BlockDesc:
    """Return the parameters and ops of a block that define the tensors `needed`, which include all operands."""
    part = pb.BlockDesc(ops=(op for op in block.ops if not needed.isdisjoint(op.outputs[:])))
    part.parameters.extend(p for p in block.parameters if p.tensor in needed)
    part.tensors.extend(tensor for tensor in block.tensors if tensor.name in needed)
    return part


def _add_parameter(block: Block, parameter: pb.ParameterDesc, tensor: pb.TensorDesc) -> None:
    if parameter.tensor in block.types:
        return
    block.define(parameter.tensor, type_of(tensor))
    block.tensors[parameter.tensor].CopyFrom(tensor)
    block.desc.parameters.add().CopyFrom(parameter)
    if parameter.state:
        block.state_tensors.add(parameter.tensor)


def _same(block: Block, there: pb.OpDesc, op: pb.OpDesc, names: Mapping[str, str]) -> bool:
    return (
        there.type == op.type
        and there.outputs[:] == op.outputs[:]
        and there.inputs[:] == [names[name] for name in op.inputs]
        and there.random_stream == op.random_stream
        and there.attributes[:] == op.attributes[:]
        and _same_blocks(block.bodies, there.blocks, op.blocks)
    )


def _same_blocks(bodies: Sequence[pb.BlockDesc], some: Sequence[int], others: Sequence[int]) -> bool:
    """Return True if blocks inside ops are equal but for the numbers of the blocks inside them."""
    return len(some) == len(others) and all(
        one == other or _same_block(bodies, bodies[one], bodies[other]) for one, other in zip(some, others, strict=True)
    )


def _same_block(bodies: Sequence[pb.BlockDesc], one: pb.BlockDesc, other: pb.BlockDesc) -> bool:
    inner = zip(one.ops, other.ops, strict=False)
    if len(one.ops) != len(other.ops) or not all(_same_blocks(bodies, a.blocks, b.blocks) for a, b in inner):
        return False
    return _without_numbers(one) == _without_numbers(other)


def _without_numbers(block: pb.BlockDesc) -> pb.BlockDesc:
    copy = copy_of(block)
    for op in copy.ops:
        del op.blocks[:]
    return copy


def _add_op(
    block: Block, op: pb.OpDesc, types: Mapping[str, pb.TensorDesc], names: dict[str, str], ids: Mapping[int, int]
) -> int:
    copy = block.desc.ops.add()
    copy.CopyFrom(op)
    copy.id, copy.gradient_of = block.next_id, ids.get(op.gradient_of, 0)
    block.next_id += 1
    copy.inputs[:] = [names[name] for name in op.inputs]
    copy.blocks[:] = block.copied(op.blocks)
    for i, name in enumerate(op.outputs):
        free = block.define_free(name, type_of(types[name])).name
        names[name] = copy.outputs[i] = free
        block.tensors[free].CopyFrom(types[name])
        block.tensors[free].name = free
        block.tensors[free].gradient_of = names.get(types[name].gradient_of, "")
    return copy.id
