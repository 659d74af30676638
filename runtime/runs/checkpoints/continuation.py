"""The continuation of a run: to the end of its plan, or by a plan for other rows.

1. A plan counts its epochs and steps from its start, which is the start of the run unless a later call began another.
2. A call that names rows goes on with the plan of the call before if these are the same rows and its end was not
   reached. Otherwise it begins a plan at the present position, so its epochs and steps come on top of the earlier ones.
3. A call that names no rows goes on with the plan of the program, and begins it where the call before named rows.
4. A run that was resumed goes on with the plan of its checkpoint. If that is at its end, `change_data` begins another.
5. `retarget_schedule` always goes on with a plan, whose end it moves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from prograd_proto.wording import as_asked
from runtime.errors import DataError, UsageError
from runtime.runs.course import Course, TrainingOptions, require_countable
from runtime.runs.session import Session
from runtime.runs.standing import Standing

_log = logging.getLogger("prograd")


def continued(
    session: Session, standing: Standing, options: TrainingOptions, course: Course, rows_sha256: Mapping[str, str]
) -> Course:
    """Return the course whose plan ends where that of the run does, and set the total number of steps.

    `rows_sha256` are the fingerprints of the rows. Raises DataError or UsageError unless the run goes on with the rows
    and the number of steps that it began with, or may go on with others.
    """
    position, plan = standing.position, course.plan
    total = session.states.arrays["total_steps"]
    begins = _begins_plan(standing, options, int(total), rows_sha256)
    start = position.steps if begins else position.plan_start[1]
    require_countable(start + plan.steps)
    course = course._replace(plan=plan._replace(steps=start + plan.steps))
    depends = any(session.reads_length(bound) for bound in [*course.bindings, *course.lengths])
    if position.steps and position.rows != len(course.rows) and (depends or not begins):
        raise DataError(
            f"the run began with {position.rows} rows per epoch, and there are {len(course.rows)} now; "
            "give those, or load what was trained into a new run"
        )
    if position.steps and int(total) != course.plan.steps:
        if depends and not options.retarget_schedule:
            raise UsageError(_changes_schedules(int(total), course.plan.steps, begins=begins))
        position.stopped = False
    if not position.steps or options.retarget_schedule or course.plan.steps > position.steps:
        np.copyto(total, course.plan.steps)
    if begins:
        position.begin_plan()
        standing.done = 0
    position.rows = len(course.rows)
    standing.had_rows = options.data is not None
    return course


def is_at_end(standing: Standing, steps: int) -> bool:
    """Return True, and say so, if a run has made all steps of its plan already."""
    position = standing.position
    if not position.steps or not (standing.done == steps or position.steps >= steps or position.stopped):
        return False
    more = as_asked("--epochs", "epochs=")
    level = logging.INFO if more.startswith("--") else logging.WARNING  # a command's result line has the steps, too
    made = max(position.steps, position.reached)
    _log.log(level, "the run is at its end after step %d, so nothing is trained; a larger %s goes on", made, more)
    return True


def _begins_plan(standing: Standing, options: TrainingOptions, total: int, rows_sha256: Mapping[str, str]) -> bool:
    position = standing.position
    if not position.steps or options.retarget_schedule:
        return False
    if options.data is None:
        return standing.had_rows
    is_done = bool(standing.done) or position.steps >= total
    if position.is_resumed:
        return is_done and options.change_data
    return is_done or rows_sha256.get("train") != position.rows_sha256.get("train")


def _changes_schedules(total: int, steps: int, *, begins: bool) -> str:
    began = f"the run began with {total} steps in all, this would be {steps}, which changes schedules; "
    if begins:
        how = "go on with retarget_schedule=True and the epochs of all calls together"
        return f"{began}give the schedule a number of steps of its own, or {how}"
    return f"{began}train for {total} steps, or go on with {as_asked('--retarget-schedule', 'retarget_schedule=True')}"
