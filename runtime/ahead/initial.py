"""The step that draws the initial values of a program's states, so a library can draw those of another seed."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from prograd_proto.states import held
from runtime.entries import BoundEntry

INITIAL: Final = "initialise"
"""Name of the entry."""

COUNTERS: Final = ("seed", "step")
"""The states that initial ops read."""


def initial_step(program: pb.ProgramDesc) -> BoundEntry | None:
    """Return the step that computes the states with initial ops; None if some are stored in another type than computed.

    The seed stays, and the other states without a value in a file are 0 before.
    """
    block = pb.BlockDesc()
    states = {state.name: state for state in held(program)}
    made = [s for s in states.values() if s.WhichOneof("initial") == "op" and s.lifespan != pb.LIFESPAN_EPOCH]
    if any(type_of(state) != type_of(state).wide for state in made):
        return None
    for name in COUNTERS:
        block.tensors.append(_tensor(name, states[name]))
        block.parameters.append(pb.ParameterDesc(tensor=name, state=name))
    for number, state in enumerate(made):
        tensor = f"{state.name}:{INITIAL}"
        op = pb.OpDesc.FromString(state.op.SerializeToString())
        op.id, op.outputs[:] = number + 1, [tensor]
        block.ops.append(op)
        block.tensors.append(_tensor(tensor, state))
        block.updates.append(pb.UpdateDesc(state=state.name, tensor=tensor))
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    return BoundEntry(INITIAL, len(program.blocks), block, None, 1, {}, frozenset(), (), MappingProxyType(types))


def _tensor(name: str, state: pb.StateDesc) -> pb.TensorDesc:
    return pb.TensorDesc(name=name, dtype=state.dtype, shape=state.shape)
