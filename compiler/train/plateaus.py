"""Rates that are reduced when a metric stops improving: the state that a rate is multiplied by, and its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from compiler.build.whole_numbers import is_whole
from prograd_proto import program_pb2 as pb
from prograd_proto.better import Best, best_by_name
from prograd_proto.settings import Interval
from prograd_proto.spelling import closest_or_all
from registry import Block, OpError, Value
from registry.settings import Number, require_within

DIRECTIONS: dict[str, pb.Direction] = {"min": pb.DIRECTION_MIN, "max": pb.DIRECTION_MAX}
"""The better direction of a metric by its word."""


class Host(Protocol):
    """A program under construction, which keeps the descriptions."""

    def add_plateau(self, plateau: pb.PlateauDesc) -> Value:
        """Declare the state of a description, keep both, and return the state's tensor."""
        ...


def plateau_scale(block: Block, plateau: pb.PlateauDesc) -> Value:
    """Return the tensor that a rate is multiplied by; raise OpError outside a program."""
    host = block.root.program
    if host is None:
        raise OpError("reduce_on_plateau: the rate is reduced in a program; minimize with it there")
    return cast(Host, host).add_plateau(plateau)


def plateau_desc(
    monitor: str | None,
    mode: str | None,
    *,
    factor: Number,
    patience: Number,
    min_delta: Number,
    cooldown: Number,
) -> pb.PlateauDesc:
    """Return the description of a rate that is reduced, without its state; raise OpError for invalid arguments."""
    what = "reduce_on_plateau"
    if mode not in (None, *DIRECTIONS):
        raise OpError(f"{what}: mode={mode!r} is neither 'min' nor 'max'")
    plateau = pb.PlateauDesc(metric=monitor or "", direction=DIRECTIONS.get(mode or "", pb.DIRECTION_UNSPECIFIED))
    plateau.factor.CopyFrom(number_desc(f"{what}: factor", factor, Interval(0.0, 1.0, True, True)))
    plateau.patience.CopyFrom(number_desc(f"{what}: patience", patience, Interval(least=1.0), whole=True))
    plateau.min_delta.CopyFrom(number_desc(f"{what}: min_delta", min_delta, Interval(least=0.0)))
    plateau.cooldown.CopyFrom(number_desc(f"{what}: cooldown", cooldown, Interval(least=0.0), whole=True))
    return plateau


def number_desc(what: str, number: Number, interval: Interval, *, whole: bool = False) -> pb.NumberDesc:
    """Return a number or a setting as a message; raise OpError outside the interval, or for another tensor."""
    require_within(what, number, interval)
    if not isinstance(number, Value):
        if whole and not is_whole(number):
            raise OpError(f"{what}={number!r} is not a whole number")
        return pb.NumberDesc(number=float(number))
    if number.name not in number.block.settings:
        raise OpError(f"{what}={number!r} is computed from settings; it is a number, or a setting itself")
    if whole and number.dtype != "int64":
        raise OpError(f"{what}: the setting {number.name!r} is {number.dtype}; declare it with dtype='int64'")
    return pb.NumberDesc(setting=number.name)


def settle_plateaus(program: pb.ProgramDesc, declared: Mapping[str, Best]) -> None:
    """Set the metric and the better direction of each plateau of the run, unless they are stated.

    `declared` has the directions of losses and metrics. Raises OpError for a metric that neither the evaluation nor the
    training has, or one of unknown direction.
    """
    run = program.run
    known = metrics_of(program)
    for plateau in run.plateaus:
        if not plateau.metric:
            plateau.metric = run.keep_best.metric or "loss"
        if plateau.metric not in known:
            hint = closest_or_all(plateau.metric, known)
            raise OpError(f"reduce_on_plateau: monitor={plateau.metric!r} is no metric of this program{hint}")
        if plateau.direction == pb.DIRECTION_UNSPECIFIED:
            name = plateau.metric.rpartition(".")[2]
            kept = run.keep_best.direction if run.keep_best.metric == plateau.metric else pb.DIRECTION_UNSPECIFIED
            best = declared.get(name) or best_by_name(name)
            if best is None and not kept:
                raise OpError(
                    f"reduce_on_plateau: monitor={plateau.metric!r} does not say whether lower or higher values are "
                    "better; give mode='min' or mode='max'"
                )
            plateau.direction = kept or DIRECTIONS[str(best)]


def metrics_of(program: pb.ProgramDesc) -> list[str]:
    """Return the names by which a run may judge: fetches of its entries, also with the entry in front."""
    run = program.run
    names: list[str] = []
    for entry in program.entries:
        if entry.name in (run.evaluate.entry, run.entry):
            fetches = [fetch.name for fetch in program.blocks[entry.source_block].fetches]
            names += [*fetches, *(f"{entry.name}.{name}" for name in fetches)]
    return list(dict.fromkeys(names))
