"""The table of addresses that compiled code is handed: states, arena, feeds, constants.

Code reads an address from its slot, once, at its start, and holds none itself: so the same object serves every run and
every process, and equal groups are called with other tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.engines.native.ir import Type, Value, pointer
from runtime.kernel import Array

ADDRESSES = pointer(pointer(Type("unsigned", 8)))
"""The type of the parameter through which a function gets its table."""


class Context:
    """Which slot of a table has the address of what."""

    def __init__(self, names: Sequence[str]) -> None:
        self._slots = {name: slot for slot, name in enumerate(names)}
        assert len(self._slots) == len(names), "two slots have the same name"

    def pointer(self, table: Value, name: str, element: Type) -> Value:
        """The address in the slot of that name, of elements of this type."""
        address = table.function.load(table, self._slots[name])
        return Value(address.text, pointer(element), table.function)

    def table(self, addresses: Mapping[str, int]) -> Array:
        """The table of these addresses; what they lead to has to live as long as it is used."""
        missing = self._slots.keys() - addresses.keys()
        assert not missing, f"no address of {', '.join(sorted(missing))}"
        return np.array([addresses[name] for name in self._slots], np.uint64)
