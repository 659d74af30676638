"""When each trained parameter gets its new value: right after its gradient, or later, and why.

The gradients of an update are what its ops read of the backward pass, through any number of ops of the update itself.
An update is deferred if it reads several, as clipping by their global norm makes it, or if gradients that it does not
read are made between its own and it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)


class UpdateTime(NamedTuple):
    """The position of the op that makes the new value of a parameter's state; `deferred` says why it is, or ""."""

    state: str
    position: int
    deferred: str


OTHERS: Final = "they read the gradients of other parameters too, like clipping by the global norm"
READ: Final = "their parameters are read until then"
ORDER: Final = "the step then needs less memory or keeps more threads busy"


def update_times(program: pb.ProgramDesc, block: pb.BlockDesc) -> list[UpdateTime]:
    """The updates of a block that runs, of trained parameters, in the order in which they run."""
    trained = {state.name for state in program.states if state.trainable}
    maker = {name: i for i, op in enumerate(block.ops) for name in op.outputs}
    ends = {u.state: maker[u.tensor] for u in block.updates if u.state in trained and u.tensor in maker}
    gradients = {state: {maker[name] for name in _gradients(block, maker, end)} for state, end in ends.items()}
    all_made = {i for made in gradients.values() for i in made}
    state_of = {p.tensor: p.state for p in block.parameters if p.WhichOneof("source") == "state"}
    last_read: dict[str, int] = {}
    for i, op in enumerate(block.ops):
        for name in op.inputs:
            if name in state_of and op.stage != pb.STAGE_UPDATE:
                last_read[state_of[name]] = i

    def reason(state: str, end: int) -> str:
        if len(gradients[state]) > 1:
            return OTHERS
        own = max(gradients[state], default=end)
        if not any(own < i < end for i in all_made):
            return ""
        return READ if last_read.get(state, 0) > own else ORDER

    found = [UpdateTime(state, end, reason(state, end)) for state, end in ends.items()]
    return sorted(found, key=lambda update: (update.position, update.state))


def _gradients(block: pb.BlockDesc, maker: Mapping[str, int], end: int) -> Iterator[str]:
    """The tensors of the backward pass that the update whose last op is at `end` reads."""
    waiting, seen = [end], {end}
    while waiting:
        for name in block.ops[waiting.pop()].inputs:
            i = maker.get(name)
            if i is None:
                continue
            if block.ops[i].stage in BACKWARD:
                yield name
            elif block.ops[i].stage == pb.STAGE_UPDATE and i not in seen:
                seen.add(i)
                waiting.append(i)
