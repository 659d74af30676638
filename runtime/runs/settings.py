"""Settings of a run: numbers that a program lets it choose, held in states that no step changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import cast

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.settings import interval_of, settings_among
from prograd_proto.spelling import closest, closest_and_all
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.runs.states import States

Number = int | float


class Settings(Mapping[str, Number]):
    """The settings of a program by name, with their values in a run; `given` are those that the user set."""

    def __init__(self, program: pb.ProgramDesc, states: States) -> None:
        self._descs = {state.name: state for state in settings_among(program.states)}
        self._states = states
        self.given: dict[str, Number] = {}

    def __repr__(self) -> str:
        return "\n".join(["settings", *(f"  {name} = {number}" for name, number in self.items())])

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._descs)

    def __getitem__(self, name: str) -> Number:
        if name not in self._descs:
            raise KeyError(f"there is no setting {name!r}{closest_and_all(name, self._descs)}")
        with self._states.locks.shared():
            return self._states.arrays[name].item()

    def __iter__(self) -> Iterator[str]:
        return iter(self._descs)

    def __len__(self) -> int:
        return len(self._descs)

    def put(self, values: Mapping[str, object]) -> None:
        """Set settings to other values: all of them, or none and raise UsageError if one is not allowed."""
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise UsageError(f"settings={values!r} is not a mapping of names to values, as {{'rate': 0.1}} is")
        checked = {name: checked_setting(self._descs, name, value) for name, value in values.items()}
        with self._states.locks.exclusive():
            for name, number in checked.items():
                self._states.arrays[name][...] = number
        self.given |= {name: self[name] for name in checked}

    def require_same(self, tensors: Mapping[str, Array], where: str) -> None:
        """Raise UsageError if a saved run had another value than the user set for this one."""
        for name, number in self.given.items():
            there = tensors.get(name)
            if there is not None and there.shape == () and there.item() != number:
                raise UsageError(
                    f"{where}: the run has the setting {name}={there.item()}, and {number} is asked for; a run goes "
                    f"on with the settings that it began with; leave {name} out, or ask for the change: "
                    f"{as_asked('--change-settings', 'change_settings=True')}"
                )


def checked_setting(descs: Mapping[str, pb.StateDesc], name: str, value: object) -> Number:
    """Return a value for one of the settings; raise UsageError for an unknown setting, or a value out of its range."""
    if name not in descs:
        names = ", ".join(descs)
        hint = closest(name, descs) or (
            f"; its settings are: {names}" if names else "; it has no settings, which program.setting declares"
        )
        raise UsageError(f"the program has no setting {name!r}{hint}")
    if isinstance(value, np.generic):
        value = cast(object, value.item())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"the setting {name!r} is a number, and not {value!r}")
    interval = interval_of(descs[name])
    if not isfinite(value) or not interval.has(float(value)):
        raise UsageError(f"the setting {name!r} is {interval}, and {value:g} is not")
    return float(value) if descs[name].dtype != pb.D_TYPE_INT64 else _whole(name, value)


def _whole(name: str, value: Number) -> int:
    if value != int(value) or not -(1 << 63) <= value < 1 << 63:
        raise UsageError(f"the setting {name!r} is a whole number of 64 bits, and {value:g} is not")
    return int(value)
