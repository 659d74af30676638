"""The check of settings: scalars whose values a run may replace, and that no step changes."""

from __future__ import annotations

from prograd_proto import ProgramError, attributes_of, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.settings import interval_of, settings_among
from runtime.contract import require

_DTYPES = ("float64", "float32", "int64")


def check_settings(program: pb.ProgramDesc) -> None:
    """Raise ProgramError unless every setting is a scalar that starts in its interval and that no step changes."""
    settings = settings_among(program.states)
    if not settings:
        return
    updated = {update.state for block in program.blocks for update in block.updates}
    for state in settings:
        try:
            _check(state, updated)
        except ProgramError as error:
            raise ProgramError(f"setting {state.name!r}: {error}") from None


def _check(state: pb.StateDesc, updated: set[str]) -> None:
    type = type_of(state)
    require(type.dtype in _DTYPES and not type.rank, f"it is {type}, no scalar of {', '.join(_DTYPES)}")
    require(state.lifespan == pb.LIFESPAN_ALWAYS, "it does not last")
    require(state.name not in updated, "a step updates it")
    has_number = state.WhichOneof("initial") == "op" and state.op.type == "full"
    require(has_number, "its first value is no number that is written in the program")
    try:
        interval = interval_of(state)
    except ValueError as error:
        raise ProgramError(str(error)) from None
    value = attributes_of(state.op).get("value")
    require(isinstance(value, int | float) and interval.has(value), f"its first value {value} is not {interval}")
