"""Callbacks of a training: `run.train(callbacks=[EarlyStopping(patience=5), report])`.

A callback is a function that is called with every event, or an object of a subclass of `Callback` with methods for
the kinds of events. `EarlyStopping` and `ReduceOnPlateau` are judged by the run: their standing is in its checkpoints,
so that a run that resumes with them gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from runtime.errors import UsageError
from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd

if TYPE_CHECKING:
    from runtime.runs.run import Run

__all__ = ["Callback", "EarlyStopping", "ReduceOnPlateau"]


class Callback:
    """A base class of callbacks; a subclass overrides the methods that it needs.

    Attributes:
        run: the run that trains. `run.stop()` ends the training after the present step, and `run.set(rate=1e-4)`
            changes a setting for the steps to come.
    """

    run: Run

    def on_train_begin(self) -> None:
        """Do something before the first step."""

    def on_event(self, event: Event) -> None:
        """Do something at any event, before the method of its kind; the states may be ahead of that of a step."""

    def on_step_end(self, event: StepEnd) -> None:
        """Do something after a step; the states are those after this step."""

    def on_epoch_end(self, event: EpochEnd) -> None:
        """Do something after an epoch; `event.metrics` are those of its steps."""

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        """Do something after an evaluation, which follows the end of its epoch."""

    def on_checkpoint(self, event: CheckpointWritten) -> None:
        """Do something after a checkpoint was written."""

    def on_train_end(self) -> None:
        """Do something at the end: after the best states were restored, or when an error or an interrupt ends it."""


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """End the training when a metric stops improving, and restore the best states.

    It takes the place of `keep_best` and `stop_after` of `Program.training`.

    Args:
        monitor: the metric, of the evaluation or else of training; "train.loss" and "evaluate.loss" say which. By
            default that of `keep_best`, else "loss".
        patience: number of evaluations, or of epochs without evaluation, that must bring an improvement.
        min_delta: the improvement that a value must exceed.
        mode: "min" if lower values are better, "max" if higher ones are; by default as the name says.
        restore_best: restore the states of the best value at the end; otherwise the last ones stay.
    """

    monitor: str | None = None
    patience: int = 5
    min_delta: float = 0.0
    mode: Literal["min", "max"] | None = None
    restore_best: bool = True

    def __post_init__(self) -> None:
        _require_numbers("EarlyStopping", patience=(self.patience, 1, True), min_delta=(self.min_delta, 0, False))
        _require_mode("EarlyStopping", self.mode)


@dataclass(frozen=True, kw_only=True)
class ReduceOnPlateau:
    """Multiply a setting of the program, such as its rate, when a metric stops improving.

    `schedules.reduce_on_plateau` declares the same in a program, where `runtime execute` does it, too.

    Args:
        setting: the setting, as `program.setting("rate", 1e-3)` declares it.
        monitor: the metric; see `EarlyStopping`.
        factor: factor of each reduction, between 0 and 1.
        patience: number of evaluations, or of epochs without evaluation, that must bring an improvement.
        min_delta: the improvement that a value must exceed.
        cooldown: number of values after a reduction that do not count.
        min_rate: the setting is not reduced below this number.
        mode: "min" or "max"; see `EarlyStopping`.
    """

    setting: str = "rate"
    monitor: str | None = None
    factor: float = 0.1
    patience: int = 10
    min_delta: float = 1e-4
    cooldown: int = 0
    min_rate: float = 0.0
    mode: Literal["min", "max"] | None = None

    def __post_init__(self) -> None:
        _require_numbers(
            "ReduceOnPlateau",
            patience=(self.patience, 1, True),
            min_delta=(self.min_delta, 0, False),
            cooldown=(self.cooldown, 0, True),
            min_rate=(self.min_rate, 0, False),
        )
        if not isinstance(self.factor, int | float) or not 0 < self.factor < 1:  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise UsageError(f"ReduceOnPlateau: factor={self.factor!r} is no number between 0 and 1")
        _require_mode("ReduceOnPlateau", self.mode)


JUDGED: Final = EarlyStopping, ReduceOnPlateau
"""The callbacks that a run judges itself."""


def _require_numbers(what: str, **given: tuple[object, int, bool]) -> None:
    for name, (number, least, whole) in given.items():
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float) or not number >= least:
            kind = "whole number" if whole else "number"
            raise UsageError(f"{what}: {name}={number!r} is no {kind} from {least} on")


def _require_mode(what: str, mode: object) -> None:
    if mode not in (None, "min", "max"):
        raise UsageError(f"{what}: mode={mode!r} is neither 'min' nor 'max'")
