"""Where a run stands: everything besides the states that a later process needs to go on as if nothing happened."""

from __future__ import annotations

import math
from typing import Any

from runtime.kernel import Array
from runtime.metrics import Metrics, Number


class Position:
    """How far a run is, what its metrics are so far, and its best states.

    Attributes:
        epoch: epochs that are over.
        step: steps done in the epoch that is not.
        steps: steps done in all.
        closed: `steps` when metrics were last combined and evaluated.
        rows: how many rows an epoch reads; 0 before the first step.
        sums, summed_rows: the metrics of the epoch that is not over.
        metrics: combined, of the last epoch that was closed.
        evaluation: metrics of the last evaluation.
        best: the states of the best evaluation by name; none before the first, or if nothing is kept.
        best_metric: the value by which they are the best.
        best_at: epoch, step and steps of it.
        best_evaluation: all metrics of it.
        stale: evaluations since.
        stopped: whether that was often enough to stop.
        reached: `steps` at the end, before the best states were put back; not saved.
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

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays, as values that JSON has."""
        return {
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

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Position:
        """What `to_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
        position = cls()
        for name in ("epoch", "step", "steps", "closed", "rows", "summed_rows", "stale"):
            setattr(position, name, _count(values[name]))
        for name in ("sums", "metrics", "evaluation", "best_evaluation"):
            setattr(position, name, _read(values[name]))
        best = values["best_metric"]
        position.best_metric = None if best is None else _read_number(best)
        epoch, step, steps = map(_count, values["best_at"])
        position.best_at = epoch, step, steps
        position.stopped = bool(values["stopped"])
        return position


def _written(metrics: Metrics) -> list[list[Number | str]]:
    """Pairs of name and value, because a JSON object with sorted keys would forget the order of the fetches."""
    return [[name, _written_number(value)] for name, value in metrics.items()]


def _written_number(value: Number) -> Number | str:
    """JSON has no NaN and no infinity: they are written as strings."""
    return value if math.isfinite(value) else str(value)


def _read(pairs: list[list[Any]]) -> Metrics:
    return {str(name): _read_number(value) for name, value in pairs}


def _read_number(value: Any) -> Number:
    return value if type(value) is int else float(value)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value
