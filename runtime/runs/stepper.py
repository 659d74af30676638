"""The making of a run's steps: within its limit of time, and recorded by its trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final, Protocol

from runtime.engines.engine import Executor
from runtime.memory.first_touch import begins_small, make_large
from runtime.runs.overtime import Overtime

A_WHILE: Final = 2.0
"""Seconds of training after which large pages are worth their cost."""


class Trace(Protocol):
    """A recorder of the time of every part of a step."""

    def step(self, executor: Executor) -> None:
        """Make a step of the executor, and record it."""
        ...


class Stepper:
    """Makes steps.

    Attributes:
        trace: recorder of the steps, or None.
        overtime: limit of time that interrupts them, or None.
    """

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.overtime: Overtime | None = None
        self._begun = 0.0

    def step(self, executor: Executor, *, trains: bool = False) -> None:
        """Make a step of the executor; raise its errors, and OutOfTime."""
        self.call(executor.step if self.trace is None else partial(self.trace.step, executor), trains=trains)

    def call(self, step: Callable[[], None], *, trains: bool = False) -> None:
        """Make one or more steps by a call without traces; raise errors as `step` does.

        The steps of a training (`trains`) use large pages after a while; other steps never pause for them.
        """
        if self.overtime is None:
            step()
        else:
            self.overtime.step(step)
        if trains and begins_small() and self._goes_on():
            make_large()

    def _goes_on(self) -> bool:
        """Return True if steps have been made for a while."""
        self._begun = self._begun or perf_counter()
        return perf_counter() > self._begun + A_WHILE
