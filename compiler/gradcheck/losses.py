"""The loss that trains each parameter, and the tensor that is its gradient.

1. A gradient is the tensor that is marked as the gradient of the parameter, or else what the update of the parameter
   reads, before clipping.
2. The loss is the scalar whose gradient, the number 1, this gradient is computed from.
"""

from __future__ import annotations

from typing import NamedTuple

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.tensor_types import type_of


class Checked(NamedTuple):
    """A parameter with its gradient and the loss that it lowers, as names of tensors of the block."""

    state: str
    gradient: str
    loss: str


def trained_parameters(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[Checked]:
    """Return the parameters that a block trains; raise CompileError if it trains none."""
    makers = {name: op for op in block.ops for name in op.outputs}
    tensors = {p.state: p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    marked: dict[str, str] = {}
    for tensor in block.tensors:
        if tensor.gradient_of:
            marked.setdefault(tensor.gradient_of, tensor.name)
    seeds = _seeds(block, makers)
    updated = {update.state: update.tensor for update in block.updates}
    found: list[Checked] = []
    for state in program.states:
        if state.kind != pb.STATE_KIND_PARAMETER or not state.trainable or state.name not in updated:
            continue
        gradient = marked.get(tensors.get(state.name, "")) or _read_by(updated[state.name], makers)
        loss = _loss_of(gradient, makers, seeds) if gradient else None
        if gradient and loss:
            found.append(Checked(state.name, gradient, loss))
    if not found:
        raise CompileError("gradcheck: the entry trains no parameter")
    return found


def _seeds(block: pb.BlockDesc, makers: dict[str, pb.OpDesc]) -> dict[str, str]:
    """Return the losses by the tensor of ones that their gradients start with."""
    return {
        tensor.name: tensor.gradient_of
        for tensor in block.tensors
        if tensor.gradient_of
        and tensor.name in makers
        and not type_of(tensor).shape
        and makers[tensor.name].type == "full"
    }


def _read_by(updated: str, makers: dict[str, pb.OpDesc]) -> str:
    """Return the gradient that an update reads; through the product with the factor of a clipped norm."""
    op = makers.get(updated)
    if op is None or len(op.inputs) < 2:
        return ""
    gradient = op.inputs[1]
    before = makers.get(gradient)
    return before.inputs[0] if before is not None and before.type == "mul" and not before.gradient_of else gradient


def _loss_of(gradient: str, makers: dict[str, pb.OpDesc], seeds: dict[str, str]) -> str | None:
    waiting, seen = [gradient], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seeds:
            return seeds[name]
        if name not in seen and name in makers:
            seen.add(name)
            waiting.extend(makers[name].inputs)
    return None
