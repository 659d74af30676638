"""What to train, how long and on which rows: from what the program says and what was asked."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.entries import BoundEntry
from runtime.errors import DataError, UsageError
from runtime.rows.by_feed import by_feed
from runtime.rows.rows import Rows
from runtime.runs.session import Session

if TYPE_CHECKING:
    from runtime.rows.source import Batches, Source
    from runtime.rows.streamed import Streamed

_log = logging.getLogger("prograd")


class TrainingOptions(NamedTuple):
    """What can be asked of a training run.

    Attributes:
        entry: to train; the one that the program runs unless given.
        epochs: in all; the program's unless given, else 1.
        steps: in all, in place of epochs.
        data: another split, or an array per feed in place of the program's rows, which are then taken in order; or an
            iterator of such mappings, a function that gives one, or a `Source`: see docs/data.md.
        steps_per_epoch: of a source, whose length nobody knows; all steps are one epoch unless given.
        fetch: tensors to fetch besides the entry's own; `Run.fetched` has them after the last step.
        checkpoint: a folder for checkpoints.
        every: steps between two of them; at the end of each epoch unless given.
        keep: how many stay.
        force: remove the checkpoints of another run from the folder, or later ones than that at which the run stands.
        change_data: go on from a checkpoint with other rows than those that the run began with.
        before_checkpoint: called before a checkpoint is written, when all events before it were taken: what has to be
            on the disk with it, such as a file of metrics, is to be there then.
        ahead: so many steps at most may be made before the first of their events is given, where the engine makes
            several at once; the states are then those after the last of them. With 1 they are those of the event.
        retarget_schedule: go on although the run had another number of steps in all, which schedules depend on.
    """

    entry: str | None = None
    epochs: int | None = None
    steps: int | None = None
    data: str | Mapping[str, object] | Source | Batches | Callable[[], Batches] | None = None
    fetch: Sequence[str] = ()
    checkpoint: str | os.PathLike[str] | None = None
    every: int | None = None
    keep: int = 3
    force: bool = False
    ahead: int = 1
    retarget_schedule: bool = False
    change_data: bool = False
    before_checkpoint: Callable[[], None] | None = None
    steps_per_epoch: int | None = None


class Plan(NamedTuple):
    """How long to train and what to do on the way."""

    steps: int  # in all
    batch: int  # rows a step, but for the last of an epoch
    per_epoch: int  # steps
    seed: int  # of the order of rows
    shuffle: bool
    window: int  # of rows that are shuffled together, 0 for all
    evaluate: pb.EvaluateDesc | None
    keep_best: pb.KeepBestDesc | None
    stop_after: int  # evaluations without improvement, 0 for never
    every: int | None  # steps between checkpoints; None: at the end of each epoch
    ahead: int  # steps that may be made before their events are given


class Course(NamedTuple):
    """What a training run goes through.

    Attributes:
        bindings: of the entry, that of all steps first, and last that of the last step of an epoch if it is another.
        lengths: where steps are of several lengths, the binding of each, the shortest first; else that of all steps.
        rows: to train on, before shuffling.
        plan: how long, and what on the way.
    """

    bindings: list[BoundEntry]
    lengths: list[BoundEntry]
    rows: Rows | Streamed
    plan: Plan


def course_of(session: Session, options: TrainingOptions) -> Course:
    """What was asked of a program. Raises UsageError or DataError where that contradicts itself, or the rows."""
    _require_sane(options)
    program = session.program
    entry = options.entry or session.training_entry()
    desc = program.run if program.run.entry == entry else pb.RunDesc()
    split = options.data if isinstance(options.data, str) else desc.split or "train"
    asked = by_feed(options.data)
    data = cast(Mapping[str, object], asked) if isinstance(asked, Mapping) else split
    if asked is None or isinstance(asked, str | Mapping):
        bindings, lengths, rows = session.steps(entry, session.rows(entry, data))
    else:
        bindings = session.bindings(entry)
        lengths, rows = bindings[:1], _streamed(asked, bindings[0], options, desc.epochs)
    first = bindings[0]
    if not session.trains(first):
        raise UsageError(
            f"the entry {entry!r} updates no state, so there is nothing to train; "
            "call minimize on the Program before you compile it"
        )
    own_rows = (asked is None or isinstance(asked, str)) and bool(first.feeds)
    remainder = program.data.remainder if session.data.exists else None
    last = last_batch(rows, bindings, remainder, split if own_rows else None)
    per_epoch = len(rows) // first.rows + (last is not None)
    plan = Plan(
        steps=options.steps or _steps(options.epochs or desc.epochs or 1, per_epoch),
        batch=first.rows,
        per_epoch=per_epoch,
        seed=int(session.states.arrays["seed"]),
        shuffle=own_rows and program.data.shuffle,
        window=program.data.shuffle_rows,
        evaluate=desc.evaluate if desc.HasField("evaluate") else None,
        keep_best=desc.keep_best if desc.HasField("keep_best") else None,
        stop_after=desc.stop_after,
        every=options.every,
        ahead=options.ahead,
    )
    if plan.shuffle and plan.window and len(lengths) > 1:
        _log.info("rows of unequal length are shuffled all together, not within windows of %d rows", plan.window)
    return Course([first] if last is None else [first, last], lengths, rows, plan)


def last_batch(
    rows: Rows | Streamed, bindings: Sequence[BoundEntry], remainder: pb.Remainder | None, split: str | None
) -> BoundEntry | None:
    """What makes the last step of an epoch if that has fewer rows than the others; None if there is no such step.

    A program that says nothing of data (remainder None) takes rows as the steps come that it has. Rows that are given,
    and of no split, have none.

    Raises DataError if the rows make no step, or leave rows where there must be none left or no step takes them.
    """
    batch = bindings[0].rows
    count, left = divmod(len(rows), batch)
    last = next((bound for bound in bindings if bound.rows == left), None)
    if left and last is not None and remainder in (None, pb.REMAINDER_PARTIAL):
        return last
    here = f"{len(rows)} rows are given" if split is None else f"the split {split!r} has {len(rows)} rows"
    if left and remainder == pb.REMAINDER_PARTIAL:
        raise DataError(
            f"{here}, steps of {batch} leave {left} of them, and the program has no step of {left}; "
            f"compile it anew beside this data, or with both sizes, as in batch=({batch}, {left})"
        )
    if not count:
        raise DataError(f"{here}, a step takes {batch}")
    if left and remainder != pb.REMAINDER_DROP:
        how = f"; give {count * batch}, or compile the program for both sizes, as in batch=({batch}, {left})"
        raise DataError(f"{here}, and steps of {batch} leave {left} of them{how if split is None else ''}")
    if left:
        _log.info("%d of %d rows do not fill a step of %d and are left out of each epoch", left, len(rows), batch)
    return None


def _streamed(data: object, first: BoundEntry, options: TrainingOptions, epochs: int) -> Streamed:
    """The rows of a source, an epoch of which has the steps that were asked for."""
    from runtime.rows.source import as_source  # for who has one: start-up time
    from runtime.rows.streamed import Streamed

    source = as_source(data)
    per_epoch = options.steps_per_epoch or options.steps
    if per_epoch is None or not (options.steps or options.epochs or epochs):
        raise UsageError(
            "a source does not say how many rows it has; say how long to train by steps=, "
            "or by steps_per_epoch= and epochs="
        )
    return Streamed(first, source, per_epoch * first.rows)


def _require_sane(options: TrainingOptions) -> None:
    if not isinstance(options.checkpoint, str | os.PathLike | None):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        raise UsageError(
            f"checkpoint={options.checkpoint!r}: it is the path of a folder; "
            "every= says how many steps there are between checkpoints"
        )
    for name in ("epochs", "steps", "every", "ahead", "steps_per_epoch", "keep"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, int | np.integer):
            raise UsageError(f"{name}={value!r}: it is a whole number")
        if value is not None and value < 1 and name != "keep":  # the folder of checkpoints has a sentence for it
            raise UsageError(f"{name}={value}: it starts at 1")
    if options.steps_per_epoch is not None and isinstance(by_feed(options.data), str | Mapping | None):
        raise UsageError("steps_per_epoch belongs to a source of rows; these have a length, which says it")
    if options.epochs is not None and options.steps is not None:
        raise UsageError("epochs and steps both say how long to train; give one of them")


def _steps(epochs: int, per_epoch: int) -> int:
    """The steps of all epochs, which the counter `total_steps` must be able to hold."""
    if epochs * per_epoch >= 1 << 63:
        raise UsageError(f"{epochs} epochs of {per_epoch} steps are more steps than 64 bits count")
    return epochs * per_epoch
