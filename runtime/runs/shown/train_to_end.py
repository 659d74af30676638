"""A training from its first event to its last, with progress on stderr, and its result."""

from __future__ import annotations

import sys
from collections.abc import Generator
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from runtime.errors import UsageError
from runtime.runs.events import Event
from runtime.runs.session import Session
from runtime.runs.shown.training_result import Collector, TrainingResult
from runtime.runs.standing import Standing

if TYPE_CHECKING:
    from runtime.runs.shown.progress import Progress

ShowProgress = bool | Literal["auto"]


def require_progress(progress: ShowProgress) -> None:
    """Raise UsageError unless `progress` is one of its values."""
    if progress not in (True, False, "auto"):
        raise UsageError(f"train: progress={progress!r} is neither True, False nor 'auto'")


def train_to_end(
    events: Generator[Event], session: Session, standing: Standing, progress: ShowProgress
) -> TrainingResult:
    """Take all events of a training, and return its result; `standing.result` has it also after an error."""
    begin, collector = perf_counter(), Collector()
    shown = _display(session, standing, always=progress is True) if progress else None
    try:
        for event in events:
            collector.add(event)
            if shown is not None:
                shown.show(event)
    finally:
        events.close()
        if shown is not None:
            shown.close()
        standing.result = result = collector.result(standing.position, standing.evaluates, perf_counter() - begin)
    return result


def _display(session: Session, standing: Standing, *, always: bool) -> Progress | None:
    """Return a display of the training; None if nobody watches, unless it is shown `always`."""
    from runtime.command_line.streams import is_terminal  # few runs are watched, and these imports cost start-up time

    kind = "bar" if is_terminal() else "notebook" if "ipykernel" in sys.modules else "plain" if always else None
    if kind is None:
        return None
    from runtime.runs.shown.progress import new_progress

    total = int(session.states.arrays["total_steps"])
    return new_progress(kind, "plain", standing.position.steps, total)
