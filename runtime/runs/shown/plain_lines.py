"""Sentences and plain lines on stderr: a line for each epoch, with its seconds and the evaluation at its end."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from runtime.command_line.say import labelled
from runtime.command_line.streams import say as print_line
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.shown.event_lines import evaluation, one_line, parts_of

_OFTEN = 0.5  # seconds between two plain lines about short epochs

STEP_LINE_INTERVAL = 10.0
"""Seconds between two lines about steps, where epochs are longer."""


class Silent:
    """A display of sentences only."""

    def show(self, event: Event) -> None:
        """Show nothing."""

    def say(self, level: int, text: str) -> None:
        """Print the sentence."""
        print_line(labelled(level, text))

    def close(self) -> None:
        """Do nothing."""


class Plain(Silent):
    """A line per epoch, with its seconds and the evaluation at its end, and a line every few seconds in between."""

    def __init__(self, total: int, often: float = _OFTEN, put: Callable[[list[str]], None] | None = None) -> None:
        """Begin for `total` steps.

        `often` is the number of seconds between two lines about epochs. `put` prints the parts of a line.
        """
        self._total = total
        self._often = often
        self._put = put or _print_parts
        self._last = perf_counter()
        self._clock = EpochClock()
        self._parts: list[str] = []  # of an epoch, whose evaluation goes into the same line
        self._step = 0

    def show(self, event: Event) -> None:
        """Print a line if the interval is over."""
        seconds = self._clock.seconds(event)
        if isinstance(event, EvaluationEnd):
            parts, self._parts = self._parts, []
            self._print([*parts, evaluation(event)] if parts else parts_of(event, self._total))
            return
        self.close()
        match event:
            case EpochEnd():
                self._parts, self._step = parts_of(event, self._total, seconds), event.step
            case StepEnd() if perf_counter() - self._last >= STEP_LINE_INTERVAL:
                self._print(parts_of(event, self._total))
            case CheckpointWritten():
                self._print(parts_of(event, self._total))
            case _:
                pass

    def close(self) -> None:
        """Print the line that was held back."""
        parts, self._parts = self._parts, []
        if parts and (perf_counter() - self._last >= self._often or self._step == self._total):
            self._print(parts)

    def _print(self, parts: list[str]) -> None:
        self._last = perf_counter()
        self._put(parts)


class EpochClock:
    """The time of an epoch: from the end of the epoch before, and its evaluation and checkpoint, to its last step."""

    def __init__(self) -> None:
        self._begin = perf_counter()
        self._has_steps = False

    def seconds(self, event: Event) -> float:
        """Take note of an event, and return the seconds since the beginning of its epoch."""
        now = perf_counter()
        passed = now - self._begin
        if isinstance(event, StepEnd):
            self._has_steps = True
        elif isinstance(event, EpochEnd) or not self._has_steps:
            self._begin, self._has_steps = now, False
        return passed


def _print_parts(parts: list[str]) -> None:
    print_line(one_line(parts))
