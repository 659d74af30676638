"""Metrics that a run watches: the best value so far, and the number of values since that did not improve on it.

A value is better if it improves on the best one by more than `min_delta`. While a cooldown lasts, values may become the
best, and the others do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from prograd_proto import program_pb2 as pb
from prograd_proto.spelling import closest_or_all
from runtime.errors import UsageError
from runtime.runs.metrics import Metrics, Number

Read = Callable[[], float]
"""Returns a number, or the present value of the setting that has it."""


@dataclass
class Watch:
    """The standing of one watch; part of the position of a run.

    Attributes:
        best: the best value so far; None before the first.
        wait: number of values since that did not count as better.
        cooldown: number of further values that do not count.
    """

    best: Number | None = None
    wait: int = 0
    cooldown: int = 0

    def take(self, value: Number, *, higher: bool, min_delta: float) -> bool:
        """Take the next value; return True if it is better."""
        counts = self.cooldown == 0
        self.cooldown = max(self.cooldown - 1, 0)
        if is_better(value, self.best, higher=higher, min_delta=min_delta):
            self.best, self.wait = value, 0
            return True
        self.wait = self.wait + 1 if counts else 0
        return False


class Stop(NamedTuple):
    """The end of a run whose metric, that of `keep_best`, stops improving.

    Attributes:
        patience: number of values without improvement that end the run; 0 for none.
        min_delta: the improvement that a value must exceed.
    """

    patience: Read
    min_delta: Read


class Plateau(NamedTuple):
    """A state that is multiplied by a factor each time a metric stops improving.

    Attributes:
        state: name of the state: a factor of a rate, or a setting.
        metric: name of the metric, as `metric_value` reads it.
        higher: True if higher values are better.
        factor, patience, min_delta, cooldown: numbers, read when the run judges.
        least: the state is not reduced below this number.
    """

    state: str
    metric: str
    higher: bool
    factor: Read
    patience: Read
    min_delta: Read
    cooldown: Read
    least: float = 0.0


def is_better(value: Number, best: Number | None, *, higher: bool, min_delta: float = 0.0) -> bool:
    """Return True if a value is better than the best one so far by more than `min_delta`; NaN never is."""
    if math.isnan(value):
        return False
    if best is None:
        return True
    return value > best + min_delta if higher else value < best - min_delta


def metric_value(name: str, metrics: Metrics, evaluation: Metrics | None, entries: tuple[str, str]) -> Number:
    """Return a metric of the evaluation, else of the training.

    `entries` are the names of the entries that train and evaluate; with one of them in front, as in `train.loss`, a
    name is of that entry. Raises UsageError if there is no such scalar.
    """
    evaluated = {} if evaluation is None else evaluation
    known = metrics | evaluated | with_entries(metrics, evaluated, entries)
    require_watched(name, known, evaluates=bool(entries[1]))
    return known[name]


def require_watched(name: str, known: Collection[str], *, evaluates: bool) -> None:
    """Raise UsageError unless a run reports a metric of that name."""
    if name in known:
        return
    bare = name.removeprefix("val_")
    if bare in known and bare != name:
        how = (
            "it is called so in the evaluation, too; write"
            if evaluates
            else ("it does not evaluate; give validation_data= or validation_split=, and write")
        )
        raise UsageError(f"the run watches {name!r}, and {how} {bare!r}")
    raise UsageError(f"the run watches {name!r}, which is no scalar that it reports{closest_or_all(name, known)}")


def with_entries(metrics: Metrics, evaluation: Metrics, entries: tuple[str, str]) -> Metrics:
    """Return the metrics with the names of their entries in front."""
    train, evaluate = entries
    found = {f"{train}.{name}": value for name, value in metrics.items()}
    return found | {f"{evaluate}.{name}": value for name, value in evaluation.items()}


def plateaus_of(run: pb.RunDesc, read: Callable[[pb.NumberDesc], Read]) -> list[Plateau]:
    """Return the plateaus that a program declares; `read` gives the numbers of its messages."""
    return [
        Plateau(
            plateau.state,
            plateau.metric,
            plateau.direction == pb.DIRECTION_MAX,
            read(plateau.factor),
            read(plateau.patience),
            read(plateau.min_delta),
            read(plateau.cooldown),
        )
        for plateau in run.plateaus
    ]
