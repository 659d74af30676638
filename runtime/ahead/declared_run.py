"""The run that a program declares, as a row of numbers for `prograd_run.c`."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from prograd_proto.states import held, trains
from runtime.entries import BoundEntry
from runtime.runs.checkpoints.checkpoint import about_run
from runtime.runs.metrics import scalar_fetches
from runtime.runs.watching.judge import STOP, judges

NONE: Final = -1

MOST_FETCHES: Final = 64
"""Feeds and fetches of an entry for which `prograd_run.c` has places."""

REMAINDERS: Final = {pb.REMAINDER_DROP: 1, pb.REMAINDER_EXACT: 2, pb.REMAINDER_PARTIAL: 3}

HASH_BYTES: Final = 80
"""Upper bound on the bytes of a hash in a description, with its quotes."""

NUMBER_BYTES: Final = 40
"""Upper bound on the bytes of a number in a description, with what separates it."""

FIELDS_BYTES: Final = 1024
"""Upper bound on the bytes of the names of the fields of a position."""


class _Run:
    """The run of a program, whose steps are `bounds`, and whose states are in the order of `states`."""

    def __init__(self, program: pb.ProgramDesc, bounds: Sequence[BoundEntry], states: Sequence[str]) -> None:
        self.program, self.bounds = program, bounds
        self.desc = program.run
        self.number_of = {name: number for number, name in enumerate(states)}
        names = [bound.name for bound in bounds]
        wanted = self.desc.entry or ("train" if "train" in names else names[0])
        asked = self.desc.evaluate.entry or "evaluate"
        evaluates = self.desc.HasField("evaluate") and asked in names
        self.train = names.index(wanted) if wanted in names else NONE
        self.evaluate = names.index(asked) if evaluates else NONE

    def count(self, first: int) -> int:
        """Return the number of steps of the entry whose first one this is."""
        return sum(bound.name == self.bounds[first].name for bound in self.bounds) if first >= 0 else 0

    def fetch(self, entry: int, name: str) -> int:
        """Return the number of a scalar fetch of an entry, or NONE."""
        if entry < 0 or name not in [fetch.name for fetch in scalar_fetches(self.bounds[entry])]:
            return NONE
        return [fetch.name for fetch in self.bounds[entry].block.fetches].index(name)

    def metric(self, name: str) -> tuple[int, bool]:
        """Return the number of the fetch that has a metric, and whether it is one of the evaluation."""
        entry, _, short = name.partition(".")
        for number, is_evaluated in ((self.evaluate, True), (self.train, False)):
            if number >= 0 and entry == self.bounds[number].name and self.fetch(number, short) != NONE:
                return self.fetch(number, short), is_evaluated
        for number, is_evaluated in ((self.evaluate, True), (self.train, False)):
            if self.fetch(number, name) != NONE:
                return self.fetch(number, name), is_evaluated
        return NONE, False

    def number(self, desc: pb.NumberDesc) -> tuple[int, int]:
        """Return a number: the state of its setting, or NONE and its bits."""
        if desc.WhichOneof("source") == "setting":
            return self.number_of[desc.setting], 0
        return NONE, struct.unpack("<q", struct.pack("<d", desc.number))[0]

    def watches(self) -> list[str]:
        """Return the names of all watches in the order of a description."""
        stops = [STOP] if self.desc.HasField("keep_best") else []
        return sorted({plateau.state for plateau in self.desc.plateaus} | {*stops})

    def judged_by(self) -> str:
        """Return the field of a description that says by which metrics the run judges; "" for none."""
        keep, highest = self.desc.keep_best, pb.DIRECTION_MAX
        plateaus = [(each.state, each.metric, each.direction == highest) for each in self.desc.plateaus]
        kept = (keep.metric, keep.direction == highest) if self.desc.HasField("keep_best") else None
        found = judges(plateaus, kept)
        return f',"judged_by":{json.dumps(found, sort_keys=True, separators=(",", ":"))}' if found else ""

    def plateau(self, plateau: pb.PlateauDesc) -> list[int]:
        """Return the row of a plateau; see `prograd_plateau`."""
        metric, is_evaluated = self.metric(plateau.metric)
        numbers = plateau.factor, plateau.patience, plateau.min_delta, plateau.cooldown
        return [
            *(self.number_of[plateau.state], self.watches().index(plateau.state), metric, int(is_evaluated)),
            int(plateau.direction == pb.DIRECTION_MAX),
            *(part for number in numbers for part in self.number(number)),
        ]

    def unsupported(self) -> str:
        """Return the reason why a library cannot make the run; "" if it can."""
        if self.train < 0 or not trains(self.program, self.bounds[self.train].block):
            return "no step that was built trains"
        watched = [plateau.metric for plateau in self.desc.plateaus]
        watched += [self.desc.keep_best.metric] if self.desc.HasField("keep_best") else []
        for name in watched:
            if self.metric(name)[0] == NONE:
                return f"the program watches {name!r}, which no step that was built reports"
        if max(len(bound.feeds) + len(bound.block.fetches) for bound in self.bounds) > MOST_FETCHES:
            return f"the program has entries of more than {MOST_FETCHES} feeds and fetches"
        largest = {bound.lengths: bound.rows for bound in reversed(self.bounds) if bound.name == self._name}
        if len(set(largest.values())) > 1:
            sizes = " and ".join(map(str, sorted(set(largest.values()))))
            return f"entry {self._name!r} takes {sizes} rows at steps of different lengths, and a run takes one number"
        return ""

    @property
    def _name(self) -> str:
        return self.bounds[self.train].name


def run_table(
    program: pb.ProgramDesc,
    bounds: Sequence[BoundEntry],
    states: Sequence[str],
    said: Callable[[str], int],
    listed: Callable[[Sequence[int]], int],
) -> list[int]:
    """Return the row of the run; see `prograd_run_table`.

    `states` are their names in the order of the library's table. `said` returns the offset of a text, `listed` the
    index of numbers.
    """
    run = _Run(program, bounds, states)
    desc, train, evaluate = program.run, run.train, run.evaluate
    why = run.unsupported()
    metric, is_evaluated = run.metric(desc.keep_best.metric) if desc.HasField("keep_best") else (NONE, False)
    patience = pb.NumberDesc(number=desc.stop_after)
    if desc.stop_after_setting:
        patience = pb.NumberDesc(setting=desc.stop_after_setting)
    watches = run.watches()
    (about, end), judged = about_run(program, program_sha256(program)), run.judged_by()
    return [
        *(max(train, 0), run.count(train), max(evaluate, 0), run.count(evaluate)),
        *((desc.evaluate.every or 1) if evaluate >= 0 else 0, desc.epochs or 1, program.data.shuffle),
        *(program.data.shuffle_rows, REMAINDERS.get(program.data.remainder, 0), metric, is_evaluated),
        *(desc.keep_best.direction == pb.DIRECTION_MAX, not desc.keep_last, desc.best_checkpoints),
        *(*run.number(patience), *run.number(desc.min_delta)),
        listed([] if why else [number for plateau in desc.plateaus for number in run.plateau(plateau)]),
        0 if why else len(desc.plateaus),
        *(listed([said(name) for name in watches]), len(watches), watches.index(STOP) if STOP in watches else 0),
        *(run.fetch(train, "loss"), run.fetch(evaluate, "loss")),
        max((len(bound.feeds) for bound in bounds), default=0),
        max((len(bound.block.fetches) for bound in bounds), default=0),
        *(
            said(why) if why else NONE,
            said(about),
            said(end),
            said(judged),
            _most_bytes(run, len(about + end + judged)),
        ),
    ]


def _most_bytes(run: _Run, others: int) -> int:
    """Return an upper bound on the bytes of a description, of which `others` do not depend on the position."""

    def spelled(names: Iterable[str], more: int) -> int:
        return sum(len(json.dumps(name)) + more for name in names)

    entries = [run.bounds[number] for number in (run.train, run.evaluate) if number >= 0]
    fetches = [fetch.name for bound in entries for fetch in bound.block.fetches]
    states = [state.name for state in held(run.program)]  # a reader meets the hashes of those that are left out
    return (
        others
        + FIELDS_BYTES
        + 4 * HASH_BYTES
        + 16 * NUMBER_BYTES
        + 2 * spelled(fetches, NUMBER_BYTES)
        + spelled(run.watches(), 3 * NUMBER_BYTES)
        + 2 * NUMBER_BYTES * run.desc.best_checkpoints
        + spelled(states, HASH_BYTES)
    )
