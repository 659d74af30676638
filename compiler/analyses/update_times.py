"""The time at which each trained parameter gets its new value: right after its gradient, or later, with the reason.

The gradients of an update are the tensors of the backward pass that its ops read, directly or through other ops of the
update. An update is deferred if it reads several gradients, as with clipping by their global norm, or if other
gradients are computed between its own gradient and the update.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from prograd_proto.blocks.stages import BACKWARD


class UpdateTime(NamedTuple):
    """The position of the op with a parameter's new value; `deferred` is the reason for a delay, or ""."""

    state: str
    position: int
    deferred: str


READS_OTHER_GRADIENTS: Final = "they read the gradients of other parameters too, like clipping by the global norm"
PARAMETERS_READ_UNTIL_THEN: Final = "their parameters are read until then"
BETTER_ORDER: Final = "the step then needs less memory or keeps more threads busy"


def update_times(program: pb.ProgramDesc, block: BlockAnalysis) -> list[UpdateTime]:
    """Return the updates of trained parameters in a block that runs, in the order in which they run."""
    trained = {state.name for state in program.states if state.trainable}
    maker = block.use_def.makers
    ends = {state: maker[name] for state, name in block.updates.items() if state in trained and name in maker}
    gradients = {state: {maker[name] for name in _gradients(block, end)} for state, end in ends.items()}
    all_made = sorted({i for made in gradients.values() for i in made})
    last_read: dict[str, int] = {}
    for i, (stage, inputs) in enumerate(zip(block.stages, block.inputs, strict=True)):
        for name in inputs if stage != pb.STAGE_UPDATE else ():
            if name in block.state_of:
                last_read[block.state_of[name]] = i

    def reason(state: str, end: int) -> str:
        if len(gradients[state]) > 1:
            return READS_OTHER_GRADIENTS
        own = max(gradients[state], default=end)
        after = bisect_right(all_made, own)  # the first gradient that is computed after its own
        if after == len(all_made) or all_made[after] >= end:
            return ""
        return PARAMETERS_READ_UNTIL_THEN if last_read.get(state, 0) > own else BETTER_ORDER

    found = [UpdateTime(state, end, reason(state, end)) for state, end in ends.items()]
    return sorted(found, key=lambda update: (update.position, update.state))


def _gradients(block: BlockAnalysis, end: int) -> Iterator[str]:
    """Return the tensors of the backward pass that the update whose last op is at `end` reads."""
    maker = block.use_def.makers
    waiting, seen = [end], {end}
    while waiting:
        for name in block.inputs[waiting.pop()]:
            i = maker.get(name)
            if i is None:
                continue
            if block.stages[i] in BACKWARD:
                yield name
            elif block.stages[i] == pb.STAGE_UPDATE and i not in seen:
                seen.add(i)
                waiting.append(i)
