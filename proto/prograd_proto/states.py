"""Questions about states: how long they last, and which keep the range of a weight's factor."""

from __future__ import annotations

from typing import Final

from prograd_proto import program_pb2 as pb

INPUT_LEAST: Final = "input_least"
INPUT_MOST: Final = "input_most"
"""Names of the states in which quantisation-aware training keeps the range of a weight's factor, behind its own."""


def trains(program: pb.ProgramDesc, block: pb.BlockDesc) -> bool:
    """Return True if a step of the block changes a state that outlives an epoch.

    A block that updates only states that last an epoch evaluates: its updates are totals over rows.
    """
    if not block.updates:
        return False
    passing = {state.name for state in program.states if state.lifespan == pb.LIFESPAN_EPOCH}
    return any(update.state not in passing for update in block.updates)


def slots_of_frozen(program: pb.ProgramDesc) -> set[str]:
    """Return the slots of parameters that are not trained."""
    frozen = {s.name for s in program.states if s.kind == pb.STATE_KIND_PARAMETER and not s.trainable}
    return {s.name for s in program.states if s.kind == pb.STATE_KIND_SLOT and s.slot_of in frozen}


def held(program: pb.ProgramDesc) -> list[pb.StateDesc]:
    """Return the states of a run: all but slots of frozen parameters that no block that runs reads or updates."""
    slots = slots_of_frozen(program)
    if slots:
        blocks = [program.blocks[binding.block] for entry in program.entries for binding in entry.bindings]
        slots -= {parameter.state for block in blocks for parameter in block.parameters}
        slots -= {update.state for block in blocks for update in block.updates}
    return [state for state in program.states if state.name not in slots]


def is_range(state: str) -> bool:
    """Return True for the name of an end of a range."""
    return state.endswith((f".{INPUT_LEAST}", f".{INPUT_MOST}"))
