"""The result of a training: a table of its epochs, and the metrics of the states at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from prograd_proto.printable import printable
from prograd_proto.spelling import closest_and_all
from runtime.runs.events import EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics
from runtime.runs.position import Position
from runtime.runs.shown.html_tables import table

EPOCHS: Final = 20
"""Upper bound on the epochs that a display shows; the first and the last ones are shown."""

_OWN: Final = frozenset({"epoch", "step", "best"})


class History(dict[str, list[Any]]):
    """A table of epochs: a list for each column, with one element for each epoch.

    `epoch` and `step` count from 1. A metric of training has its name, and a metric of an evaluation has the entry in
    front, as in `evaluate.loss`; it is None for an epoch without evaluation. `best` is True if the evaluated states
    were the best so far. A metric called `epoch`, `step` or `best` has the column `metric.epoch` and so on.

    `pandas.DataFrame(history)` and `polars.DataFrame(history)` take it as it is.
    """

    def __missing__(self, name: object) -> NoReturn:
        why = "" if self["epoch"] else "; the call ended no epoch"
        raise KeyError(f"there is no column {name!r}{why or closest_and_all(str(name), self)}")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The epochs, each as a mapping from columns to values."""
        return [dict(zip(self, values, strict=True)) for values in zip(*self.values(), strict=True)]

    def __repr__(self) -> str:
        cells = [[*self], *self._cells()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(map(str.rjust, row, widths)) for row in cells)
        return "\n".join(lines) if len(cells) > 1 else "no epoch"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return table([printable(name) for name in self], self._cells())

    def _cells(self) -> list[list[str]]:
        """Return the rows as text, with one row of dots in place of those in the middle of many."""
        rows = [[_cell(value) for value in row] for row in zip(*self.values(), strict=True)]
        if len(rows) <= EPOCHS:
            return rows
        return [*rows[: EPOCHS // 2], ["…"] * len(self), *rows[-EPOCHS // 2 :]]


@dataclass(frozen=True, eq=False, repr=False)
class TrainingResult:
    """The result of `Run.train`.

    Attributes:
        history: a table with a row for each epoch that the call ended.
        metrics: metrics of the states that the run has now, with the names of the history's columns.
        best_epoch: epoch of the best evaluation of the run, if the program keeps the best states; else None.
        steps: number of steps that the call made.
        wall: duration of the call in seconds.
    """

    history: History
    metrics: Metrics
    best_epoch: int | None
    steps: int
    wall: float

    def __repr__(self) -> str:
        return f"<{self._summary()}>\n{self.history!r}"

    def _repr_html_(self) -> str:
        """Return the summary and the table of epochs that a notebook shows."""
        from html import escape

        return f"<p>{escape(self._summary())}</p>{self.history._repr_html_()}"  # pyright: ignore[reportPrivateUsage]: the name that notebooks ask for

    def _summary(self) -> str:
        best = "" if self.best_epoch is None else f", best epoch {self.best_epoch}"
        metrics = "".join(f", {printable(name)} {value:.4g}" for name, value in self.metrics.items())
        return f"TrainingResult: {self.steps} steps in {self.wall:.2f} s{best}{metrics}"

    def __iter__(self) -> NoReturn:
        raise TypeError("Run.train trains and returns its result; Run.events yields the events of a training")

    __next__ = __iter__


class Collector:
    """A collector of the events of one call of `train`, for its result."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._steps = 0

    def add(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case StepEnd():
                self._steps += 1
            case EpochEnd():
                self._rows.append({"epoch": event.epoch, "step": event.step, **_columns(event.metrics)})
            case EvaluationEnd():
                self._rows[-1] |= _columns(event.metrics, f"{event.entry}.") | {"best": event.is_best}
            case _:
                pass

    def result(self, position: Position, evaluate: str, wall: float) -> TrainingResult:
        """Return the result of the run at that position; `evaluate` is the entry with which it evaluates."""
        columns = dict.fromkeys(name for row in self._rows for name in row)
        columns = {"epoch": None, "step": None} | columns
        history = History({name: [row.get(name) for row in self._rows] for name in columns})
        best = position.best_at[0] + (position.best_at[1] > 0) if position.best_metric is not None else None
        return TrainingResult(history, self._metrics(position, evaluate), best, self._steps, wall)

    def _metrics(self, position: Position, evaluate: str) -> Metrics:
        """Return the metrics of the states: of the epoch that ended with them, and of their evaluation."""
        at = (row for row in self._rows if row["step"] == position.steps)
        found = {name: value for row in at for name, value in row.items() if name not in _OWN}
        return found | _columns(position.evaluation, f"{evaluate}.") if position.closed == position.steps else found


def _columns(metrics: Mapping[str, Any], entry: str = "") -> dict[str, Any]:
    """Return metrics by the names of their columns."""
    return {f"metric.{name}" if not entry and name in _OWN else entry + name: value for name, value in metrics.items()}


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
