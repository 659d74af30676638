"""A bar of steps on a terminal, drawn by tqdm, below a line for each epoch.

The bar keeps a minimum of columns. Beside it stand the items that fit whole, in the order of their importance: the
step, the first metric, the time that is left, the epoch, further metrics, the rate and the time so far. All metrics of
an epoch are in the line above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, Final, Literal

from runtime.command_line.results import seconds_in_words
from runtime.command_line.streams import Forgiving, columns
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics
from runtime.runs.shown.event_lines import GLUE, fitted_lines, metric_words
from runtime.runs.shown.plain_lines import Plain, labelled

MIN_BAR_COLUMNS: Final = 8
"""Columns of the bar itself, whatever stands beside it."""

_FORMAT: Final = "{percentage:3.0f}%|{bar}| {desc}"
_FRAME: Final = len("100%|| ")
_GAP: Final = "  "
_INTERVAL: Final = 0.1  # seconds between two drawings
_LINE_INTERVAL: Final = 0.05  # seconds between two lines about epochs above the bar
_DISPLAYED: Final = ("steps", "epoch", "metrics", "left", "rate", "time")  # from left to right


class Bar:
    """A bar of steps with the newest metrics, drawn by tqdm, below a line for each epoch."""

    def __init__(self, done: int, total: int, stream: Literal["stderr", "stdout"] = "stderr") -> None:
        from tqdm import tqdm  # slow to import

        self._file = Forgiving(stream)  # the same for lines above, so that the bar is removed before they are printed
        self._done, self._total, self._begin = done, total, perf_counter()
        self._first = done
        self._metrics: Metrics = {}
        self._epoch = 0
        self._widths: dict[str, int] = {}  # of items, which never become narrower, so that the bar keeps its place
        self._drawn = 0.0
        self._bar: Any = tqdm(
            total=total, initial=done, file=self._file, bar_format=_FORMAT, ncols=columns(), miniters=1 << 60
        )
        self._lines = Plain(total, _LINE_INTERVAL, self._above)

    def show(self, event: Event) -> None:
        """Move the bar, or print a line for an epoch above it."""
        self._epoch, self._done = event.epoch, event.step
        match event:
            case StepEnd():
                self._lines.close()
                self._metrics = event.metrics
                if perf_counter() - self._drawn >= _INTERVAL:
                    self._draw()
            case EpochEnd():
                self._metrics = event.metrics
                self._lines.show(event)
            case EvaluationEnd():
                self._lines.show(event)
            case CheckpointWritten():
                pass

    def say(self, level: int, text: str) -> None:
        """Print the sentence above the bar."""
        self._write(labelled(level, text))

    def close(self) -> None:
        """Leave the bar as it is."""
        self._lines.close()
        self._draw()
        self._bar.close()

    def _above(self, parts: Sequence[str]) -> None:
        self._write(fitted_lines(parts, columns()))

    def _write(self, text: str) -> None:
        self._drawn = perf_counter()
        self._set()
        self._bar.write(text, file=self._file)

    def _draw(self) -> None:
        self._drawn = perf_counter()
        self._set()
        self._bar.refresh()

    def _set(self) -> None:
        """Take the step and the items that fit for the next drawing."""
        self._bar.ncols = columns()
        self._bar.n = self._done
        self._bar.set_description_str(self._beside(self._bar.ncols), refresh=False)

    def _beside(self, width: int) -> str:
        """Return the items that fit beside the bar in a terminal of `width` columns."""
        room = width - _FRAME - MIN_BAR_COLUMNS
        chosen: dict[str, list[str]] = {}
        for number, (kind, item) in enumerate(self._items()):
            text = item.replace(GLUE, " ")
            name = f"{kind} {number}"
            taken = self._widths[name] = max(len(text), self._widths.get(name, 0))
            if taken + len(_GAP) <= room:
                room -= taken + len(_GAP)
                chosen.setdefault(kind, []).append(text.ljust(taken))
        return _GAP.join(text for kind in _DISPLAYED for text in chosen.get(kind, ())).rstrip()

    def _items(self) -> Iterable[tuple[str, str]]:
        """Yield the items with their kind, the most important first."""
        metrics = list(metric_words(self._metrics))
        passed, left = perf_counter() - self._begin, self._total - self._done
        rate = (self._done - self._first) / passed if passed > 0 else 0.0
        yield "steps", f"{self._done}/{self._total}"
        yield "metrics", metrics[0] if metrics else ""
        yield "left", f"{seconds_in_words(left / rate)} left" if rate and left else ""
        yield "epoch", f"epoch {self._epoch}" if self._epoch else ""
        yield from (("metrics", metric) for metric in metrics[1:])
        yield "rate", f"{rate:.3g} steps/s" if rate >= 1 else f"{1 / rate:.3g} s/step" if rate else ""
        yield "time", seconds_in_words(passed)
