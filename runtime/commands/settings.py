"""The option --set, and the fields of settings in the result line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runtime.errors import UsageError

if TYPE_CHECKING:
    from runtime.runs.run import Run  # brings NumPy


def chosen_settings(given: Iterable[tuple[str, int | float]]) -> dict[str, int | float]:
    """Return settings by name; raise UsageError for one that is given twice."""
    found: dict[str, int | float] = {}
    for name, number in given:
        if name in found:
            raise UsageError(f"--set {name}: the setting is given twice, as {found[name]} and as {number}")
        found[name] = number
    return found


def setting_fields(run: Run) -> list[tuple[str, object]]:
    """Return a field for each setting of the program, with all digits of its value."""
    return [(f"set.{name}", repr(number)) for name, number in run.settings.items()]
