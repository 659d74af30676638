"""Checks of numbers that may be settings.

Some uses need numbers of an interval: a rate needs numbers from 0 on. Such a use narrows the interval of the setting,
so that no run can be given another value. Values computed from settings are unknown before the run and are not checked.
"""

from __future__ import annotations

from math import isfinite
from numbers import Real

from prograd_proto.settings import Interval
from registry.errors import OpError
from registry.value import Value

Number = Value | float
"""A number, or a setting in its place."""


def require_within(what: str, number: object, interval: Interval) -> None:
    """Narrow a setting to the interval; raise OpError for a number outside it or for anything else."""
    if isinstance(number, Value):
        _narrow(what, number, interval)
    elif not isinstance(number, Real):
        raise OpError(f"{what}={number!r} is neither a number nor a setting")
    elif not (isfinite(number) and interval.has(float(number))):
        raise OpError(f"{what}={number} is not {interval}")


def _narrow(what: str, value: Value, interval: Interval) -> None:
    block = value.block
    if value.name not in block.weak:
        raise OpError(f"{what}={value!r} is neither a number nor a setting")
    if value.name not in block.settings:
        return
    setting = block.settings[value.name]
    if not interval.has(setting.number):
        raise OpError(f"{what}: the setting {value.name!r} is {setting.number:g}, which is not {interval}")
    block.settings[value.name] = setting._replace(interval=setting.interval.within(interval))
