"""The judgement of a run by its metrics: the best states, the early end, and rates that are reduced.

1. A run judges after each evaluation, or at the end of each epoch if it does not evaluate.
2. A better value of the metric of `keep_best` keeps a copy of the states, which the end of the run restores. No value
   is better where the loss is NaN or Inf: an accuracy of scores that are NaN is finite and means nothing.
3. The run ends early after as many values without improvement as its patience.
4. Each plateau multiplies its state after as many values without improvement as its own patience.

Everything that this needs later is in the position of the run and in its states, so a run resumes bit for bit.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.runs.metrics import Metrics, Number
from runtime.runs.position import Position
from runtime.runs.states import States
from runtime.runs.watching.watches import Plateau, Watch, is_better, metric_value

if TYPE_CHECKING:
    from runtime.runs.course import Plan

STOP: Final = ":stop"
"""Name of the watch of the early end; no state has a name with a colon."""

_log = logging.getLogger("prograd")


def is_still_stopped(plan: Plan, position: Position) -> bool:
    """Return True if a run ended early and would do so by the patience of this plan, too."""
    return position.stopped and 0 < plan.stop.patience() <= position.stale


def judges(plateaus: Iterable[tuple[str, str, bool]], keep: tuple[str, bool] | None) -> dict[str, str]:
    """Return the metric and the better direction of each watch of (state, metric, higher), and under "" of `keep`."""
    made = {state: _by(metric, higher=higher) for state, metric, higher in plateaus}
    return made if keep is None else made | {"": _by(keep[0], higher=keep[1])}


def begin_judging(plan: Plan, position: Position) -> None:
    """Forget best states and values that were judged by other metrics than those of the plan, and warn of lost states.

    A callback of an earlier call may have kept them, which this call has not, or has for another metric.
    """
    keep = plan.keep_best
    asked = judges(
        [(plateau.state, plateau.metric, plateau.higher) for plateau in plan.plateaus],
        None if keep is None else (keep.metric, keep.direction == pb.DIRECTION_MAX),
    )
    before = position.judged_by
    if asked.get("", "") != before.get("", asked.get("", "")):
        _forget_best(position, before.get(""), asked.get(""))
    if not plan.restore_best:
        position.best = {}
    for state in before.keys() & asked.keys():
        if state and before[state] != asked[state]:
            position.watches.pop(state, None)
    position.judged_by = {name: by for name, by in before.items() if name} | asked


def _forget_best(position: Position, before: str | None, now: str | None) -> None:
    if position.best and position.best_at != (position.epoch, position.step, position.steps):
        _log.warning(
            "the run kept the states of step %d, which have the best %s, and %s from here on; those are forgotten",
            *(position.best_at[2], before, f"judges by {now}" if now else "keeps no best states"),
        )
    position.forget_best()
    position.watches.pop(STOP, None)


def _by(metric: str, *, higher: bool) -> str:
    return f"{metric} ({'max' if higher else 'min'})"


class Judge:
    """The judge of one training; it changes the states and the position."""

    def __init__(self, plan: Plan, states: States, position: Position) -> None:
        self._plan = plan
        self._states = states
        self._position = position

    def take(self, metrics: Metrics, evaluation: Metrics | None) -> bool:
        """Take the metrics of an epoch and its evaluation; return True if these states are the best so far.

        Raises UsageError for a metric that is no scalar of either.
        """
        position, plan = self._position, self._plan
        if evaluation is not None:
            position.evaluation = evaluation
        elif plan.evaluate is not None or (not plan.keep_best and not plan.plateaus):
            return False
        position.judged = position.steps
        is_sound = math.isfinite((metrics if evaluation is None else evaluation).get("loss", 0.0))
        for plateau in plan.plateaus:
            value = metric_value(plateau.metric, metrics, evaluation, plan.entries)
            self._reduce(plateau, value if is_sound else math.nan)
        if plan.keep_best is None:
            return False
        value = metric_value(plan.keep_best.metric, metrics, evaluation, plan.entries)
        value = value if is_sound else math.nan
        higher = plan.keep_best.direction == pb.DIRECTION_MAX
        if plan.best_checkpoints and not math.isnan(value):
            ranked = sorted([*position.top, (value, position.steps)], key=lambda pair: -pair[0] if higher else pair[0])
            position.top = ranked[: plan.best_checkpoints]  # of equal values, the earlier one comes first
        return self._keep_if_best(value, evaluation or {}, higher=higher)

    def end(self) -> None:
        """Report the states that the run ends with, and restore the best ones if they are kept."""
        position, keep = self._position, self._plan.keep_best
        if keep is not None and position.stopped:
            _log.info("ended early: %s was not better in the last %d evaluations", keep.metric, position.stale)
        if position.best and position.best_at != (position.epoch, position.step, position.steps):
            _log.info("%s", self.kept())
        self.restore()

    def kept(self) -> str:
        """Return a clause about the best states, which `restore` restores; "" if none are kept."""
        position, keep = self._position, self._plan.keep_best
        if keep is None or not position.best:
            return ""
        epoch, step, steps = position.best_at
        value = f"{keep.metric}: {position.best_metric:.4g}"
        return f"the run ends with the states of epoch {epoch + (step > 0)}, step {steps}, which have the best {value}"

    def _keep_if_best(self, value: Number, evaluation: Metrics, *, higher: bool) -> bool:
        position, plan = self._position, self._plan
        is_best = is_better(value, position.best_metric, higher=higher)
        if is_best:
            position.best_metric, position.best_evaluation = value, evaluation
            position.best_at = position.epoch, position.step, position.steps
            position.best_cursor = position.cursor
            if plan.restore_best:
                _copy_into(position.best, self._states)
        improved, delta = is_best, plan.stop.min_delta()
        if delta > 0:
            watch = position.watches.setdefault(STOP, Watch())
            improved = watch.take(value, higher=higher, min_delta=delta)
        position.stale = 0 if improved else position.stale + 1
        position.stopped = 0 < plan.stop.patience() <= position.stale
        return is_best

    def _reduce(self, plateau: Plateau, value: Number) -> None:
        """Count a value, and multiply the plateau's state if its patience is at an end."""
        watch = self._position.watches.setdefault(plateau.state, Watch())
        watch.take(value, higher=plateau.higher, min_delta=plateau.min_delta())
        if watch.wait < plateau.patience():
            return
        state = self._states.arrays[plateau.state]
        before = state.item()
        state[...] = max(before * plateau.factor(), min(plateau.least, before))
        _log.info(
            "%s was not better in the last %d: %s is %.4g from step %d on, before it was %.4g",
            plateau.metric,
            watch.wait,
            plateau.state,
            state.item(),
            self._position.steps + 1,
            before,
        )
        watch.wait, watch.cooldown = 0, int(plateau.cooldown())

    def restore(self) -> None:
        """Restore the best states and the position of the run at that time, if they are kept."""
        position = self._position
        position.reached = position.steps
        if not position.best:
            return
        self._states.restore(self._states.fixed - position.best.keys())
        for name, array in position.best.items():
            self._states.put(name, array)
        if position.best_at != (position.epoch, position.step, position.steps):
            position.epoch, position.step, position.steps = position.best_at
            position.cursor = position.best_cursor
            position.sums, position.summed_rows = {}, 0
        position.closed, position.evaluation = position.steps, position.best_evaluation
        position.stale, position.stopped = 0, False
        for watch in position.watches.values():
            watch.wait = watch.cooldown = 0


def _copy_into(copies: dict[str, Array], states: States) -> None:
    """Copy the states but for those that have the values of the program's files."""
    for name in states.unchanged & copies.keys():
        del copies[name]
    for name, array in states.arrays.items():
        if name in states.unchanged:
            continue
        if name in copies:
            np.copyto(copies[name], array)
        else:
            copies[name] = array.copy()
