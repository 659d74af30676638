"""A program that is ready to make steps: what training, evaluation and prediction work with."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256
from prograd_proto.lifespans import trains
from prograd_proto.spelling import closest
from runtime.check import check_program
from runtime.dtypes import Array
from runtime.engines.choice import make_engine
from runtime.engines.engine import EngineOptions, no_folder
from runtime.entries import BoundEntry, bound_entries
from runtime.errors import DataError, UsageError
from runtime.rows.buckets import APART_BYTES, LENGTH_BYTES
from runtime.rows.by_feed import by_feed, named_arrays
from runtime.rows.data import Data
from runtime.rows.parts import Part, Steps, fits, is_ragged, parts_of, steps_of
from runtime.rows.rows import Rows, given_rows
from runtime.runs.states import new_states
from runtime.runs.stepper import Stepper
from runtime.runs.workspaces import Lent, Workspaces
from runtime.target import TARGET


class Session:
    """A checked program with its states, its rows and an engine; of training it knows nothing.

    Attributes:
        program: the message.
        memory: what is counted of it, for the limit.
        data: the program's own rows.
        engine: what computes.
        why_not_native: a word, where native code was meant and cannot be made here.
        threads: how many threads compute.
        states: of the program, not yet initialised.
        workspaces: of the engine, for the threads of the run.
        stepper: makes the steps of trainings and evaluations.
    """

    def __init__(
        self, program: pb.ProgramDesc, folder: Path, engine: str | None, options: EngineOptions, data: Path | None
    ) -> None:
        """Check the program before anything is allocated; `folder` has its files, `data` is in place of its own."""
        check_program(program, TARGET)
        self.program = program
        self.memory = options.memory
        self.memory.loaded(program.ByteSize())
        self.data = Data(program, folder, data, self.memory)
        self.engine, self.why_not_native = make_engine(engine, program, options)
        self.states = new_states(program, folder, self.memory)
        self.workspaces = Workspaces(program, self.states, self.engine, self.memory)
        self.stepper = Stepper()
        self.threads = options.threads
        self._spill = options.spill
        self._bound: dict[str, list[list[BoundEntry]]] = {}
        self._row_wise: dict[tuple[int, frozenset[str]], bool] = {}

    @cached_property
    def sha256(self) -> str:
        """The program's identity."""
        return program_sha256(self.program)

    def bindings(self, entry: str) -> list[BoundEntry]:
        """The bindings of an entry for its longest rows, the one with the most rows first; raises as `lengths`."""
        return self.lengths(entry)[-1]

    def lengths(self, entry: str) -> list[list[BoundEntry]]:
        """The bindings of an entry by how long its rows are, the shortest first; one of them for most entries.

        Raises UsageError if there is no such entry, or no folder for the file that it needs.
        """
        if entry not in self._bound:
            by_length: dict[object, list[BoundEntry]] = {}
            for bound in bound_entries(self.program, entry):
                self._require_file(bound)
                by_length.setdefault(bound.lengths, []).append(bound)
            self._bound[entry] = list(by_length.values())[::-1]
        return self._bound[entry]

    def training_entry(self) -> str:
        """The entry that the program runs, else `train`, else its only one."""
        names = [entry.name for entry in self.program.entries]
        if self.program.run.entry or "train" in names:
            return self.program.run.entry or "train"
        if len(names) == 1:
            return names[0]
        raise UsageError(f"the program does not say which entry it runs; name one of {', '.join(names)}")

    def rows(self, entry: str, data: str | Mapping[str, object] | None) -> Rows:
        """Rows for an entry: of a split, of all of the data if it is None, or of arrays for all feeds."""
        data = cast(str | Mapping[str, object] | None, by_feed(data))
        if not isinstance(data, str | None):
            return self._given(entry, named_arrays(data))
        bound = self.bindings(entry)[0]
        if not bound.feeds:
            return given_rows(bound, {}, self.memory)
        if not self.data.exists:
            return given_rows(bound, {})  # says which feed is not given
        return self._own(entry, data)

    def fitting(self, entry: str, given: Mapping[str, object]) -> list[BoundEntry]:
        """The bindings for rows as long as those of the arrays given, else for the longest."""
        lengths = self.lengths(entry)
        arrays = {name: cast(Array, value) for name, value in given.items() if isinstance(value, np.ndarray)}
        shapes = {name: array.shape[1:] for name, array in arrays.items()}
        fit = [one for one in lengths if fits(one[0], shapes)]
        return fit[-1] if fit else lengths[-1]

    def parts(self, entry: str, rows: Rows, *, apart: bool) -> list[Part]:
        """Rows with the bindings that take them: by length, where they are of several.

        With `apart`, rows that do not fill a step of their length stay by themselves, and else go to the next one.

        Raises DataError for a row that is longer than the entry takes.
        """
        lengths = self.lengths(entry)
        if len(lengths) == 1 and not is_ragged(rows):
            return [Part(lengths[0], rows, None)]
        nbytes = len(rows) * (APART_BYTES if apart else LENGTH_BYTES)
        self.memory.take_for(rows, nbytes, "the order of the rows by length")
        return parts_of(entry, lengths, rows, apart=apart)

    def steps(self, entry: str, rows: Rows) -> Steps:
        """What makes steps of rows, and the rows in an order of which every step takes those of one length.

        Raises DataError for a row that is longer than the entry takes.
        """
        lengths = self.lengths(entry)
        if len(lengths) == 1 and not is_ragged(rows):
            return Steps(lengths[0], [lengths[0][0]], rows)
        self.memory.take_for(rows, len(rows) * LENGTH_BYTES, "the order of the rows by length")
        return steps_of(entry, lengths, rows)

    def _given(self, entry: str, data: Mapping[str, object]) -> Rows:
        bound = self.fitting(entry, data)[0]
        if any(isinstance(value, list | tuple) for value in data.values()):
            from runtime.rows.ragged_given import ragged_rows  # for few

            keys = {column.feed: column.key for column in self.program.data.columns}
            found = ragged_rows(bound, data, keys)
            if found is not None:
                return found
        return given_rows(bound, data, self.memory)

    def _own(self, entry: str, split: str | None) -> Rows:
        """The rows of a split. If they are not of the longest length, they are of another one."""
        first, *others = reversed(self.lengths(entry))
        try:
            return self.data.rows(first[0], split)
        except DataError:
            for other in others:
                with suppress(DataError):
                    return self.data.rows(other[0], split)
            raise

    def tensors(self, bound: BoundEntry, fetch: Sequence[str]) -> list[str]:
        """The tensors among `fetch` that the entry does not fetch by itself. Raises UsageError for an unknown name."""
        if not fetch:
            return []
        declared = {f.name for f in bound.block.fetches}
        known = {tensor.name for tensor in bound.block.tensors}
        for name in fetch:
            if name not in declared | known:
                hint = closest(name, declared) or closest(name, known)
                raise UsageError(f"entry {bound.name!r} has no fetch and no tensor {name!r}{hint}")
        return [name for name in fetch if name not in declared]

    def reads_length(self, bound: BoundEntry) -> bool:
        """Whether an entry reads how many steps the run has in all."""
        return any(parameter.state == "total_steps" for parameter in bound.block.parameters)

    def require_length(self, bound: BoundEntry) -> None:
        """Raise UsageError if an entry reads how many steps the run has in all, and nobody has said so."""
        total = int(self.states.arrays["total_steps"])
        if total < 1 and self.reads_length(bound):
            raise UsageError(
                f"entry {bound.name!r} reads total_steps, the steps of the whole run, as schedules do, and it is "
                f"{total}; say how many there will be before the first, as in run.state['total_steps'] = 1000"
            )

    def trains(self, bound: BoundEntry) -> bool:
        """Whether a bound entry changes states that live on."""
        return trains(self.program, bound.block)

    def is_row_wise(self, bound: BoundEntry, fetch: Sequence[str]) -> bool:
        """Whether each row of what an entry fetches is made of the same row of its feeds alone."""
        key = bound.number, frozenset(fetch)
        if key not in self._row_wise:
            from runtime.rows.row_wise import is_row_wise  # where rows are left: start-up time

            self._row_wise[key] = is_row_wise(bound, fetch)
        return self._row_wise[key]

    @contextmanager
    def apart(self, bindings: Sequence[BoundEntry], fetch: Sequence[str]) -> Generator[Lent]:
        """A workspace for steps of an entry that have no effect on the states, beside other threads if it trains not.

        An entry that trains is alone, and the states that it updates are put back at the end.
        """
        states = self.states
        if not self.trains(bindings[0]):
            with states.turns.together(), self.workspaces.lent(bindings, fetch) as lent:
                lent.reset()
                yield lent
            return
        with states.turns.alone(), self.workspaces.lent(bindings, fetch) as lent:
            updated = {update.state for update in bindings[0].block.updates}
            names = updated | states.passing
            with self.memory.lent(sum(states.arrays[name].nbytes for name in names), "the copies of the states"):
                before = {name: states.arrays[name].copy() for name in names}
                states.reset_epoch()
                try:
                    yield lent
                finally:
                    for name, array in before.items():
                        np.copyto(states.arrays[name], array)

    def _require_file(self, bound: BoundEntry) -> None:
        """Raise UsageError if a bound entry needs a file beside the arena, and no folder is there for it."""
        if not self.engine.needs(bound).file:
            return
        if self._spill is None:
            raise no_folder()
        if not self._spill.is_dir():
            raise UsageError(f"{self._spill}: there is no such folder")
