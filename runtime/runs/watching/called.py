"""The methods that a training calls at its events."""

from __future__ import annotations

from runtime.runs.events import CheckpointWritten, EpochEnd, EvaluationEnd, Event, StepEnd


class Called:
    """An object that a training calls at its events: the part of `Callback` that knows no run."""

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
