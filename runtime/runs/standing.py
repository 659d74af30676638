"""The state of a run's training in this process: its position, and facts that only this process needs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.runs.events import Event
from runtime.runs.position import Position

if TYPE_CHECKING:
    from runtime.runs.shown.training_result import TrainingResult


class Standing:
    """The state that one call of `train` or `events` leaves to the next.

    Attributes:
        position: position of the training, as in checkpoints.
        fetched: fetches of the last step.
        keeps_best: True if the memory of the best states is counted.
        stops: True if the training is to end after the steps that were made.
        had_rows: True if the last training named its rows.
        done: number of steps of a training that ran to its end; 0 before that.
        evaluates: the entry with which the last training evaluates; "" if it does not.
        home: folder with the earlier checkpoints of this run.
        events: the events of the last call, as long as a caller holds them.
        result: the result of the last call of `train`; None before the first.
    """

    def __init__(self) -> None:
        self.position = Position()
        self.fetched: Mapping[str, Array] = {}
        self.keeps_best = False
        self.stops = False
        self.had_rows = False
        self.done = 0
        self.evaluates = ""
        self.home: str | None = None
        self.result: TrainingResult | None = None
        self.events: Callable[[], Generator[Event] | None] = lambda: None

    def require_no_training(self, what: str) -> None:
        """Raise UsageError if a call of `events` has neither ended nor been dropped."""
        events = self.events()
        if events is not None and getgeneratorstate(events) != GEN_CLOSED:
            raise UsageError(
                f"{what}: the run trains already; take all events of that call of events(), or close() them"
            )
