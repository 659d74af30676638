"""Progress of a run on stderr: a bar, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from prograd_proto.printable import MAX_WORD_CHARACTERS, printable, sentence
from runtime.command_line.streams import Forgiving, is_terminal, is_without_size
from runtime.command_line.streams import say as print_line
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics

_OFTEN = 0.5  # seconds between two plain lines about short epochs
_SELDOM = 10.0  # seconds between two lines about steps, where epochs are longer
_ABOVE = 0.05  # seconds between two lines about epochs above a bar
_COLUMNS, _LINES = 80, 24  # of a terminal that does not report its size

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
    """Return a display of the kind `auto`, `bar`, `plain` or `none`, for a run at step `done` of `total`."""
    if log_format == "json":
        return Json(quiet=kind == "none")
    if kind == "none":
        return Silent()
    if kind == "bar" or (kind == "auto" and is_terminal()):
        return Bar(done, total)
    return Plain(total)


class Silent:
    """A display of sentences only."""

    def show(self, event: Event) -> None:
        """Show nothing."""

    def say(self, level: int, text: str) -> None:
        """Print the sentence."""
        print_line(_labelled(level, text))

    def close(self) -> None:
        """Do nothing."""


class Plain(Silent):
    """A line per epoch, with the evaluation at its end, and a line every few seconds in between."""

    def __init__(self, total: int, often: float = _OFTEN, put: Callable[[str], None] = print_line) -> None:
        """Begin for `total` steps.

        `often` is the number of seconds between two lines about epochs, which `put` prints.
        """
        self._total = total
        self._often = often
        self._put = put
        self._last = perf_counter()
        self._epoch: EpochEnd | None = None  # an evaluation at its end goes into the same line

    def show(self, event: Event) -> None:
        """Print a line if the interval is over."""
        if isinstance(event, EvaluationEnd):
            epoch = f"  {_numbers(self._epoch.metrics)}  |" if self._epoch else ""
            self._epoch = None
            self._print(f"{_where(event, self._total)}{epoch}{_evaluation(event)}")
            return
        self.close()
        match event:
            case EpochEnd():
                self._epoch = event
            case StepEnd() if perf_counter() - self._last >= _SELDOM:
                self._print(f"{_where(event, self._total)}  {_numbers(event.metrics)}")
            case CheckpointWritten():
                self._print(f"{_where(event, self._total)}  checkpoint {printable(str(event.path))}")
            case _:
                pass

    def close(self) -> None:
        """Print the line that was held back."""
        event, self._epoch = self._epoch, None
        if event is not None and (perf_counter() - self._last >= self._often or event.step == self._total):
            self._print(f"{_where(event, self._total)}  {_numbers(event.metrics)}")

    def _print(self, text: str) -> None:
        self._last = perf_counter()
        self._put(text)


class Bar:
    """A bar of steps with the newest metrics, drawn by tqdm, below a line for each epoch."""

    def __init__(self, done: int, total: int) -> None:
        from tqdm import tqdm  # slow to import

        size: dict[str, Any] = {"ncols": _COLUMNS, "nrows": _LINES} if is_without_size() else {"dynamic_ncols": True}
        self._file = Forgiving()  # the same for lines above, so that the bar is removed before they are printed
        self._bar: Any = tqdm(total=total, initial=done, unit="step", file=self._file, **size)
        self._lines = Plain(total, _ABOVE, self._above)

    def show(self, event: Event) -> None:
        """Move the bar, or print a line for an epoch above it."""
        match event:
            case StepEnd():
                self._lines.close()
                self._bar.update()
                if event.step % 16 == 1:  # formatting costs more than drawing, which tqdm does ten times per second
                    self._bar.set_postfix_str(f"epoch {event.epoch} {_numbers(event.metrics)}", refresh=False)
            case EpochEnd():
                self._lines.show(event)
                self._bar.set_postfix_str(f"epoch {event.epoch} {_numbers(event.metrics)}", refresh=False)
            case EvaluationEnd():
                self._lines.show(event)
            case CheckpointWritten():
                pass

    def say(self, level: int, text: str) -> None:
        """Print the sentence above the bar."""
        self._above(_labelled(level, text))

    def close(self) -> None:
        """Leave the bar as it is."""
        self._lines.close()
        self._bar.close()

    def _above(self, text: str) -> None:
        self._bar.write(text, file=self._file)


class Json:
    """A JSON object per line: epochs, evaluations, checkpoints, and a step every few seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = perf_counter()

    def show(self, event: Event) -> None:
        """Print the object."""
        now = perf_counter()
        if self._quiet or (isinstance(event, StepEnd) and now - self._last < _SELDOM):
            return
        self._last = now
        _print_json(json_event(event))

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


class LogHandler(logging.Handler):
    """A log handler that prints records where the progress display prints its sentences."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record's message."""
        self.progress.say(record.levelno, sentence(record.getMessage()))


def _where(event: Event, total: int) -> str:
    return f"epoch {event.epoch}  step {event.step}/{total}"


def _evaluation(event: EvaluationEnd) -> str:
    best = "  best so far" if event.is_best else ""
    entry, split = sentence(event.entry, MAX_WORD_CHARACTERS), sentence(event.split or "all rows", MAX_WORD_CHARACTERS)
    return f"  {entry} on {split}: {_numbers(event.metrics)}{best}"


def _numbers(metrics: Metrics) -> str:
    return " ".join(f"{sentence(name, MAX_WORD_CHARACTERS)} {value:.4g}" for name, value in metrics.items())


def _labelled(level: int, text: str) -> str:
    return f"runtime: {text}" if level < logging.WARNING else f"runtime: {logging.getLevelName(level).lower()}: {text}"


def _print_json(values: dict[str, object]) -> None:
    from json import dumps

    print_line(dumps(values, allow_nan=False))
