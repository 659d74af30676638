"""Progress of a run on stderr: a bar, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import logging
import math
from time import perf_counter
from typing import Protocol

from runtime.command_line.streams import is_terminal
from runtime.command_line.streams import say as print_line
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.shown.bar import Bar
from runtime.runs.shown.plain_lines import STEP_LINE_INTERVAL, EpochClock, Plain, Silent

_OWN = frozenset({"event", "epoch", "step", "entry", "split", "best", "path"})  # fields of every event


class Progress(Protocol):
    """A display of events and sentences."""

    def show(self, event: Event) -> None:
        """Show an event, if this display does."""
        ...

    def say(self, level: int, text: str) -> None:
        """Print a sentence of a level of `logging` to stderr."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


def new_progress(kind: str, log_format: str, done: int, total: int) -> Progress:
    """Return a display of the kind `auto`, `bar`, `notebook`, `plain` or `none`, for a run at step `done` of `total`.

    That for a notebook is a bar on stdout, because notebooks show stderr as errors.
    """
    if log_format == "json":
        return Json(quiet=kind == "none")
    if kind == "none":
        return Silent()
    if kind == "notebook":
        return Bar(done, total, "stdout")
    if kind == "bar" or (kind == "auto" and is_terminal()):
        return Bar(done, total)
    return Plain(total)


class Json:
    """A JSON object per line: epochs, evaluations, checkpoints, and a step every few seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = perf_counter()
        self._clock = EpochClock()

    def show(self, event: Event) -> None:
        """Print the object."""
        now = perf_counter()
        seconds = self._clock.seconds(event)
        if self._quiet or (isinstance(event, StepEnd) and now - self._last < STEP_LINE_INTERVAL):
            return
        self._last = now
        _print_json(json_event(event) | ({"epoch_seconds": seconds} if isinstance(event, EpochEnd) else {}))

    def say(self, level: int, text: str) -> None:
        """Print the sentence as an object."""
        _print_json({"event": "log", "level": logging.getLevelName(level).lower(), "message": text})

    def close(self) -> None:
        """Do nothing."""


def json_event(event: Event) -> dict[str, object]:
    """Return an event as JSON values; NaN and infinities become null."""
    values: dict[str, object] = {"event": kind(event), "epoch": event.epoch, "step": event.step}
    match event:
        case CheckpointWritten():
            return values | {"path": str(event.path)}
        case EvaluationEnd():
            values |= {"entry": event.entry, "split": event.split, "best": event.is_best}
        case _:
            pass
    return values | {key_of(name): value if math.isfinite(value) else None for name, value in event.metrics.items()}


def key_of(name: str) -> str:
    """Return the key of a metric among an event's values: its name, unless that is a field of the event."""
    return f"metric.{name}" if name in _OWN else name


def kind(event: Event) -> str:
    """Return one word for the kind of an event."""
    match event:
        case StepEnd():
            return "step"
        case EpochEnd():
            return "epoch"
        case EvaluationEnd():
            return "evaluation"
        case CheckpointWritten():
            return "checkpoint"


def _print_json(values: dict[str, object]) -> None:
    from json import dumps

    print_line(dumps(values, allow_nan=False))
