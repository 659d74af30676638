"""The run that a program declares, as a row of numbers for `prograd_run.c`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.lifespans import trains
from runtime.entries import BoundEntry

NONE: Final = -1

MOST_FETCHES: Final = 64
"""Feeds and fetches of an entry for which `prograd_run.c` has places."""

REMAINDERS: Final = {pb.REMAINDER_DROP: 1, pb.REMAINDER_EXACT: 2, pb.REMAINDER_PARTIAL: 3}


def run_table(program: pb.ProgramDesc, bounds: Sequence[BoundEntry], said: Callable[[str], int]) -> list[int]:
    """Return the row of the run; `said` returns the offset of a text. See `prograd_run_table`."""
    desc = program.run
    train, evaluate = _entries(program, bounds)
    metric, is_evaluated = _watched(desc, bounds, train, evaluate)
    why = _unsupported(program, bounds, train, metric)
    delta = desc.min_delta.number if desc.HasField("min_delta") else 0.0
    most_feeds = max((len(bound.feeds) for bound in bounds), default=0)
    most_fetches = max((len(bound.block.fetches) for bound in bounds), default=0)
    return [
        *(max(train, 0), _count(bounds, train), max(evaluate, 0), _count(bounds, evaluate)),
        *((desc.evaluate.every or 1) if evaluate >= 0 else 0, desc.epochs or 1, program.data.shuffle),
        *(REMAINDERS.get(program.data.remainder, 0), metric, is_evaluated),
        *(desc.keep_best.direction == pb.DIRECTION_MAX, not desc.keep_last, desc.stop_after),
        struct.unpack("<q", struct.pack("<d", delta))[0],
        *(_fetch(bounds, train, "loss"), _fetch(bounds, evaluate, "loss")),
        *(most_feeds, most_fetches, said(why) if why else NONE),
    ]


def _entries(program: pb.ProgramDesc, bounds: Sequence[BoundEntry]) -> tuple[int, int]:
    """Return the numbers of the first steps that train and that evaluate."""
    names = [bound.name for bound in bounds]
    wanted = program.run.entry or ("train" if "train" in names else names[0])
    asked = program.run.evaluate.entry or "evaluate"
    evaluates = program.run.HasField("evaluate") and asked in names
    return names.index(wanted) if wanted in names else NONE, names.index(asked) if evaluates else NONE


def _count(bounds: Sequence[BoundEntry], first: int) -> int:
    return sum(bound.name == bounds[first].name for bound in bounds) if first >= 0 else 0


def _fetch(bounds: Sequence[BoundEntry], entry: int, name: str) -> int:
    """Return the number of a fetch of an entry, or NONE."""
    names = [fetch.name for fetch in bounds[entry].block.fetches] if entry >= 0 else []
    return names.index(name) if name in names else NONE


def _watched(desc: pb.RunDesc, bounds: Sequence[BoundEntry], train: int, evaluate: int) -> tuple[int, bool]:
    """Return the number of the fetch that decides which states are the best, and whether the evaluation has it."""
    if not desc.HasField("keep_best"):
        return NONE, False
    entry, _, name = desc.keep_best.metric.rpartition(".")
    for number, is_evaluated in ((evaluate, True), (train, False)):
        if number >= 0 and entry in ("", bounds[number].name):
            found = _fetch(bounds, number, name)
            if found != NONE:
                return found, is_evaluated
    return NONE, False


def _unsupported(program: pb.ProgramDesc, bounds: Sequence[BoundEntry], train: int, metric: int) -> str:
    """Return the reason why a library cannot make the run; "" if it can."""
    desc = program.run
    if train < 0 or not trains(program, bounds[train].block):
        return "no step that was built trains"
    if desc.plateaus:
        return "the program reduces a state on a plateau"
    if desc.stop_after_setting or desc.min_delta.WhichOneof("source") == "setting":
        return "the program reads its patience from a setting"
    if program.data.shuffle_rows:
        return "the program shuffles rows within windows"
    if desc.HasField("keep_best") and metric == NONE:
        return f"the program watches {desc.keep_best.metric!r}, which no step that was built reports"
    if max(len(bound.feeds) + len(bound.block.fetches) for bound in bounds) > MOST_FETCHES:
        return "the program has too many feeds and fetches"
    if len({bound.lengths for bound in bounds}) > 1:
        return "the program has rows of several lengths"
    return ""
