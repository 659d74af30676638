"""The calls of callbacks at the events of a training."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import TYPE_CHECKING, cast

from prograd_proto import program_pb2 as pb
from prograd_proto.better import best_by_name
from prograd_proto.spelling import closest
from runtime.errors import UsageError
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.watching.callbacks import JUDGED, Callback, EarlyStopping, ReduceOnPlateau
from runtime.runs.watching.watches import Plateau

if TYPE_CHECKING:
    from runtime.runs.run import Run

Function = Callable[[Event], object]


def require_callbacks(callbacks: object) -> None:
    """Raise UsageError unless this is a sequence of callbacks."""
    if not isinstance(callbacks, list | tuple):
        raise UsageError(f"callbacks is of type {type(callbacks).__name__}: give a list, as in callbacks=[report]")
    for each in cast(Sequence[object], callbacks):
        if isinstance(each, type):
            raise UsageError(f"callbacks: {each.__name__} is a class; give an object, as in {each.__name__}()")
        if not isinstance(each, (Callback, *JUDGED)) and not callable(each):
            raise UsageError(
                f"callbacks: {each!r} is neither a function of an event nor an object of a subclass of "
                "prograd.callbacks.Callback"
            )
    if sum(isinstance(each, EarlyStopping) for each in cast(Sequence[object], callbacks)) > 1:
        raise UsageError("callbacks: EarlyStopping is given twice; a run ends by one metric")
    names = [each.setting for each in cast(Sequence[object], callbacks) if isinstance(each, ReduceOnPlateau)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"callbacks: two of ReduceOnPlateau reduce the setting {name!r}; give one for each setting"
            )


def looks_at_steps(callbacks: Sequence[object]) -> bool:
    """Return True if a callback needs the states after each step."""
    return any(
        type(each).on_step_end is not Callback.on_step_end
        if isinstance(each, Callback)
        else not isinstance(each, JUDGED)
        for each in callbacks
    )


def with_calls(run: Run, callbacks: Sequence[object], events: Generator[Event]) -> Generator[Event]:
    """Yield the events, and call the callbacks before each; their errors end the training as they are."""
    objects = [each for each in callbacks if isinstance(each, Callback)]
    others = [cast(Function, each) for each in callbacks if not isinstance(each, (Callback, *JUDGED))]
    for each in objects:
        each.run = run
    try:
        for each in objects:
            each.on_train_begin()
        for event in events:
            for each in objects:
                _call(each, event)
            for function in others:
                function(event)
            yield event
    finally:
        events.close()
        for each in objects:
            each.on_train_end()


def _call(callback: Callback, event: Event) -> None:
    callback.on_event(event)
    match event:
        case StepEnd():
            callback.on_step_end(event)
        case EpochEnd():
            callback.on_epoch_end(event)
        case EvaluationEnd():
            callback.on_evaluation_end(event)
        case CheckpointWritten():
            callback.on_checkpoint(event)


def with_judged(run: pb.RunDesc, callbacks: Sequence[object]) -> pb.RunDesc:
    """Return the run of a program with what EarlyStopping declares in place of `keep_best` and its patience.

    Raises UsageError for a metric of unknown direction.
    """
    found = pb.RunDesc()
    found.CopyFrom(run)
    for each in callbacks:
        if isinstance(each, EarlyStopping):
            keep = keep_desc("EarlyStopping", each.monitor, each.mode, run)
            found.keep_best.CopyFrom(keep)
            found.stop_after, found.stop_after_setting = each.patience, ""
            found.min_delta.number, found.keep_last = each.min_delta, not each.restore_best
    return found


def keep_desc(what: str, monitor: str | None, mode: str | None, run: pb.RunDesc) -> pb.KeepBestDesc:
    """Return the metric of a callback and its better direction; raise UsageError if nothing tells the direction."""
    metric = monitor or run.keep_best.metric or "loss"
    if mode is None and metric == run.keep_best.metric:
        return run.keep_best
    best = mode or best_by_name(metric.rpartition(".")[2])
    if best is None:
        raise UsageError(
            f"{what}: monitor={metric!r} does not say whether lower or higher values are better; "
            "give mode='min' or mode='max'"
        )
    return pb.KeepBestDesc(metric=metric, direction=pb.DIRECTION_MAX if best == "max" else pb.DIRECTION_MIN)


def reduced_settings(callbacks: Sequence[object], run: pb.RunDesc, settings: Collection[str]) -> list[Plateau]:
    """Return the settings that callbacks reduce; raise UsageError for one that the program does not have."""
    found: list[Plateau] = []
    for each in callbacks:
        if not isinstance(each, ReduceOnPlateau):
            continue
        name = each.setting
        if name not in settings:
            how = f"; declare it, as in program.setting({name!r}, 1e-3), and use it as a rate"
            hint = closest(name, settings) or how
            raise UsageError(f"ReduceOnPlateau: the program has no setting {name!r}{hint}")
        keep = keep_desc("ReduceOnPlateau", each.monitor, each.mode, run)
        numbers = map(_always, (each.factor, each.patience, each.min_delta, each.cooldown))
        factor, patience, min_delta, cooldown = numbers
        higher = keep.direction == pb.DIRECTION_MAX
        found.append(Plateau(name, keep.metric, higher, factor, patience, min_delta, cooldown, each.min_rate))
    return found


def _always(number: float) -> Callable[[], float]:
    return lambda: number
