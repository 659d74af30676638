"""The check of what a run does when a metric stops improving: it ends, or reduces rates."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from prograd_proto import ProgramError, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.settings import settings_among
from runtime.contract import require

_DIRECTIONS = pb.DIRECTION_MIN, pb.DIRECTION_MAX


def check_stopping(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless the end of a run names settings and numbers that are there, and belongs to a metric."""
    run = program.run
    settings = {state.name for state in settings_among(program.states)}
    asked = bool(run.stop_after_setting or run.HasField("min_delta") or run.keep_last or run.best_checkpoints)
    require(run.HasField("keep_best") or not asked, "the run says what to do with the best, and names no metric")
    known = not run.stop_after_setting or run.stop_after_setting in settings
    require(known, f"the run stops after {run.stop_after_setting!r}, which is no setting")
    require(run.best_checkpoints >= 0, f"the run keeps {run.best_checkpoints} checkpoints of the best")
    if run.HasField("min_delta"):
        _check_number("min_delta", run.min_delta, settings, 0.0)


def check_plateaus(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless each plateau has a state of its own that no step changes, a metric and numbers."""
    settings = {state.name for state in settings_among(program.states)}
    states = {state.name: state for state in program.states}
    updated = {update.state for block in program.blocks for update in block.updates}
    names = set(_metrics(program))
    for plateau in program.run.plateaus:
        try:
            require(plateau.state in states, "there is no such state")
            require(plateau.state not in updated, "a step updates it")
            _check_state(states[plateau.state], settings)
            require(plateau.metric in names, f"its metric {plateau.metric!r} is no fetch of the run")
            require(plateau.direction in _DIRECTIONS, f"its direction {plateau.direction} is unknown")
            for field, least in (("factor", 0.0), ("patience", 1.0), ("min_delta", 0.0), ("cooldown", 0.0)):
                _check_number(field, getattr(plateau, field), settings, least)
            require(plateau.factor.number < 1.0, f"its factor {plateau.factor.number} is not below 1")
        except ProgramError as error:
            raise ProgramError(f"the plateau {plateau.state!r}: {error}") from None


def _metrics(program: pb.ProgramDesc) -> Iterator[str]:
    for entry in program.entries:
        if entry.name in (program.run.entry, program.run.evaluate.entry):
            for fetch in program.blocks[entry.source_block].fetches:
                yield from (fetch.name, f"{entry.name}.{fetch.name}")


def _check_state(state: pb.StateDesc, settings: set[str]) -> None:
    type = type_of(state)
    plain = state.kind == pb.STATE_KIND_COUNTER and state.name not in settings and type.dtype == "float64"
    require(plain and not type.rank, f"it is a {type} that runs do not reduce; a float64 counter is")
    begins = state.WhichOneof("initial") == "op" and state.op.type == "full"
    require(begins and attributes_of(state.op).get("value") == 1.0, "it does not begin at 1")
    require(state.lifespan == pb.LIFESPAN_ALWAYS, "it does not last")


def _check_number(field: str, number: pb.NumberDesc, settings: set[str], least: float) -> None:
    if number.WhichOneof("source") == "setting":
        require(number.setting in settings, f"its {field} is {number.setting!r}, which is no setting")
        return
    there = number.WhichOneof("source") == "number" and isfinite(number.number) and number.number >= least
    require(there, f"its {field} {number.number} is no number from {least:g} on")
