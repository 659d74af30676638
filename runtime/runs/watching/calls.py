"""The calls of callbacks at the events of a training."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import cast

from runtime.errors import UsageError
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd
from runtime.runs.watching.called import Called
from runtime.runs.watching.judged import JUDGED, EarlyStopping, ReduceOnPlateau

Function = Callable[[Event], object]


def require_callbacks(callbacks: object) -> None:
    """Raise UsageError unless this is a sequence of callbacks."""
    if not isinstance(callbacks, list | tuple):
        raise UsageError(f"callbacks is of type {type(callbacks).__name__}: give a list, as in callbacks=[report]")
    for each in cast(Sequence[object], callbacks):
        if isinstance(each, type):
            raise UsageError(f"callbacks: {each.__name__} is a class; give an object, as in {each.__name__}()")
        if not isinstance(each, (Called, *JUDGED)) and not callable(each):
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
        type(each).on_step_end is not Called.on_step_end if isinstance(each, Called) else not isinstance(each, JUDGED)
        for each in callbacks
    )


def with_calls(run: object, callbacks: Sequence[object], events: Generator[Event]) -> Generator[Event]:
    """Yield the events, and call the callbacks before each; their errors end the training as they are."""
    objects = [each for each in callbacks if isinstance(each, Called)]
    others = [cast(Function, each) for each in callbacks if not isinstance(each, (Called, *JUDGED))]
    for each in objects:
        each.__setattr__("run", run)  # which `Callback` declares
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


def _call(callback: Called, event: Event) -> None:
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
