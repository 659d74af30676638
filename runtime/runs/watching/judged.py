"""Callbacks that the run itself judges: their standing is in its checkpoints.

So a run that resumes with them gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from prograd_proto import program_pb2 as pb
from prograd_proto.better import best_by_name
from prograd_proto.files import copy_of
from prograd_proto.spelling import closest
from runtime.errors import UsageError
from runtime.runs.watching.watches import Plateau


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
        _require_mode("EarlyStopping", self.mode, self.monitor)
        if not isinstance(self.restore_best, bool):  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
            raise UsageError(f"EarlyStopping: restore_best={self.restore_best!r} is not True or False")


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
        _require_mode("ReduceOnPlateau", self.mode, self.monitor)


JUDGED: Final = EarlyStopping, ReduceOnPlateau
"""The callbacks that a run judges itself."""


def _require_numbers(what: str, **given: tuple[object, int, bool]) -> None:
    for name, (number, least, whole) in given.items():
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float) or not number >= least:
            kind = "whole number" if whole else "number"
            raise UsageError(f"{what}: {name}={number!r} is no {kind} from {least} on")


def _require_mode(what: str, mode: object, monitor: object) -> None:
    if monitor is not None and not isinstance(monitor, str):
        raise UsageError(f"{what}: monitor={monitor!r} is not text")
    if mode is not None and (not isinstance(mode, str) or mode not in ("min", "max")):
        raise UsageError(f"{what}: mode={mode!r} is neither 'min' nor 'max'")


def with_judged(run: pb.RunDesc, callbacks: Sequence[object]) -> pb.RunDesc:
    """Return the run of a program with what EarlyStopping declares in place of `keep_best` and its patience.

    Raises UsageError for a metric of unknown direction.
    """
    found = copy_of(run)
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
