"""Moving averages of parameters: updated in training, used in other entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attribute_message
from registry import Block, Value, ops
from registry.ops.copy import widened


@dataclass(frozen=True)
class Average:
    """The average of one parameter.

    Attributes:
        state: name of the state that holds it.
        decay: weight of the old average.
        every: the period in steps.
        entries: the entries in which it replaces the parameter.
    """

    state: str
    decay: float
    every: int
    entries: tuple[str, ...]


def append_averages(desc: pb.BlockDesc, averages: Mapping[str, Average]) -> None:
    """Append updates of the averages by the parameters' new values to the finished training block."""
    if not averages:
        return
    block = Block(desc)
    new = {update.state: update.tensor for update in desc.updates}
    tensors = {p.state: p.tensor for p in desc.parameters if p.WhichOneof("source") == "state"}
    periods = [average.every for average in averages.values()]
    with block.on_behalf_of(stage=pb.STAGE_UPDATE):
        due = {every: _due(block, tensors, every) for every in dict.fromkeys(periods)}
        for name, average in averages.items():
            old = block.value(tensors[average.state])
            change = (widened(block.value(new.get(name, tensors[name]))) - old) * (1.0 - average.decay)
            when = due[average.every]
            counted = change if when is None else ops.where(when, change, 0.0)
            desc.updates.add(state=average.state, tensor=(old + counted).name)


def averaged_parameters(desc: pb.BlockDesc, entry: str, averages: Mapping[str, Average]) -> None:
    """Replace the parameters by their averages, if an entry uses averages."""
    if not averages:
        return
    block = Block(desc)
    for parameter in desc.parameters:
        average = averages.get(parameter.state)
        if average is None or entry not in average.entries:
            continue
        parameter.state, tensor = average.state, block.value(parameter.tensor)
        if tensor.type != tensor.type.wide:
            parameter.tensor = block.argument(average.state, tensor.type.wide).name
            desc.ops.insert(0, _rounding(block, parameter.tensor, tensor))
            block.next_id += 1


def _rounding(block: Block, average: str, tensor: Value) -> pb.OpDesc:
    """Return the op that rounds an average to the 16-bit dtype of its parameter."""
    dtype = attribute_message("dtype", "dtype", tensor.dtype)
    return pb.OpDesc(
        id=block.next_id,
        type="cast",
        inputs=[average],
        outputs=[tensor.name],
        attributes=[dtype],
        stage=pb.STAGE_FORWARD,
    )


def _due(block: Block, tensors: Mapping[str, str], every: int) -> Value | None:
    if every == 1:
        return None
    return ops.equal((block.value(tensors["step"]) + 1) % every, 0)
