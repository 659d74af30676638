"""The position of a run: everything besides the states that a later process needs to continue it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, cast

from runtime.dtypes import Array
from runtime.errors import DataError
from runtime.runs.metrics import Metrics, Number
from runtime.runs.watching.watches import Watch


class Position:
    """The progress of a run, its metrics so far, and its best states.

    Attributes:
        epoch: number of finished epochs.
        step: number of finished steps in the current epoch.
        steps: total number of finished steps.
        closed: `steps` when metrics were last combined and evaluated.
        rows: number of rows that an epoch reads; 0 before the first step.
        sums, summed_rows: the metrics of the current epoch.
        metrics: combined metrics of the last closed epoch.
        evaluation: metrics of the last evaluation.
        best: the states of the best evaluation by name; empty before the first, or if nothing is kept.
        best_metric: the value by which they are the best.
        best_at: epoch, step and steps of the best evaluation.
        best_evaluation: all metrics of the best evaluation.
        stale: number of evaluations since the best one.
        rows_sha256: fingerprints of the rows to "train" and to "evaluate" on; older files have none.
        is_resumed: True if the run has made no step since it was read from a file; not saved.
        cursor, best_cursor: JSON values for the position of the source of the rows now and at the best evaluation;
            None if the rows come from no source.
        stopped: True if `stale` has reached the limit.
        watches: the watches of metrics, by the state that they reduce.
        judged: `steps` when the run last judged its metrics; not saved.
        judged_by: the metric and the better direction by which the best states are kept, under "", and of each watch.
        top: value and `steps` of the best evaluations whose checkpoints are kept, the best first.
        plan_start: epoch and steps where the present plan began; see `continuation`.
        reached: `steps` at the end, before the best states were restored; not saved.
    """

    def __init__(self) -> None:
        self.epoch = self.step = self.steps = self.closed = self.rows = 0
        self.sums: Metrics = {}
        self.summed_rows = 0
        self.metrics: Metrics = {}
        self.evaluation: Metrics = {}
        self.best: dict[str, Array] = {}
        self.best_metric: Number | None = None
        self.best_at: tuple[int, int, int] = (0, 0, 0)
        self.best_evaluation: Metrics = {}
        self.stale = 0
        self.stopped = False
        self.reached = 0
        self.watches: dict[str, Watch] = {}
        self.judged = 0
        self.judged_by: dict[str, str] = {}
        self.top: list[tuple[Number, int]] = []
        self.rows_sha256: dict[str, str] = {}
        self.is_resumed = False
        self.cursor: Any = None
        self.best_cursor: Any = None
        self.plan_start: tuple[int, int] = (0, 0)

    def begin_plan(self) -> None:
        """Begin an epoch of other rows here: epochs and steps go on, everything about the earlier rows is forgotten."""
        epoch, steps = self.epoch + (self.step > 0), self.steps
        vars(self).update(vars(Position()))
        self.epoch, self.steps, self.closed = epoch, steps, steps
        self.best_at, self.plan_start = (epoch, 0, steps), (epoch, steps)

    def forget_best(self) -> None:
        """Forget the best evaluation, its states and the count since then."""
        empty = Position()
        for name in ("best", "best_metric", "best_evaluation", "best_cursor", "stale", "stopped", "top"):
            setattr(self, name, getattr(empty, name))
        epoch, steps = self.plan_start
        self.best_at = epoch, 0, steps

    def to_json(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        values = {
            "epoch": self.epoch,
            "step": self.step,
            "steps": self.steps,
            "closed": self.closed,
            "rows": self.rows,
            "sums": _written(self.sums),
            "summed_rows": self.summed_rows,
            "metrics": _written(self.metrics),
            "evaluation": _written(self.evaluation),
            "best_metric": None if self.best_metric is None else _written_number(self.best_metric),
            "best_at": list(self.best_at),
            "best_evaluation": _written(self.best_evaluation),
            "stale": self.stale,
            "stopped": self.stopped,
        }
        values |= {"plan_start": [*self.plan_start]} if any(self.plan_start) else {}
        values |= {"rows_sha256": self.rows_sha256} if self.rows_sha256 else {}
        values |= {"watches": _written_watches(self.watches)} if self.watches else {}
        values |= {"judged_by": self.judged_by} if self.judged_by else {}
        values |= {"top": [[_written_number(value), steps] for value, steps in self.top]} if self.top else {}
        return values | ({} if self.cursor is None else {"cursor": self.cursor, "best_cursor": self.best_cursor})

    @classmethod
    def from_json(cls, values: object) -> Position:
        """Return the position that `to_json` described; raise ValueError with the fault for anything else."""
        if not isinstance(values, dict):
            raise ValueError("there is no position")
        found = _Found(cast(dict[str, object], values))
        position = cls()
        for name in ("epoch", "step", "steps", "closed", "rows", "summed_rows", "stale"):
            setattr(position, name, found.count(name))
        for name in ("sums", "metrics", "evaluation", "best_evaluation"):
            setattr(position, name, found.metrics(name))
        best = found["best_metric"]
        position.best_metric = None if best is None else _number("best_metric", best)
        epoch, step, steps = found.counts("best_at", 3)
        position.best_at = epoch, step, steps
        stopped = found["stopped"]
        if type(stopped) is not bool:
            raise ValueError("stopped is neither true nor false")
        position.stopped = stopped
        position.is_resumed = True
        position.rows_sha256, position.judged_by = found.texts("rows_sha256"), found.texts("judged_by")
        position.watches = found.watches()
        position.top = found.top()
        position.plan_start = found.plan_start()
        given = cast(dict[str, Any], values)
        position.cursor, position.best_cursor = given.get("cursor"), given.get("best_cursor")
        if (
            max(position.closed, position.best_at[2], position.plan_start[1]) > position.steps
            or position.step > position.steps
        ):
            raise ValueError("it is further than its own steps")
        return position

    def require_fitting(self, steps_per_epoch: int, names: Collection[str]) -> None:
        """Raise DataError unless a run with these steps per epoch and metrics can have this position."""
        places = ((self.epoch, self.step, self.steps), self.best_at)
        first, start = self.plan_start
        if any((epoch - first) * steps_per_epoch + step != steps - start for epoch, step, steps in places):
            raise DataError(
                f"the run stands at step {self.steps} and says that this is step {self.step} after {self.epoch} "
                f"epochs, which have {steps_per_epoch} steps each; its checkpoint is of other rows, or damaged"
            )
        summed = set(self.sums) == set(names) and self.summed_rows > 0 and self.step > 0
        if not summed and (self.sums or self.summed_rows):
            raise DataError(
                "the metrics of the epoch so far are not those of this entry; "
                "the run's checkpoint is of another, or damaged"
            )


class _Found:
    """The fields of a position that was read; each query raises ValueError for a field of another type."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> object:
        if name not in self._values:
            raise ValueError(f"the position has no {name}")
        return self._values[name]

    def count(self, name: str) -> int:
        return _count(name, self[name])

    def counts(self, name: str, length: int) -> list[int]:
        values = _list(self[name], f"{name} is no list of {length} counts", length)
        return [_count(name, value) for value in values]

    def plan_start(self) -> tuple[int, int]:
        epoch, steps = self.counts("plan_start", 2) if "plan_start" in self._values else (0, 0)
        return epoch, steps

    def texts(self, name: str) -> dict[str, str]:
        values = self._values.get(name, {})
        if not isinstance(values, dict) or not all(
            isinstance(v, str) for v in cast(dict[str, object], values).values()
        ):
            raise ValueError(f"{name} has what is no text")
        return cast(dict[str, str], values)

    def top(self) -> list[tuple[Number, int]]:
        fault = "top is no list of values and steps"
        pairs = [_list(pair, fault, 2) for pair in _list(self._values.get("top", []), fault)]
        return [(_number("top", value), _count("top", steps)) for value, steps in pairs]

    def watches(self) -> dict[str, Watch]:
        values = self._values.get("watches", {})
        if not isinstance(values, dict):
            raise ValueError("watches is no object")
        return {name: _watch(watch) for name, watch in cast(dict[str, object], values).items()}

    def metrics(self, name: str) -> Metrics:
        fault = f"{name} is no list of names and numbers"
        metrics: Metrics = {}
        for key, value in [_list(pair, fault, 2) for pair in _list(self[name], fault)]:
            if not isinstance(key, str) or key in metrics:
                raise ValueError(f"{name} has a name twice, or one that is no text")
            metrics[key] = _number(name, value)
        return metrics


def _written_watches(watches: Mapping[str, Watch]) -> dict[str, list[Number | str | None]]:
    """Return the best value, the wait and the cooldown of each watch."""
    return {
        name: [None if watch.best is None else _written_number(watch.best), watch.wait, watch.cooldown]
        for name, watch in watches.items()
    }


def _watch(value: object) -> Watch:
    best, wait, cooldown = _list(value, "watches has what is no watch", 3)
    best = None if best is None else _number("watches", best)
    return Watch(best, _count("watches", wait), _count("watches", cooldown))


def _list(value: object, fault: str, length: int | None = None) -> list[Any]:
    """Return a value that is a list of this length, or of any; raise ValueError with the fault for another one."""
    if not isinstance(value, list) or length not in (None, len(cast(list[object], value))):
        raise ValueError(fault)
    return cast(list[Any], value)


def _written(metrics: Metrics) -> list[list[Number | str]]:
    """Return pairs of name and value, because a JSON object with sorted keys would lose the order of the fetches."""
    return [[name, _written_number(value)] for name, value in metrics.items()]


def _written_number(value: Number) -> Number | str:
    """Return the value for JSON, which has no NaN and no infinity: they are written as strings."""
    return value if math.isfinite(value) else str(value)


def _number(name: str, value: object) -> Number:
    if value in ("nan", "inf", "-inf"):
        return float(cast(str, value))
    if type(value) is float or (type(value) is int and abs(value) < 1 << 1000):
        return value
    raise ValueError(f"{name} has what is no number")


def _count(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is no count")
    return value
