"""The names of the states that stand for a weight, and the patterns of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest
from registry import OpError

CODES: Final = "codes"
SCALES: Final = "scales"
INPUT_SCALE: Final = "input_scale"
INPUT_ZERO: Final = "input_zero"


def matches(name: str, pattern: str) -> bool:
    """Return True if a pattern matches the name of a parameter, or its name without the last word."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(".")[0], pattern)


def parameters_of(states: Mapping[str, pb.StateDesc], keep: Sequence[str], what: str) -> list[str]:
    """Return all parameters; raise OpError, which begins with `what`, for a pattern of `keep` that matches none."""
    parameters = [name for name, state in states.items() if state.kind == pb.STATE_KIND_PARAMETER]
    for pattern in keep:
        if not any(matches(name, pattern) for name in parameters):
            raise OpError(f"{what}: keep={pattern!r} matches no parameter{closest(pattern, parameters)}")
    return parameters
