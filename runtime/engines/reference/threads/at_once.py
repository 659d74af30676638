"""Several threads: the first steps measure the ops, later ones test if threads are faster than one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from runtime.engines.reference.threads.contest import TRIAL_STEPS_PER_WAY, Contest
from runtime.engines.reference.threads.in_order import Call, Failure, Way
from runtime.engines.reference.threads.stopwatch import Stopwatch
from runtime.engines.reference.threads.tasks import HANDOVER_SECONDS, max_concurrent, tasks_of
from runtime.engines.reference.threads.worklist import Worklist
from runtime.step import Touched, dependencies

TRIAL_STEPS: Final = 3
"""Number of steps in list order that measure each op, before the tasks are decided."""

UNDECIDED_STEPS: Final = TRIAL_STEPS + 2 * TRIAL_STEPS_PER_WAY
"""Number of steps before the first decision how steps are made."""


class AtOnce:
    """A way to call ops that measures, decides, and reviews its decision."""

    def __init__(
        self,
        in_order: Way,
        stopwatch: Stopwatch,
        touched: Callable[[], list[Touched]],
        threads: int,
        tiny: float | None,
    ) -> None:
        """Begin with the trials.

        Args:
            in_order: the way without threads.
            stopwatch: stopwatch of the ops, for the trials.
            touched: returns the memory that each op reads and writes.
            threads: number of threads that call ops.
            tiny: seconds that are not worth another thread; with 0 no step is made in order after the trials.
        """
        self._in_order = in_order
        self._stopwatch = stopwatch
        self._touched = touched
        self._threads = threads
        self._tiny = HANDOVER_SECONDS if tiny is None else tiny
        self._trials_left: int = TRIAL_STEPS
        self._shortest = [float("inf")] * len(stopwatch.calls)
        self._worklist: Worklist | None = None
        self._contest = Contest()

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Run a step; see `Way`."""
        if self._trials_left:
            return self._trial()
        if self._worklist is None:
            return self._in_order.run(calls)
        start = perf_counter()
        way = self._worklist if self._contest.at_once or not self._tiny else self._in_order
        failure = way.run(calls)
        self._contest.note(perf_counter() - start)
        return failure

    def close(self) -> None:
        """End the threads; see `Way`."""
        self._in_order.close()
        if self._worklist is not None:
            self._worklist.close()

    def _trial(self) -> Failure | None:
        failure = self._in_order.run(self._stopwatch.calls)
        if failure is None:
            self._shortest = list(map(min, self._shortest, self._stopwatch.seconds()))
            self._trials_left -= 1
            if not self._trials_left:
                self._decide()
        return failure

    def _decide(self) -> None:
        """Decide after the last trial which ops are worth a thread."""
        tasks = tasks_of(dependencies(self._touched()), self._shortest, self._threads, tiny=self._tiny)
        self._worklist = None if tasks is None else Worklist(tasks, min(self._threads, max_concurrent(tasks)))
