"""The entry, length and rows of a training, from the program and the options."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.settings import settings_among
from prograd_proto.wording import as_asked
from runtime.entries import BoundEntry
from runtime.errors import DataError, UsageError
from runtime.rows.rows import Rows
from runtime.runs.metrics import Metrics, scalar_fetches
from runtime.runs.raw.in_memory import (
    data_by_feed,
    feeds_in_order,
    fold_rows,
    is_of_known_length,
    split_rows,
    validation_rows,
)
from runtime.runs.session import Session
from runtime.runs.states import States
from runtime.runs.watching.calls import require_callbacks
from runtime.runs.watching.judged import reduced_settings, with_judged
from runtime.runs.watching.watches import Plateau, Read, Stop, plateaus_of, require_watched, with_entries

if TYPE_CHECKING:
    from runtime.rows.source import Batches, Source
    from runtime.rows.streamed import Streamed
    from runtime.runs.events import Event
    from runtime.runs.watching.called import Called
    from runtime.runs.watching.judged import EarlyStopping, ReduceOnPlateau

_log = logging.getLogger("prograd")

_REMAINDERS: Final[dict[str, pb.Remainder]] = {
    "drop": pb.REMAINDER_DROP,
    "exact": pb.REMAINDER_EXACT,
    "partial": pb.REMAINDER_PARTIAL,
}

MAX_STEPS_AT_ONCE: Final = 4096
"""Upper bound on the steps made at once where nobody looks at the states between two events."""


class TrainingOptions(NamedTuple):
    """Options of a training run.

    Attributes:
        entry: entry to train; by default the one that the program runs.
        epochs: number of epochs; by default the program's, else 1. A call that names its rows by `data` trains that
            many more, unless it goes on with an interrupted call on the same rows; otherwise this is the total.
        steps: number of steps, in place of epochs.
        data: another split; or rows in memory: an array per feed, a frame of pandas or polars with a column per feed,
            or a tuple (x, y) in the order of the program's inputs; or an iterator of such mappings or tuples, as a
            DataLoader of PyTorch, a function that returns one, or a `Source`: see docs/data.md.
        validation_data: rows in memory, or a split, to evaluate on at the end of each epoch.
        validation_split: share of the rows in memory to evaluate on instead, between 0 and 1. With `shuffle` the seed
            chooses them; otherwise they are the last rows.
        fold: (i, k) to evaluate on the i-th of k parts of the rows, from 1 on, and to train on the others: a run of a
            cross-validation. The program's seed chooses the parts, and `seed` of a run does not change them.
        shuffle: True to train on the rows in another order each epoch, which follows from the seed. By default as the
            program's data says; True for a program without data, as in `Program.data`.
        remainder: "partial", "drop" or "exact", as in `Program.data`: what becomes of rows in memory that do not fill
            the last step of an epoch. By default as the program's data says; "partial" without such data.
        steps_per_epoch: steps per epoch of a source, whose length is unknown; by default all steps are one epoch.
        fetch: tensors to fetch besides the entry's own; `Run.fetched` has them after the last step.
        checkpoint: folder for checkpoints.
        every: steps between two checkpoints; by default one is written at the end of each epoch.
        keep: number of checkpoints that are kept.
        force: remove the checkpoints of another run from the folder, or those later than the run's position.
        change_data: continue from a checkpoint with other rows than those that the run began with.
        before_checkpoint: callback before a checkpoint is written, after all earlier events were taken. It flushes
            files that must be on the disk with the checkpoint, such as a metrics file.
        ahead: upper bound on the steps that are made before the first of their events is yielded, if the engine makes
            several at once; the states are then those after the last step. With 1 they are those of the event.
        pauses: steps between two looks of the caller at the states: the events of no later step come with those of a
            multiple of it.
        callbacks: functions that are called with every event, and objects of `prograd.callbacks`.
        keep_best: number of checkpoints of the best evaluations that are kept besides the newest ones; by default the
            program's.
        retarget_schedule: continue the earlier calls with another total number of steps, on which schedules depend;
            `epochs` and `steps` are then those of all calls together.
    """

    entry: str | None = None
    epochs: int | None = None
    steps: int | None = None
    data: str | Mapping[str, object] | tuple[object, ...] | Source | Batches | Callable[[], Batches] | None = None
    validation_data: str | Mapping[str, object] | tuple[object, ...] | None = None
    validation_split: float | None = None
    fold: tuple[int, int] | None = None
    shuffle: bool | None = None
    remainder: Literal["drop", "exact", "partial"] | None = None
    fetch: Sequence[str] = ()
    checkpoint: str | os.PathLike[str] | None = None
    every: int | None = None
    keep: int = 3
    force: bool = False
    ahead: int = 1
    pauses: int | None = None
    retarget_schedule: bool = False
    change_data: bool = False
    before_checkpoint: Callable[[], None] | None = None
    steps_per_epoch: int | None = None
    callbacks: Sequence[Called | EarlyStopping | ReduceOnPlateau | Callable[[Event], object]] = ()
    keep_best: int | None = None


class Plan(NamedTuple):
    """The length of a training and its intervals."""

    steps: int  # total number
    batch: int  # rows per step, except for the last of an epoch
    per_epoch: int  # steps per epoch
    seed: int  # seed of the order of rows
    shuffle: bool
    window: int  # number of rows that are shuffled together, 0 for all
    evaluate: pb.EvaluateDesc | None
    entries: tuple[str, str]  # names of the entries that train and evaluate
    keep_best: pb.KeepBestDesc | None
    restore_best: bool  # the states of the best evaluation are kept, and restored at the end
    stop: Stop
    plateaus: list[Plateau]
    best_checkpoints: int  # checkpoints of the best evaluations that are kept
    every: int | None  # steps between checkpoints; None: at the end of each epoch
    ahead: int  # upper bound on the steps before their events are yielded
    pauses: int | None  # no steps are made at once across a multiple of it


class Course(NamedTuple):
    """The entry, rows and plan of a training run.

    Attributes:
        bindings: bindings of the entry: that of all steps first, and last that of an epoch's last step if it differs.
        lengths: where steps are of several lengths, the binding of each, the shortest first; else that of all steps.
        rows: rows to train on, before shuffling.
        plan: length and intervals.
        evaluated: rows to evaluate on; None if the run does not evaluate.
    """

    bindings: list[BoundEntry]
    lengths: list[BoundEntry]
    rows: Rows | Streamed
    plan: Plan
    evaluated: Rows | None


def course_of(session: Session, options: TrainingOptions) -> Course:
    """Return the course for the options; raise UsageError or DataError where they contradict themselves or the rows."""
    _require_sane(options)
    program = session.program
    entry = options.entry or session.training_entry()
    desc = program.run if program.run.entry == entry else pb.RunDesc()
    require_callbacks(options.callbacks)
    desc = with_judged(desc, options.callbacks)
    split = options.data if isinstance(options.data, str) else desc.split or "train"
    asked = data_by_feed(session, entry, options.data)
    in_memory = isinstance(asked, Mapping)
    data = cast(Mapping[str, object], asked) if in_memory else split
    if asked is None or isinstance(asked, str | Mapping):
        bindings, lengths, rows = session.steps(entry, session.rows(entry, data))
    else:
        bindings = session.bindings(entry)
        feeds = feeds_in_order(session, entry)
        lengths, rows = bindings[:1], _streamed(asked, bindings[0], feeds, options, desc.epochs)
    first = bindings[0]
    if not session.trains(first):
        raise UsageError(
            f"the entry {entry!r} updates no state, so there is nothing to train; "
            "call minimize on the Program before you compile it"
        )
    own_rows = (asked is None or isinstance(asked, str)) and bool(first.feeds)
    shuffle = _is_shuffled(session, options, own_rows=own_rows, in_memory=in_memory)
    if in_memory and not len(rows):
        raise DataError("the arrays given have no rows to train on")
    evaluate, rows, evaluated = _evaluated(session, options, entry, desc, cast(object, asked), rows, shuffle=shuffle)
    remainder = _remainder(session, options, in_memory=in_memory)
    added = (in_memory and remainder is None) or (remainder == pb.REMAINDER_PARTIAL and isinstance(rows, Rows))
    if added and session.add_step(entry, len(rows) % first.rows):
        bindings, lengths, rows = session.steps(entry, cast(Rows, rows))
    last = last_batch(rows, bindings, remainder, split if own_rows else None)
    per_epoch = len(rows) // first.rows + (last is not None)
    states = session.states
    reduced = reduced_settings(options.callbacks, desc, [state.name for state in settings_among(program.states)])
    plan = Plan(
        steps=options.steps or _steps(options.epochs or desc.epochs or 1, per_epoch),
        batch=first.rows,
        per_epoch=per_epoch,
        seed=int(session.states.arrays["seed"]),
        shuffle=shuffle,
        window=program.data.shuffle_rows if own_rows else 0,
        evaluate=evaluate,
        entries=(entry, "" if evaluate is None else evaluate.entry),
        keep_best=desc.keep_best if desc.HasField("keep_best") else None,
        restore_best=not desc.keep_last,
        stop=_stop(desc, states),
        plateaus=plateaus_of(desc, lambda number: _read(number, states)) + reduced,
        best_checkpoints=desc.best_checkpoints if options.keep_best is None else options.keep_best,
        every=options.every,
        ahead=options.ahead,
        pauses=options.pauses,
    )
    _require_reported(session, plan, first)
    if options.keep_best is not None:
        _require_kept(options, plan)
    if plan.shuffle and plan.window and len(lengths) > 1:
        _log.info("rows of unequal length are shuffled all together, not within windows of %d rows", plan.window)
    return Course([first] if last is None else [first, last], lengths, rows, plan, evaluated)


def _require_reported(session: Session, plan: Plan, first: BoundEntry) -> None:
    """Raise UsageError for a metric that the run watches and that neither training nor evaluation reports."""
    evaluated = session.bindings(plan.entries[1])[0] if plan.entries[1] else None
    metrics: Metrics = dict.fromkeys((fetch.name for fetch in scalar_fetches(first)), 0)
    evaluation: Metrics = {}
    if evaluated is not None:
        evaluation = dict.fromkeys((fetch.name for fetch in scalar_fetches(evaluated)), 0)
    known = [*metrics, *evaluation, *with_entries(metrics, evaluation, plan.entries)]
    watched = [plateau.metric for plateau in plan.plateaus]
    for name in watched if plan.keep_best is None else [*watched, plan.keep_best.metric]:
        require_watched(name, list(dict.fromkeys(known)), evaluates=evaluated is not None)


def _require_kept(options: TrainingOptions, plan: Plan) -> None:
    """Raise UsageError unless checkpoints of the best evaluations can be kept."""
    asked = as_asked("--keep-best", "keep_best")
    if plan.best_checkpoints < 0:
        raise UsageError(f"{asked}={plan.best_checkpoints}: it starts at 0")
    if plan.keep_best is None:
        raise UsageError(
            f"{asked} keeps the checkpoints of the best evaluations, and the program does not say by which metric; "
            "say it by program.training(keep_best='loss', …), or by a callback EarlyStopping"
        )
    if options.checkpoint is None:
        raise UsageError(f"{asked} keeps checkpoints; name their folder by {as_asked('--checkpoint', 'checkpoint=')}")


def _stop(desc: pb.RunDesc, states: States) -> Stop:
    patience = pb.NumberDesc(number=desc.stop_after)
    if desc.stop_after_setting:
        patience = pb.NumberDesc(setting=desc.stop_after_setting)
    return Stop(_read(patience, states), _read(desc.min_delta, states))


def _read(number: pb.NumberDesc, states: States) -> Read:
    """Return a function that reads a number, or the present value of its setting."""
    if number.WhichOneof("source") == "setting":
        array = states.arrays[number.setting]
        return lambda: float(array)
    value = number.number
    return lambda: value


def _is_shuffled(session: Session, options: TrainingOptions, *, own_rows: bool, in_memory: bool) -> bool:
    """Return True if rows are taken in another order each epoch; raise UsageError if a source is to be shuffled."""
    if options.shuffle and not (own_rows or in_memory):
        raise UsageError("shuffle=True: rows of a source come in its own order, and cannot be shuffled")
    if not (own_rows or in_memory):
        return False
    default = session.program.data.shuffle if session.data.exists or own_rows else True
    return default if options.shuffle is None else options.shuffle


def _remainder(session: Session, options: TrainingOptions, *, in_memory: bool) -> pb.Remainder | None:
    """Return what becomes of rows that do not fill a step; None for as many rows as the steps allow."""
    if options.remainder is None and options.fold is not None and not in_memory:
        return pb.REMAINDER_DROP  # a fold leaves another number of rows than the program has steps for
    if options.remainder is None:
        return session.program.data.remainder if session.data.exists else None
    if options.remainder not in _REMAINDERS:
        raise UsageError(f"remainder={options.remainder!r} is not one of {', '.join(_REMAINDERS)}")
    if not in_memory:
        raise UsageError("remainder belongs to rows in memory; Program.data says it for the rows of a file")
    return _REMAINDERS[options.remainder]


def _evaluated(
    session: Session,
    options: TrainingOptions,
    entry: str,
    desc: pb.RunDesc,
    asked: object,
    rows: Rows | Streamed,
    *,
    shuffle: bool,
) -> tuple[pb.EvaluateDesc | None, Rows | Streamed, Rows | None]:
    """Return the evaluation of the run, the rows to train on and those to evaluate on."""
    given, share = options.validation_data, options.validation_split
    if given is not None and share is not None:
        raise UsageError("validation_data and validation_split both say which rows to evaluate on; give one of them")
    if options.fold is not None:
        if given is not None or share is not None:
            raise UsageError("fold says which rows to evaluate on, and so do validation_data and validation_split")
        name = desc.evaluate.entry or "evaluate"
        data = desc.split or "train" if asked is None else asked
        own, evaluated = fold_rows(session, entry, name, data, rows, options.fold, shuffle=shuffle)
        return pb.EvaluateDesc(entry=name, split="fold", every=desc.evaluate.every or 1), own, evaluated
    if given is None and share is None:
        if not desc.HasField("evaluate"):
            return None, rows, None
        if asked is None:
            session.data.warn_of_no_splits()
        return desc.evaluate, rows, session.rows(desc.evaluate.entry, desc.evaluate.split)
    name = desc.evaluate.entry or "evaluate"
    split = given if isinstance(given, str) else "validation"
    evaluate = pb.EvaluateDesc(entry=name, split=split, every=desc.evaluate.every or 1)
    if given is not None:
        return evaluate, rows, validation_rows(session, entry, name, given)
    own, evaluated = split_rows(session, entry, name, asked, cast(Rows, rows), share, shuffle=shuffle)
    return evaluate, own, evaluated


def last_batch(
    rows: Rows | Streamed, bindings: Sequence[BoundEntry], remainder: pb.Remainder | None, split: str | None
) -> BoundEntry | None:
    """Return the binding for the last step of an epoch if that has fewer rows than the others; None if there is none.

    A program without a data description (remainder None) takes as many rows as its steps allow. Arrays that belong to
    no split have no remainder.

    Raises DataError if the rows make no step, or if rows remain that must not or that no step takes.
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
        drop = as_asked("", ", or leave them out by remainder='drop'")
        how = f"; give {count * batch}, or compile the program for both sizes, as in batch=({batch}, {left}){drop}"
        raise DataError(f"{here}, and steps of {batch} leave {left} of them{how if split is None else ''}")
    if left:
        _log.info("%d of %d rows do not fill a step of %d and are left out of each epoch", left, len(rows), batch)
    return None


def _streamed(data: object, first: BoundEntry, feeds: Sequence[str], options: TrainingOptions, epochs: int) -> Streamed:
    """Return the rows of a source, an epoch of which has the requested number of steps; `feeds` are in order."""
    from runtime.rows.source import as_source  # few runs have a source, and the import costs start-up time
    from runtime.rows.streamed import Streamed

    source = as_source(data, feeds)
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
    for name in ("epochs", "steps", "every", "ahead", "steps_per_epoch", "keep", "keep_best"):
        value = getattr(options, name)
        if value is not None and not isinstance(value, int | np.integer):
            raise UsageError(f"{name}={value!r}: write a whole number, as in {name}=10")
        if (
            value is not None and value < 1 and name not in ("keep", "keep_best")
        ):  # the folder of checkpoints has its own message for it
            raise UsageError(f"{name}={value}: it starts at 1")
    if options.steps_per_epoch is not None and is_of_known_length(options.data):
        raise UsageError("steps_per_epoch belongs to a source of rows; these have a length, which says it")
    if options.epochs is not None and options.steps is not None:
        raise UsageError("epochs and steps both say how long to train; give one of them")


def _steps(epochs: int, per_epoch: int) -> int:
    """Return the steps of all epochs, which the counter `total_steps` must be able to hold."""
    require_countable(epochs * per_epoch, f"{epochs} epochs of {per_epoch} steps")
    return epochs * per_epoch


def require_countable(steps: int, what: str = "") -> None:
    """Raise UsageError for more steps than the counter `total_steps` holds."""
    if steps >= 1 << 63:
        raise UsageError(f"{what or f'{steps} steps'} are more steps than 64 bits count")
