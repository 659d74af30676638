"""The set-up of a training run, from program and options to events."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.engines.engine import Executor, InMemory, Repeat
from runtime.entries import BoundEntry
from runtime.rows.orders import ShuffledBySteps
from runtime.rows.rows import SHUFFLING_BYTES, Rows
from runtime.runs.checkpoints.checkpoint import write_checkpoint
from runtime.runs.checkpoints.checkpoint_folder import CheckpointFolder
from runtime.runs.checkpoints.continuation import continued, is_at_end
from runtime.runs.checkpoints.same_rows import fingerprints, require_same_rows
from runtime.runs.course import Course, Plan, TrainingOptions, course_of
from runtime.runs.evaluation import run_over
from runtime.runs.events import CheckpointWritten, Event
from runtime.runs.interrupts import Interrupts
from runtime.runs.metrics import Metrics, scalar_fetches
from runtime.runs.session import Session
from runtime.runs.standing import Standing
from runtime.runs.training import Callbacks, RunSteps, Training
from runtime.runs.watching.judge import begin_judging, is_still_stopped

if TYPE_CHECKING:
    from runtime.rows.streamed import Streamed

    AnyRows = Rows | Streamed

RunStep = Callable[["AnyRows", int], Mapping[str, Array]]
Made = tuple[Executor, "AnyRows", Repeat | None]
Fill = Callable[["AnyRows", Mapping[str, Array], int, int], None]


def begin_training(
    session: Session, standing: Standing, options: TrainingOptions, between: Callable[[], None] | None
) -> Generator[Event]:
    """Set up a training and yield its events; check everything that can be checked in advance now.

    `between` is called between steps; unless it is given, interrupts act there.
    """
    if between is not None:
        return (event for bunch in _begun(session, standing, options, between) for event in bunch)
    interrupts = Interrupts()
    return _interruptible(_begun(session, standing, options, interrupts.check), interrupts)


def _interruptible(bunches: Iterator[Sequence[Event]], interrupts: Interrupts) -> Generator[Event]:
    """Yield the events; an interrupt while the next ones are made waits until the states are whole."""
    while True:
        with interrupts:
            bunch = next(bunches, None)
        if bunch is None:
            interrupts.check()
            return
        yield from bunch


def _begun(
    session: Session, standing: Standing, options: TrainingOptions, between: Callable[[], None]
) -> Iterator[Sequence[Event]]:
    session.states.require()  # all states: checkpoints have all
    course = course_of(session, options)
    rows_sha256 = fingerprints(course.rows, course.evaluated, shuffled=course.plan.shuffle)
    course = continued(session, standing, options, course, rows_sha256)
    plan, position = course.plan, standing.position
    position.stopped = is_still_stopped(plan, position)
    if is_at_end(standing, plan.steps) and standing.done:  # trained to its end in this process
        return iter(())
    begin_judging(plan, position)
    if not isinstance(course.rows, Rows) and position.cursor is not None:
        course.rows.seek(position.cursor)
    if position.steps:
        position.require_fitting(plan.per_epoch, [fetch.name for fetch in scalar_fetches(course.bindings[0])])
    require_same_rows(session, position, rows_sha256, change=options.change_data)
    if session.group is not None:
        from runtime.ranks.agree import require_alike  # few runs have several processes

        require_alike(session.group, {"the rows": " ".join(position.rows_sha256.values())})
    evaluate = _evaluation(session, plan.evaluate, course.evaluated)
    standing.stops = False
    standing.evaluates = "" if plan.evaluate is None else plan.evaluate.entry
    folder = _folder(session, options)
    session.finite.begin()
    with _claimed(session, standing, folder, force=options.force):
        fill, end = _filling(session, course.rows)
        step = _steps_of(session, standing, course, options.fetch, fill)
        write = _checkpoints_of(session, standing, folder, options.before_checkpoint)
        write = None if options.checkpoint is None else write
        watched = _watched(course.bindings[0], standing.fetched)
        callbacks = Callbacks(
            step,
            _steps_at_once(session, standing, course, options.fetch),
            evaluate,
            write,
            lambda: standing.stops,
            session.finite.fault,
            between,
        )
        training = Training(course, session.states, position, watched, callbacks, session.memory)
    return _until_done(standing, plan, training, folder, end)


def _folder(session: Session, options: TrainingOptions) -> CheckpointFolder | None:
    """Return the folder for checkpoints; None without, and for ranks but the first."""
    if options.checkpoint is None or (session.group is not None and session.group.rank):
        return None
    return CheckpointFolder(options.checkpoint, keep=options.keep)


@contextmanager
def _claimed(session: Session, standing: Standing, folder: CheckpointFolder | None, *, force: bool) -> Generator[None]:
    """Claim the folder for the run, and release it if the rest of the set-up fails."""
    if folder is None:
        yield
        return
    place = os.path.realpath(folder.path)
    folder.claim(session.sha256, standing.position.steps if standing.home == place else None, force=force)
    try:
        yield
    except BaseException:
        folder.release()
        raise
    standing.home = place


def _filling(session: Session, rows: AnyRows) -> tuple[Fill, Callable[[], None]]:
    """Return a function that fills feeds with `count` rows from a position on, and a function to call at the end."""
    if not isinstance(rows, Rows) or not rows.stored:
        return lambda rows, feeds, start, count: rows.fill(feeds, start), lambda: None
    from runtime.rows.read_ahead import ReadAhead  # few runs have large files, and the import costs start-up time

    ahead = ReadAhead(session.memory)
    return ahead.fill, ahead.close


def _steps_of(session: Session, standing: Standing, course: Course, fetch: Sequence[str], fill: Fill) -> RunStep:
    """Return a function that makes a step with the rows from a position on; all memory of the training is taken now."""
    bindings, lengths, rows, plan, _ = course
    first = bindings[0]
    more = session.tensors(first, fetch)
    for bound in [*bindings[1:], *lengths]:
        session.tensors(bound, fetch)  # the parts that passes have left of it may have other tensors
    if plan.keep_best is not None and plan.restore_best and not standing.keeps_best:
        session.memory.take(session.states.changed_bytes, "the best states")
        standing.keeps_best = True
    if plan.shuffle and not plan.window:
        session.memory.take_for(rows, len(rows) * SHUFFLING_BYTES, "the order of the rows")
    with session.workspaces.lent([*bindings, *lengths], more) as lent:
        standing.fetched = lent.executor(first, more).fetches

    def step(rows: AnyRows, start: int) -> Mapping[str, Array]:
        bound = _bound_at(course, rows, start)
        with session.workspaces.lent([bound], more) as lent:
            executor = lent.executor(bound, more)
            fill(rows, executor.feeds, start, bound.rows)
            session.stepper.step(executor, trains=True)
            standing.fetched = executor.fetches
            return executor.fetches

    return step


def _bound_at(course: Course, rows: AnyRows, start: int) -> BoundEntry:
    """Return the bound entry for the step with the rows from a position on."""
    first = course.bindings[0]
    if len(rows) - start < first.rows:
        return course.bindings[-1]
    order = rows.order if isinstance(rows, Rows) else None
    return course.lengths[order.bucket_at(start)] if isinstance(order, ShuffledBySteps) else first


def _steps_at_once(session: Session, standing: Standing, course: Course, fetch: Sequence[str]) -> RunSteps:
    """Return a function that makes many steps from a position on, if the engine reads rows by itself."""
    first = course.bindings[0]
    more = session.tensors(first, fetch)
    names = [fetch.name for fetch in scalar_fetches(first)]
    last: Made | None = None

    def steps(rows: AnyRows, start: int, count: int) -> Mapping[str, Array] | None:
        nonlocal last
        if session.stepper.trace is not None or not isinstance(rows, Rows) or not rows.in_memory:
            return None
        with session.workspaces.lent([first], more) as lent:
            executor = lent.executor(first, more)
            if last is None or last[0] is not executor or last[1] is not rows:
                columns = {name: column for name, column in rows.columns.items() if isinstance(column, np.ndarray)}
                last = executor, rows, executor.repeated(InMemory(columns, rows.whole, rows.numbers), names)
            repeat = last[2]
            if repeat is None:
                return None
            kept: dict[str, Array] = {}
            session.stepper.call(lambda: kept.update(repeat(start, count)), trains=True)
            standing.fetched = executor.fetches
            return kept

    return steps


def _checkpoints_of(
    session: Session, standing: Standing, folder: CheckpointFolder | None, before: Callable[[], None] | None
) -> Callable[[], CheckpointWritten]:
    """Return a function that writes a checkpoint into the folder; without one, another rank of the run writes it."""

    def write() -> CheckpointWritten:
        if before is not None:
            before()
        position, path = standing.position, Path()
        if session.group is not None:
            session.group.require_equal(session.states.sha256(), f"after step {position.steps}")
        with session.states.locks.shared():
            if folder is not None:
                path = folder.write(session.program, session.sha256, session.states, position)
            elif session.states.pieces is not None:
                write_checkpoint(path, session.program, session.sha256, session.states, position)
        return CheckpointWritten(position.epoch + (position.step > 0), position.steps, path)

    return write


def _until_done(
    standing: Standing, plan: Plan, training: Training, folder: CheckpointFolder | None, end: Callable[[], None]
) -> Generator[Sequence[Event]]:
    try:
        yield from training.events()
        standing.done = 0 if standing.stops else plan.steps
    finally:
        end()
        if folder is not None:
            folder.release()


def _watched(bound: BoundEntry, fetched: Mapping[str, Array]) -> list[str]:
    """Return the metrics that must be finite: the loss, or every float metric if none has that name."""
    floats = [f.name for f in scalar_fetches(bound) if fetched[f.name].dtype.kind == "f"]
    return ["loss"] if "loss" in floats else floats


def _evaluation(
    session: Session, desc: pb.EvaluateDesc | None, rows: Rows | None
) -> Callable[[Callable[[], None]], Metrics]:
    """Return a function that evaluates the current states.

    The rows are read now, so faults show before the first step.
    """
    if desc is None or rows is None:
        return lambda between: {}
    entry = desc.entry
    return lambda between: run_over(session, entry, rows, between=between).metrics
