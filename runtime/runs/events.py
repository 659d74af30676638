"""The reports of a training run: frozen records, one kind per occasion. Epochs and steps count from 1."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from runtime.runs.metrics import Metrics


class StepEnd(NamedTuple):
    """A step is done; `metrics` are its own."""

    epoch: int
    step: int  # since the start of the run
    metrics: Metrics


class EpochEnd(NamedTuple):
    """An epoch is over, or the run in the middle of one; `metrics` are combined over its steps."""

    epoch: int
    step: int
    metrics: Metrics


class EvaluationEnd(NamedTuple):
    """The states were evaluated on a split."""

    epoch: int
    step: int
    entry: str
    split: str
    metrics: Metrics
    is_best: bool  # True if these states are the best so far, and kept


class CheckpointWritten(NamedTuple):
    """A checkpoint is on the disk."""

    epoch: int
    step: int
    path: Path


Event = StepEnd | EpochEnd | EvaluationEnd | CheckpointWritten
