"""From what the program says and what was asked to a training run that is ready to go."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.errors import DataError, UsageError
from runtime.kernel import Array
from runtime.rows.rows import SHUFFLING_BYTES, Rows
from runtime.runs.checkpoint_folder import CheckpointFolder
from runtime.runs.events import CheckpointWritten, Event
from runtime.runs.metrics import Metrics, Totals, scalar_fetches
from runtime.runs.training import Plan, Training, last_batch

if TYPE_CHECKING:
    from runtime.runs.run import Run  # which calls this file


class TrainingOptions(NamedTuple):
    """What can be asked of a training run.

    Attributes:
        entry: to train; the one that the program runs unless given.
        epochs: in all; the program's unless given, else 1.
        steps: in all, in place of epochs.
        data: another split, or an array per feed in place of the program's rows, which are then taken in order.
        fetch: tensors to fetch besides the entry's own; `Run.fetched` has them after the last step.
        checkpoint: a folder for checkpoints.
        every: steps between two of them; at the end of each epoch unless given.
        keep: how many stay.
        force: remove the checkpoints of another run from the folder, or later ones than that at which the run stands.
        before_checkpoint: called before a checkpoint is written, when all events before it were taken: what has to be
            on the disk with it, such as a file of metrics, is to be there then.
        retarget_schedule: go on although the run had another number of steps in all, which schedules depend on.
    """

    entry: str | None = None
    epochs: int | None = None
    steps: int | None = None
    data: str | Mapping[str, object] | None = None
    fetch: Sequence[str] = ()
    checkpoint: str | os.PathLike[str] | None = None
    every: int | None = None
    keep: int = 3
    force: bool = False
    retarget_schedule: bool = False
    before_checkpoint: Callable[[], None] | None = None


def begin_training(run: Run, options: TrainingOptions, between: Callable[[], None]) -> Generator[Event]:
    """Set the run up and give its events; everything that can be wrong beforehand is found now."""
    _require_sane(options)
    entry = options.entry or run.training_entry()
    bindings = run.bindings(entry)
    bound = bindings[0]
    desc = run.program.run if run.program.run.entry == entry else pb.RunDesc()
    split = options.data if isinstance(options.data, str) else desc.split or "train"
    rows = run.rows(entry, options.data if isinstance(options.data, Mapping) else split)
    own_rows = not isinstance(options.data, Mapping) and bool(bound.feeds)
    remainder = run.program.data.remainder if run.data.exists else None
    last = last_batch(rows, bindings, remainder, split)
    per_epoch = len(rows) // bound.rows + (last is not None)
    plan = Plan(
        steps=options.steps or _steps(options.epochs or desc.epochs or 1, per_epoch),
        batch=bound.rows,
        per_epoch=per_epoch,
        seed=int(run.states.arrays["seed"]),
        shuffle=own_rows and run.program.data.shuffle,
        evaluate=desc.evaluate if desc.HasField("evaluate") else None,
        keep_best=desc.keep_best if desc.HasField("keep_best") else None,
        stop_after=desc.stop_after,
        every=options.every,
    )
    _check_position(run, rows, plan, options)
    if run.done == plan.steps:  # trained to its end in this process
        return _nothing()
    if run.position.steps:
        run.position.require_fitting(per_epoch, [fetch.name for fetch in scalar_fetches(bound)])
    evaluate = _evaluation(run, plan.evaluate)
    folder = None if options.checkpoint is None else CheckpointFolder(options.checkpoint, keep=options.keep)
    with _claimed(run, folder, force=options.force):
        training = _training(
            run, [bound] if last is None else [bound, last], rows, plan, options, evaluate, folder, between
        )
    return _until_done(run, plan, training, folder)


@contextmanager
def _claimed(run: Run, folder: CheckpointFolder | None, *, force: bool) -> Generator[None]:
    """Claim the folder for the run, and release it if what else there is to do fails."""
    if folder is None:
        yield
        return
    place = os.path.realpath(folder.path)
    folder.claim(run.sha256, run.position.steps if run.home == place else None, force=force)
    try:
        yield
    except BaseException:
        folder.release()
        raise
    run.home = place


def _training(
    run: Run,
    bindings: Sequence[BoundEntry],
    rows: Rows,
    plan: Plan,
    options: TrainingOptions,
    evaluate: Callable[[Callable[[], None]], Metrics],
    folder: CheckpointFolder | None,
    between: Callable[[], None],
) -> Training:
    first = bindings[0]
    fetch = run.tensors(first, options.fetch)
    for bound in bindings[1:]:
        run.tensors(bound, options.fetch)  # what passes left of it there may have other tensors
    if plan.keep_best is not None and not run.keeps_best:
        run.memory.take(run.states.nbytes, "the best states")
        run.keeps_best = True
    if plan.shuffle:
        run.memory.take_for(rows, len(rows) * SHUFFLING_BYTES, "the order of the rows")
    with run.workspaces.lent(bindings, fetch) as lent:
        run.fetched = lent.executor(first, fetch).fetches

    def step(rows: Rows, start: int) -> Mapping[str, Array]:
        bound = first if len(rows) - start >= first.rows else bindings[-1]
        with run.workspaces.lent([bound], fetch) as lent:
            executor = lent.executor(bound, fetch)
            rows.fill(executor.feeds, start)
            run.stepper.step(executor)
            run.fetched = executor.fetches
            return executor.fetches

    def checkpoint() -> CheckpointWritten:
        assert folder is not None, "only called with a folder"
        if options.before_checkpoint is not None:
            options.before_checkpoint()
        with run.states.turns.together():
            path = folder.write(run.program, run.sha256, run.states, run.position)
        epoch = run.position.epoch + (run.position.step > 0)
        return CheckpointWritten(epoch, run.position.steps, path)

    return Training(
        step,
        _watched(first, run.fetched),
        run.states,
        rows,
        run.position,
        plan,
        Totals(scalar_fetches(first)),
        evaluate,
        checkpoint if folder is not None else None,
        between,
    )


def _until_done(run: Run, plan: Plan, training: Training, folder: CheckpointFolder | None) -> Generator[Event]:
    try:
        yield from training.events()
        run.done = plan.steps
    finally:
        if folder is not None:
            folder.release()


def _nothing() -> Generator[Event]:
    yield from ()


def _watched(bound: BoundEntry, fetched: Mapping[str, Array]) -> list[str]:
    """The metrics that must be finite: the loss, or every float where none has that name."""
    floats = [f.name for f in scalar_fetches(bound) if fetched[f.name].dtype.kind == "f"]
    return ["loss"] if "loss" in floats else floats


def _require_sane(options: TrainingOptions) -> None:
    for name in ("epochs", "steps", "every"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"{name}={value}: it starts at 1")
    if options.epochs is not None and options.steps is not None:
        raise UsageError("epochs and steps both say how long to train; give one of them")


def _steps(epochs: int, per_epoch: int) -> int:
    """The steps of all epochs, which the counter `total_steps` must be able to hold."""
    if epochs * per_epoch >= 1 << 63:
        raise UsageError(f"{epochs} epochs of {per_epoch} steps are more steps than 64 bits count")
    return epochs * per_epoch


def _check_position(run: Run, rows: Rows, plan: Plan, options: TrainingOptions) -> None:
    """A run goes on with the rows and the number of steps that it began with."""
    position, total = run.position, run.states.arrays["total_steps"]
    if not position.steps:
        position.rows = len(rows)
        np.copyto(total, plan.steps)
        return
    if position.rows != len(rows):
        raise DataError(f"the run began with {position.rows} rows per epoch, and there are {len(rows)} now")
    if int(total) == plan.steps:
        return
    if not options.retarget_schedule:
        raise UsageError(
            f"the run began with {int(total)} steps in all, this would be {plan.steps}, which changes schedules; "
            f"train for {int(total)} steps, or retarget the schedule"
        )
    np.copyto(total, plan.steps)
    position.stopped = False


def _evaluation(run: Run, desc: pb.EvaluateDesc | None) -> Callable[[Callable[[], None]], Metrics]:
    """Evaluates the current states; the rows are read now, so that a fault shows before the first step."""
    if desc is None:
        return lambda between: {}
    entry = desc.entry
    rows = run.rows(entry, desc.split)
    return lambda between: run.over(entry, rows, between=between).metrics
