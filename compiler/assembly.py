"""From the training block that a user builds to the blocks of a program; the training block stays as it is."""

from __future__ import annotations

from collections.abc import Mapping

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from registry import Block, Value, ops

Outputs = dict[str, tuple[Value, pb.Over]]
"""Fetches by name: what is fetched, and how it combines over steps."""


def training_block(built: pb.BlockDesc, updates: Mapping[str, Value]) -> pb.BlockDesc:
    """A copy of what was built, with the updates by state."""
    block = pb.BlockDesc()
    block.CopyFrom(built)
    block.updates.extend(pb.UpdateDesc(state=state, tensor=value.name) for state, value in updates.items())
    return block


def part_for(built: pb.BlockDesc, outputs: Outputs) -> pb.BlockDesc:
    """The part of what was built that these outputs need, and their fetches."""
    needed = {value.name for value, _ in outputs.values()}
    ops: list[pb.OpDesc] = []
    for op in reversed(built.ops):
        if not needed.isdisjoint(op.outputs):
            needed.update(op.inputs, op.outputs)
            ops.append(op)
    block = pb.BlockDesc(ops=reversed(ops))
    block.parameters.extend(p for p in built.parameters if p.tensor in needed)
    block.tensors.extend(tensor for tensor in built.tensors if tensor.name in needed)
    add_fetches(block, outputs)
    return block


def add_fetches(block: pb.BlockDesc, outputs: Outputs) -> None:
    """Let a finished block fetch these."""
    block.fetches.extend(pb.FetchDesc(name=n, tensor=value.name, over=over) for n, (value, over) in outputs.items())


def count_steps(desc: pb.BlockDesc) -> None:
    """Let a finished block count its steps, if it does not yet."""
    if any(update.state == "step" for update in desc.updates):
        return
    block = Block(desc)
    with block.on_behalf_of(stage=pb.STAGE_UPDATE):
        if "step" in block.types:
            step = block.value("step")
        else:
            step = block.define("step", TensorType("int64", ()))
            desc.parameters.add(tensor="step", state="step")
        desc.updates.add(state="step", tensor=ops.add(step, 1).name)
