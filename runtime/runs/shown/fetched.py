"""The fetches of an entry by name: a dict that a notebook shows as a table, and whose KeyError lists its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from prograd_proto.entry_views import SpelledNames
from prograd_proto.spelling import closest_and_all


class Fetched(dict[str, Any]):
    """Arrays and numbers by name; a KeyError for a missing name lists the existing ones.

    A name as the imported file spells it is found too.
    """

    def __init__(self, fetched: Mapping[str, Any], names: SpelledNames) -> None:
        super().__init__(fetched)
        self.__names = names

    def __missing__(self, name: object) -> Any:
        own = self.__names.own(str(name))
        if own != name and own in self:
            return self[own]
        raise KeyError(f"nothing was fetched as {name!r}{closest_and_all(str(name), self)}")

    def __getattr__(self, name: str) -> NoReturn:
        hint = f"; write [{name!r}]" if name in self else ""
        raise AttributeError(f"what was fetched has no attribute {name!r}{hint}")

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: numbers, and type and range of arrays."""
        from runtime.runs.shown.html_tables import described, table

        return table(("name", "type", "value"), [(name, *described(value)) for name, value in self.items()])
