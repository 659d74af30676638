"""The protocol of a sink, and what sinks have in common."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event

_log = logging.getLogger("prograd")


class About(NamedTuple):
    """The facts about a run that a sink records.

    Attributes:
        name: name of the program.
        facts: the hash of the program, its entry, its seed, and the values of its settings.
    """

    name: str
    facts: dict[str, str | int | float]


class Sink(Protocol):
    """A receiver of events; it raises UsageError when it is made if its package is missing."""

    def open(self, about: About, done: int, *, force: bool) -> None:
        """Begin, for a run that has made `done` steps; raise UsageError or DataError if that is impossible."""
        ...

    def write(self, event: Event, more: Iterable[Mapping[str, Any]]) -> None:
        """Take an event and the histograms after it."""
        ...

    def close(self, *, failed: bool = False) -> None:
        """End, after the last event or after an error."""
        ...


def tagged(event: Event) -> dict[str, float]:
    """Return the metrics of an event by `steps/loss`, `epochs/loss` or, with the split, `test/loss`."""
    if isinstance(event, CheckpointWritten):
        return {}
    of = "steps"
    if isinstance(event, EvaluationEnd):
        of = event.split or "evaluation"
    elif isinstance(event, EpochEnd):
        of = "epochs"
    return {f"{of}/{name}": float(value) for name, value in event.metrics.items()}


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that are finite: few servers take NaN and infinities."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


class Guard:
    """The state of a sink on a network: after a failure it takes no more events, and says so once."""

    def __init__(self, what: str) -> None:
        self.has_failed = False
        self._what = what

    def failed(self, error: Exception) -> None:
        """Report a failure while the run goes on."""
        self.has_failed = True
        _log.warning("%s takes no more events, and the run goes on without: %s", self._what, first_line(error))


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, shortened."""
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]}…"
