"""The states of a run, to read and to write by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prograd_proto.spelling import closest_or_first
from runtime.conversion import handed_out
from runtime.dtypes import Array, array_type
from runtime.errors import DataError, UsageError
from runtime.rows.rows import as_array
from runtime.runs.states import States


class StateView(Mapping[str, Array]):
    """A view of the states: `view["w"]` is a copy, and `view["w"] = array` replaces a value of equal dtype and shape.

    A bfloat16 state is read as float32, and accepts float32 numbers that bfloat16 represents.

    Raises UsageError for a state that the program does not have, DataError for another type, and for one whose file
    could not be read.
    """

    def __init__(self, states: States) -> None:
        self._states = states
        self._arrays = states.arrays
        self._locks = states.locks

    def __repr__(self) -> str:
        return "\n".join(["states", *(f"  {name}  {array_type(array)}" for name, array in self._arrays.items())])

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._arrays)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: types and ranges."""
        from runtime.runs.shown.html_tables import described, table

        with self._locks.shared():
            rows = [(name, *described(array)) for name, array in self._arrays.items()]
        unread = self._states.without_value
        return table(("state", "type", "value"), [(n, t, "not read" if n in unread else v) for n, t, v in rows])

    def __getitem__(self, name: str) -> Array:
        state = self._found(name)
        self._states.require([name])
        with self._locks.shared():
            return handed_out(state)

    def __setitem__(self, name: str, value: object) -> None:
        state = self._found(name)
        array = as_array(value, array_type(state).dtype)
        if (array.dtype, array.shape) != (state.dtype, state.shape):
            here, given = array_type(state), array_type(array)
            raise DataError(f"the state {name!r} is {here}, the array given is {given}")
        with self._locks.exclusive():
            self._states.give({name: array})
            if name not in ("seed", "total_steps"):
                self._states.are_given([name])

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def memory(self, name: str) -> Array:
        """Return a state's own memory to read, which shows every later step; that of a bfloat16 state has its bits."""
        shown = self._found(name).view()
        shown.flags.writeable = False
        return shown

    def _found(self, name: str) -> Array:
        if name not in self._arrays:
            raise UsageError(f"the program has no state {name!r}{closest_or_first(name, self._arrays)}")
        return self._arrays[name]
