"""What the lifespans of states say about a block."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb


def trains(program: pb.ProgramDesc, block: pb.BlockDesc) -> bool:
    """Whether a step of the block changes a state that lives on.

    A block that updates only states that last an epoch evaluates: its updates are totals over rows.
    """
    if not block.updates:
        return False
    passing = {state.name for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH}
    return any(update.state not in passing for update in block.updates)
