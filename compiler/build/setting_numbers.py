"""Settings of a program under construction: their intervals, and the settings of an opened file."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

from compiler.build.declarations import declared_type
from prograd_proto import TensorType, attributes_of
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import holds
from prograd_proto.settings import Interval, interval_of, settings_among
from registry.block import Setting
from registry.errors import OpError

_DTYPES = ("float64", "float32", "int64")


def declared_setting(what: str, name: str, dtype: str, taken: Container[str]) -> TensorType:
    """Return the type of a new setting; raise OpError for an invalid name or dtype."""
    if dtype not in _DTYPES:
        raise OpError(f"{what}: dtype={dtype!r} is not one of {', '.join(_DTYPES)}")
    return declared_type(what, name, dtype, (), taken)


def asked_interval(
    what: str, *, least: float | None, most: float | None, above: float | None, below: float | None
) -> Interval:
    """Return the interval of a setting; raise OpError for ends that contradict each other."""
    if (least is not None and above is not None) or (most is not None and below is not None):
        raise OpError(f"{what}: least and above, most and below are the same end, with it and without; give one")
    low, high = (above if least is None else least), (below if most is None else most)
    found = Interval(-inf if low is None else low, inf if high is None else high, above is not None, below is not None)
    for end in (low, high):
        if end is not None and not isinstance(end, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise OpError(f"{what}: {end!r} is no number to begin or end with")
    if not found.least <= found.most:
        raise OpError(f"{what}: no number is {found}")
    return found


def require_number(what: str, value: object, interval: Interval, dtype: str) -> None:
    """Raise OpError unless a value is a number in the interval that the dtype can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OpError(f"{what}: {value!r} is no number")
    if not interval.has(value):
        raise OpError(f"{what}: {value:g} is not {interval}")
    if not holds(dtype, value) or (dtype == "int64" and value != int(value)):
        raise OpError(f"{what}: {value:g} is no {dtype}")


def known_settings(states: Iterable[pb.StateDesc]) -> dict[str, Setting]:
    """Return the settings among states, by name."""
    return {
        state.name: Setting(float(str(attributes_of(state.op)["value"])), interval_of(state))
        for state in settings_among(states)
    }
