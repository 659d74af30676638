"""Where the training of a run stands in this process: its position, and what only this process needs to know."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import GEN_CLOSED, getgeneratorstate

from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.runs.events import Event
from runtime.runs.position import Position


class Standing:
    """What one call of `train` leaves to the next.

    Attributes:
        position: how far the training is, as checkpoints have it.
        fetched: what the last step fetched.
        keeps_best: the memory of the best states is counted.
        done: steps of the training that was taken to its end; 0 if it was not.
        home: the folder with the checkpoints of this run's past.
        events: gives the last call's events, as long as somebody has them.
    """

    def __init__(self) -> None:
        self.position = Position()
        self.fetched: Mapping[str, Array] = {}
        self.keeps_best = False
        self.done = 0
        self.home: str | None = None
        self.events: Callable[[], Generator[Event] | None] = lambda: None

    def require_no_training(self, what: str) -> None:
        """Raise UsageError if a call of `train` has neither ended nor been dropped."""
        events = self.events()
        if events is not None and getgeneratorstate(events) != GEN_CLOSED:
            raise UsageError(
                f"{what}: the run trains already; take the events of that train() to the end, or close() it"
            )
