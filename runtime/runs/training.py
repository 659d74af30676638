"""The training loop: steps, epochs, evaluations, the best states, checkpoints.

Between any two events the states are whole, and `position` says all that is needed to go on later.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.errors import DataError, NonFinite, ResourceLimit, UsageError
from runtime.kernel import Array
from runtime.philox import permutation
from runtime.rows.rows import Rows
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.metrics import Metrics, Totals
from runtime.runs.position import Position
from runtime.runs.states import States

_log = logging.getLogger("prograd")


class Plan(NamedTuple):
    """How long to train and what to do on the way."""

    steps: int  # in all
    batch: int  # rows a step, but for the last of an epoch
    per_epoch: int  # steps
    seed: int  # of the order of rows
    shuffle: bool
    evaluate: pb.EvaluateDesc | None
    keep_best: pb.KeepBestDesc | None
    stop_after: int  # evaluations without improvement, 0 for never
    every: int | None  # steps between checkpoints; None: at the end of each epoch


class Training:
    """A run of a training entry.

    Args:
        step: makes a step with the rows from a position on, which updates the states; gives what it fetches.
        watched: the metrics that must be finite.
        states: of the program.
        rows: to train on, before shuffling.
        position: where the run stands; kept up to date.
        plan: how long, and what on the way.
        totals: of the metrics; what the position remembers is put into it.
        evaluate: gives the metrics of the current states; its argument is to be called between its steps.
        checkpoint: writes one and gives its path; None for no checkpoints.
        between: called before each step; KeyboardInterrupt or ResourceLimit from it ends the run, after a
            checkpoint if there are any.
    """

    def __init__(
        self,
        step: Callable[[Rows, int], Mapping[str, Array]],
        watched: Sequence[str],
        states: States,
        rows: Rows,
        position: Position,
        plan: Plan,
        totals: Totals,
        evaluate: Callable[[Callable[[], None]], Metrics],
        checkpoint: Callable[[], CheckpointWritten] | None,
        between: Callable[[], None],
    ) -> None:
        self._make_step = step
        self._states = states
        self._rows = rows
        self._ordered = rows
        self._position = position
        self._plan = plan
        self._totals = totals
        self._evaluate = evaluate
        self._checkpoint = checkpoint
        self._between = between
        self._watched = watched
        self._saved_at: tuple[int, int] | None = None
        self._stopped_by: BaseException | None = None
        totals.sums, totals.rows = dict(position.sums), position.summed_rows

    def events(self) -> Iterator[Event]:
        """Train to the end, then put the best states back if they are kept.

        Raises:
            NonFinite: the loss is NaN or Inf; no checkpoint has it.
            ResourceLimit, DataError: a checkpoint cannot be written, or what `between` raises.
        """
        position, total = self._position, self._plan.steps
        self._order()
        try:
            while True:
                if position.closed < position.steps and self._is_at_end():
                    yield from self._close()
                if position.steps >= total or position.stopped:
                    break
                self._pause()
                with self._states.turns.alone():
                    end = self._step()
                yield end
                if self._plan.every and position.steps % self._plan.every == 0 and not self._is_at_end():
                    yield from self._write_checkpoint()
        except (KeyboardInterrupt, ResourceLimit) as error:
            if error is self._stopped_by:  # the states are whole, as they are not in the middle of a step
                for event in self._write_checkpoint():
                    _log.info("checkpoint %s", event.path)
            raise
        yield from self._write_checkpoint()
        with self._states.turns.alone():
            self._say_what_waits()
            self._restore_best()

    def _pause(self) -> None:
        try:
            self._between()
        except (KeyboardInterrupt, ResourceLimit) as error:
            self._stopped_by = error
            raise

    def _is_at_end(self) -> bool:
        """Whether the epoch, or the run, has had its last step."""
        return self._position.step == self._plan.per_epoch or self._position.steps == self._plan.steps

    def _order(self) -> None:
        if self._plan.shuffle:
            order = permutation(self._plan.seed, self._position.epoch, len(self._rows))
            self._ordered = self._rows.permuted(order)

    def _step(self) -> StepEnd:
        position = self._position
        if position.step == 0:
            self._states.reset_epoch()
        first = position.step * self._plan.batch
        count = min(self._plan.batch, len(self._rows) - first)
        try:
            fetched = self._make_step(self._ordered, first)
        except NonFinite as error:
            fed = self._ordered.named(first, count)
            raise NonFinite(f"step {position.steps + 1}: {error}{fed}", error.step) from None
        position.step += 1
        position.steps += 1
        metrics = self._totals.add(fetched, count)
        position.sums, position.summed_rows = self._totals.sums, self._totals.rows
        for name in self._watched:
            if not math.isfinite(metrics[name]):
                raise NonFinite(
                    f"step {position.steps}: {name} is {metrics[name]}; a lower learning rate or clipping may help, "
                    "and --check-nan, or check_nan=True in Python, names the op that makes the first one"
                )
        return StepEnd(position.epoch + 1, position.steps, metrics)

    def _close(self) -> Iterator[Event]:
        """Combine the epoch's metrics, evaluate if it is time, and begin the next epoch."""
        position, plan = self._position, self._plan
        epoch = position.epoch + 1
        metrics = self._totals.result()
        evaluation = None
        if plan.evaluate is not None and (epoch % plan.evaluate.every == 0 or position.steps == plan.steps):
            evaluation = self._evaluate(self._pause)
        with self._states.turns.alone():
            events = self._closed(metrics, evaluation)
        yield from events
        if plan.every is None or position.steps % plan.every == 0:
            yield from self._write_checkpoint()  # which has what these events say: who keeps them has them now

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
        if evaluation is not None and plan.evaluate is not None:
            best = self._judge(evaluation)
            entry, split = plan.evaluate.entry, plan.evaluate.split
            events.append(EvaluationEnd(epoch, position.steps, entry, split, evaluation, best))
        return events

    def _judge(self, evaluation: Metrics) -> bool:
        """Keep the states if they are the best; count how long they were not."""
        position, keep = self._position, self._plan.keep_best
        position.evaluation = evaluation
        if keep is None:
            return False
        if keep.metric not in evaluation:
            raise UsageError(f"the run keeps the best {keep.metric!r}, which is no scalar of the evaluation")
        value, best = evaluation[keep.metric], position.best_metric
        sign = 1 if keep.direction == pb.DIRECTION_MAX else -1
        is_best = not math.isnan(value) and (best is None or sign * value > sign * best)
        if is_best:
            position.best_metric, position.best_evaluation, position.stale = value, evaluation, 0
            position.best_at = position.epoch, position.step, position.steps
            _copy_into(position.best, self._states.arrays)
        else:
            position.stale += 1
        position.stopped = 0 < self._plan.stop_after <= position.stale
        return is_best

    def _write_checkpoint(self) -> list[CheckpointWritten]:
        """A checkpoint, unless there are none or the last one is of this very position."""
        now = self._position.steps, self._position.closed
        if self._checkpoint is None or now == self._saved_at:
            return []
        written = self._checkpoint()
        self._saved_at = now
        return [written]

    def _say_what_waits(self) -> None:
        """Warn of gradients that made no update; they are in the states, so a run that goes on loses nothing."""
        waiting = [name for name in self._states.sums if self._states.arrays[name].any()]
        if waiting:
            _log.warning(
                "the run ends after %d steps, between two updates: the gradients since the last one wait in %s; "
                "train for a multiple of the steps that make one update, or go on",
                self._position.steps,
                waiting[0] if len(waiting) == 1 else f"{waiting[0]} and {len(waiting) - 1} more",
            )

    def _restore_best(self) -> None:
        """Go back to the best states, and to where the run stood with them."""
        position = self._position
        position.reached = position.steps
        if not position.best:
            return
        for name, array in position.best.items():
            np.copyto(self._states.arrays[name], array)
        if position.best_at != (position.epoch, position.step, position.steps):
            position.epoch, position.step, position.steps = position.best_at
            position.sums, position.summed_rows = {}, 0
        position.closed, position.evaluation = position.steps, position.best_evaluation
        position.stale, position.stopped = 0, False


def last_batch(
    rows: Rows, bindings: Sequence[BoundEntry], remainder: pb.Remainder | None, split: str
) -> BoundEntry | None:
    """What makes the last step of an epoch if that has fewer rows than the others; None if there is no such step.

    A program that says nothing of data (remainder None) takes rows as the steps come that it has.

    Raises DataError if the rows make no step, or leave rows where there must be none left or no step takes them.
    """
    batch = bindings[0].rows
    count, left = divmod(len(rows), batch)
    last = next((bound for bound in bindings if bound.rows == left), None)
    if left and last is not None and remainder in (None, pb.REMAINDER_PARTIAL):
        return last
    here = f"the split {split!r} has {len(rows)} rows"
    if left and remainder == pb.REMAINDER_PARTIAL:
        raise DataError(
            f"{here}, steps of {batch} leave {left} of them, and the program has no step of {left}; "
            f"compile it anew beside this data, or with both sizes, as in batch=({batch}, {left})"
        )
    if not count:
        raise DataError(f"{here}, a step takes {batch}")
    if left and remainder != pb.REMAINDER_DROP:
        raise DataError(f"{here}, and steps of {batch} leave {left} of them")
    if left:
        _log.info("%d of %d rows do not fill a step of %d and are left out of each epoch", left, len(rows), batch)
    return None


def _copy_into(copies: dict[str, Array], arrays: dict[str, Array]) -> None:
    for name, array in arrays.items():
        if name in copies:
            np.copyto(copies[name], array)
        else:
            copies[name] = array.copy()
