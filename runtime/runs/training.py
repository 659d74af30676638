"""The training loop: steps, epochs, evaluations, the best states, checkpoints.

Between any two events the states are whole, and `position` has everything that is needed to continue later.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import DataError, NonFinite, OutOfRange, ResourceLimit, SourceEnded
from runtime.memory.limit import MemoryLimit
from runtime.rows.out_of_range import explained
from runtime.rows.rows import Rows
from runtime.runs.checkpoints.cost import CheckpointCost
from runtime.runs.course import Course
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics, Totals, scalar_fetches
from runtime.runs.position import Position
from runtime.runs.states import States
from runtime.runs.watching.judge import Judge

if TYPE_CHECKING:
    from runtime.rows.streamed import Streamed

_log = logging.getLogger("prograd")


RunSteps = Callable[["Rows | Streamed", int, int], Mapping[str, Array] | None]

AT_ONCE: Final = 0.02
"""About how many seconds of steps are made at a time: a progress bar and an interrupt wait no longer than that."""


class Callbacks(NamedTuple):
    """Callbacks of the training loop.

    Attributes:
        step: makes a step with the rows from a position on, which updates the states; returns its fetches.
        steps: makes several steps at once, and returns the scalars of each; returns None, without a step, if it cannot.
        evaluate: returns the metrics of the current states; it calls its argument between its steps.
        checkpoint: writes a checkpoint and returns its path; None for no checkpoints.
        stops: returns True if the run is to end after the steps that were made.
        fault: returns a clause about a state with NaN or Inf; "" if there is none.
        between: called before each step; KeyboardInterrupt or ResourceLimit from it ends the run, after a checkpoint if
            there are any.
    """

    step: Callable[[Rows | Streamed, int], Mapping[str, Array]]
    steps: RunSteps
    evaluate: Callable[[Callable[[], None]], Metrics]
    checkpoint: Callable[[], CheckpointWritten] | None
    stops: Callable[[], bool]
    fault: Callable[[], str]
    between: Callable[[], None]


class Training:
    """A run of a training entry.

    Args:
        course: the rows, length and intervals.
        states: states of the program.
        position: position of the run, which the training updates.
        watched: the metrics that must be finite.
        callbacks: the callbacks.
        memory: account that is asked for the memory of shuffling, as far as it changes.
    """

    def __init__(
        self,
        course: Course,
        states: States,
        position: Position,
        watched: Sequence[str],
        callbacks: Callbacks,
        memory: MemoryLimit,
    ) -> None:
        self._rows = self._ordered = course.rows
        self._plan = course.plan
        self._states = states
        self._position = position
        self._watched = watched
        self._do = callbacks
        self._judge = Judge(course.plan, states, position)
        self._memory = memory
        self._binding = course.bindings[0]
        self._totals = totals = Totals(scalar_fetches(self._binding))
        self._at_once = min(course.plan.ahead, 2)
        self._ended = False  # True if the source of the rows has ended, or somebody stops the run
        self._saved_at: tuple[int, int] | None = None
        self._stopped_by: BaseException | None = None
        self._cost = CheckpointCost()
        totals.sums, totals.rows = dict(position.sums), position.summed_rows

    def events(self) -> Iterator[Sequence[Event]]:
        """Train to the end, then restore the best states if they are kept; yield the events of each batch of steps.

        Raises:
            NonFinite: the loss, or a state that training changes, is NaN or Inf; no checkpoint has such states. The
                best states are restored if they are kept.
            ResourceLimit, DataError: a checkpoint cannot be written, or `between` raises it.
        """
        position, total, begun = self._position, self._plan.steps, self._position.steps
        self._cost = CheckpointCost()
        self._order()
        try:
            while True:
                self._ended = self._ended or self._do.stops()
                if position.closed < position.steps and (self._is_at_end() or self._ended):
                    yield from self._close()
                if position.steps >= total or position.stopped or self._ended:
                    break
                self._pause()
                with self._states.locks.exclusive():
                    ends = self._steps_at_once() or self._step_if_rows_come()
                yield ends
                if self._plan.every and position.steps % self._plan.every == 0 and not self._is_at_end():
                    yield from self._write_checkpoint()
            yield from self._write_checkpoint()
        except (KeyboardInterrupt, ResourceLimit) as error:
            if error is self._stopped_by:  # the states are whole, unlike in the middle of a step
                self._write_last_checkpoint()
            raise
        except NonFinite as error:
            raise self._with_best(error) from None
        with self._states.locks.exclusive():
            self._say_what_waits()
            self._judge.end()
        self._cost.warn(position.steps - begun)

    def _pause(self) -> None:
        try:
            self._do.between()
        except (KeyboardInterrupt, ResourceLimit) as error:
            self._stopped_by = error
            raise

    def _is_at_end(self) -> bool:
        """Return True if the epoch, or the run, has had its last step."""
        return self._position.step == self._plan.per_epoch or self._position.steps == self._plan.steps

    def _order(self) -> None:
        if self._plan.shuffle:
            self._ordered = self._rows  # frees the memory of the last epoch before the next one allocates
            plan, epoch = self._plan, self._position.epoch
            self._ordered = self._rows.shuffled(plan.seed, epoch, plan.window, self._memory)

    def _steps_at_once(self) -> list[StepEnd]:
        """Make steps before their events are yielded.

        Return none if only one may be made, or the engine makes no more.
        """
        position, plan = self._position, self._plan
        first = position.step * plan.batch
        count = min(self._at_once, plan.steps - position.steps, (len(self._ordered) - first) // plan.batch)
        for interval in (plan.every, plan.pauses):
            if interval is not None:
                count = min(count, interval - position.steps % interval)
        if count < 2:
            return []
        if position.step == 0:
            self._states.reset_epoch()
        start = perf_counter()
        kept = self._do.steps(self._ordered, first, count)
        if kept is None:
            self._at_once = 1
            return []
        took = perf_counter() - start
        self._at_once = min(plan.ahead, max(2, count * 2 if took < AT_ONCE / 2 else int(count * AT_ONCE / took)))
        made = min((len(values) for values in kept.values()), default=count)
        return self._made(self._totals.of_steps(kept, made), plan.batch)

    def _step_if_rows_come(self) -> list[StepEnd]:
        """Make a step, or none if the source of the rows has ended."""
        try:
            return self._step()
        except SourceEnded as end:
            self._ended = True
            steps, left = self._position.steps, end.left
            if not steps:
                raise DataError(f"the source ended after {left} rows, a step takes {self._plan.batch}") from None
            _log.info("the source ended after %d steps of %d, and %d rows are left", steps, self._plan.steps, left)
            return []

    def _step(self) -> list[StepEnd]:
        position = self._position
        if position.step == 0:
            self._states.reset_epoch()
        first = position.step * self._plan.batch
        count = min(self._plan.batch, len(self._rows) - first)
        try:
            fetched = self._do.step(self._ordered, first)
        except NonFinite as error:
            fed, bad = self._ordered.named(first, count), self._ordered.nonfinite(first, count)
            raise NonFinite(f"step {position.steps + 1}: {bad}{error}{fed}", error.step) from None
        except OutOfRange as error:
            raise explained(error, self._binding, self._ordered, first) from None
        return self._made([self._totals.of_step(fetched)], count)

    def _made(self, metrics: Sequence[Metrics], count: int) -> list[StepEnd]:
        """Return the events of steps of `count` rows that were made."""
        position, first, before = self._position, self._position.step, self._position.steps
        position.step += len(metrics)
        position.steps += len(metrics)
        position.cursor = None if isinstance(self._rows, Rows) else self._rows.cursor
        self._totals.add(metrics, count)
        position.sums, position.summed_rows = self._totals.sums, self._totals.rows
        for name in self._watched:
            for i, values in enumerate(metrics):
                if not math.isfinite(values[name]):
                    bad = self._ordered.nonfinite((first + i) * self._plan.batch, count)
                    said = f"step {before + i + 1}: {bad}{name} is {values[name]}; "
                    if bad:
                        raise NonFinite(f"{said}leave the row out, or replace the value")
                    raise NonFinite(f"{said}{_remedy()}")
        epoch = position.epoch + 1
        return [StepEnd(epoch, step, values) for step, values in enumerate(metrics, before + 1)]

    def _close(self) -> Iterator[Sequence[Event]]:
        """Combine the epoch's metrics, evaluate if it is time, and begin the next epoch."""
        position, plan = self._position, self._plan
        self._require_finite()
        epoch = position.epoch + 1
        metrics = self._totals.result()
        evaluation = None
        if plan.evaluate is not None and (
            epoch % plan.evaluate.every == 0 or position.steps == plan.steps or self._ended
        ):
            evaluation = self._do.evaluate(self._pause)
        with self._states.locks.exclusive():
            events = self._closed(metrics, evaluation)
        yield events
        if plan.every is None or position.steps % plan.every == 0 or self._is_among_best():
            yield from self._write_checkpoint()  # with these events in it, which the caller has by now

    def _closed(self, metrics: Metrics, evaluation: Metrics | None) -> list[Event]:
        position, plan = self._position, self._plan
        epoch = position.epoch + 1
        position.metrics = metrics
        position.closed = position.steps
        if position.step == self._plan.per_epoch:
            position.epoch, position.step = epoch, 0
            self._totals.clear()
            position.sums, position.summed_rows = {}, 0
            self._order()
        events: list[Event] = [EpochEnd(epoch, position.steps, metrics)]
        is_best = self._judge.take(metrics, evaluation)
        if evaluation is not None and plan.evaluate is not None:
            entry, split = plan.evaluate.entry, plan.evaluate.split
            events.append(EvaluationEnd(epoch, position.steps, entry, split, evaluation, is_best))
        return events

    def _is_among_best(self) -> bool:
        """Return True if the states were just judged, and are among the best whose checkpoints are kept."""
        position = self._position
        return position.judged == position.steps and any(steps == position.steps for _, steps in position.top)

    def _write_checkpoint(self) -> list[list[CheckpointWritten]]:
        """Write a checkpoint, unless there are none or the last one has this position; its event comes alone."""
        now = self._position.steps, self._position.closed
        if self._do.checkpoint is None or now == self._saved_at:
            return []
        self._require_finite()
        with self._cost.of_one():
            written = self._do.checkpoint()
        self._saved_at = now
        return [[written]]

    def _write_last_checkpoint(self) -> None:
        """Write the checkpoint of a run that is interrupted, unless its states have NaN."""
        try:
            for [event] in self._write_checkpoint():
                _log.info("checkpoint %s", event.path)
        except NonFinite as error:
            _log.warning("no checkpoint is written: %s", error)

    def _require_finite(self) -> None:
        """Raise NonFinite if a state that training changes has NaN or Inf, although the watched metrics are finite."""
        fault = self._do.fault()
        if fault:
            raise NonFinite(f"after step {self._position.steps}: {fault}; {_remedy()}")

    def _with_best(self, error: NonFinite) -> NonFinite:
        """Restore the best states if they are kept, and return the error with a clause about them."""
        kept = self._judge.kept()
        if not kept:
            return error
        with self._states.locks.exclusive():
            self._judge.restore()
        return NonFinite(f"{error}; {kept}", error.step, is_restored=True)

    def _say_what_waits(self) -> None:
        """Warn of gradients that made no update; they are in the states, so a run that continues loses nothing."""
        waiting = [name for name in self._states.sums if self._states.arrays[name].any()]
        if waiting:
            _log.warning(
                "the run ends after %d steps, between two updates: the gradients since the last one wait in %s; "
                "train for a multiple of the steps that make one update, or go on",
                self._position.steps,
                waiting[0] if len(waiting) == 1 else f"{waiting[0]} and {len(waiting) - 1} more",
            )


def _remedy() -> str:
    return (
        "a lower learning rate or clipping may help, "
        f"and {as_asked('--check-nan', 'check_nan=True')} names the op that makes the first one"
    )
