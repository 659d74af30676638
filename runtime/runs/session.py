"""A program that is ready to make steps: the basis of training, evaluation and prediction."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.entry_views import SpelledNames
from prograd_proto.identity import program_sha256
from prograd_proto.spelling import closest
from prograd_proto.states import trains
from runtime.added_steps import add_bindings
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
from runtime.rows.rows import Rows, input_rows
from runtime.runs.raw.column_order import ColumnOrder
from runtime.runs.states import new_states
from runtime.runs.stepper import Stepper
from runtime.runs.watching.finite_states import FiniteStates
from runtime.runs.workspaces import Lent, Workspaces
from runtime.step import spills
from runtime.target import TARGET

if TYPE_CHECKING:
    from runtime.ranks.group import Group
    from runtime.ranks.pieces import Pieces


T = TypeVar("T")


class Compiled(Protocol):
    """The result of a compiler: a program that has not been saved."""

    def beside(self, folder: str | os.PathLike[str]) -> pb.ProgramDesc:
        """Return the program as it would be saved into that folder, beside its files."""
        ...

    def with_rows(self, program: pb.ProgramDesc, rows: int) -> pb.ProgramDesc:
        """Return that program, compiled for steps of that number of rows as well."""
        ...


class Session:
    """A checked program with its states, its rows and an engine; it knows nothing of training.

    Attributes:
        program: the message.
        memory: the account of allocated memory.
        data: the program's own rows.
        engine: the engine.
        why_not_native: one word, if native code was requested and cannot be made here.
        threads: number of threads that compute.
        states: states of the program, not yet initialised.
        workspaces: workspaces of the engine, for the threads of the run.
        stepper: makes the steps of trainings and evaluations.
        recompiled: returns a program with further steps for a number of rows; None where no compiler is at hand.
        group: the ranks of a run of several processes, or None.
        missing_rows: the file that a program, which is not saved, takes its rows from, if there is none; else None.
        told_of_nan: entries and labels for which a warning told of NaN.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        folder: Path,
        engine: str | None,
        options: EngineOptions,
        data: Path | None,
        group: Group | None,
    ) -> None:
        """Check the program before anything is allocated.

        `folder` has its files, `data` replaces its own data file. With a `group`, the steps are those of this rank.
        """
        check_program(program, TARGET)
        self.program = program
        self.group = group
        self._executed = program if group is None else _dealt(program, group)
        self.memory = options.memory
        self.memory.loaded(program.ByteSize())
        self.data = Data(program, folder, data, self.memory)
        self.engine, self.why_not_native = make_engine(engine, self._executed, options)
        self.states = new_states(program, folder, self.memory, _pieces(program, self._executed, group))
        self.workspaces = Workspaces(program, self.states, self.engine, self.memory)
        self.stepper = Stepper()
        self.column_order = ColumnOrder()
        self.recompiled: Callable[[pb.ProgramDesc, int], pb.ProgramDesc] | None = None
        self.missing_rows: Path | None = None
        self.told_of_nan: set[str] = set()
        self._spill = options.spill
        self._bound: dict[str, list[list[BoundEntry]]] = {}
        self._row_wise: dict[tuple[int, frozenset[str]], bool] = {}

    @property
    def threads(self) -> int:
        """The number of threads of the engine."""
        return self.engine.threads

    @cached_property
    def sha256(self) -> str:
        """The hash of the program."""
        return program_sha256(self.program)

    @cached_property
    def finite(self) -> FiniteStates:
        """The look at the states that training changes."""
        return FiniteStates(self.program, self.states, self.group)

    @cached_property
    def names(self) -> SpelledNames:
        """The names of feeds and fetches as the file spells them from which the program was imported."""
        return SpelledNames(self.program)

    def named(self, given: Mapping[str, T]) -> Mapping[str, T]:
        """Return arrays by the program's names, for names as the imported file spells them too.

        Raises DataError for an array that is given by both names.
        """
        try:
            return self.names.keys(given)
        except ValueError as error:
            raise DataError(str(error)) from None

    def bindings(self, entry: str) -> list[BoundEntry]:
        """Return the bindings of an entry for its longest rows, by falling number of rows.

        Raise errors as `lengths` does.
        """
        return self.lengths(entry)[-1]

    def lengths(self, entry: str) -> list[list[BoundEntry]]:
        """Return the bindings of an entry by the length of its rows, the shortest first; most entries have one length.

        Raises UsageError if there is no such entry, or no folder for the file that it needs.
        """
        if entry not in self._bound:
            by_length: dict[object, list[BoundEntry]] = {}
            for bound in bound_entries(self._executed, entry):
                self._require_file(bound)
                by_length.setdefault(bound.lengths, []).append(bound)
            self._bound[entry] = list(by_length.values())[::-1]
        return self._bound[entry]

    def add_step(self, entry: str, rows: int) -> bool:
        """Add a step of an entry for a number of rows, as far as the compiler is there; return True if it did.

        The blocks that the program has keep their numbers, and `sha256` stays that of the program as it was given.
        Raises ProgramError if the program cannot be compiled for this number.
        """
        if self.recompiled is None or not rows or self._executed is not self.program:
            return False
        if any(bound.rows == rows for bound in self.bindings(entry)):
            return False
        _ = self.sha256  # of the program before the addition
        other = self.recompiled(self.program, rows)
        check_program(other, TARGET)
        self.memory.loaded(other.ByteSize())
        add_bindings(self.program, other, entry)
        del self._bound[entry]
        return True

    def training_entry(self) -> str:
        """Return the entry that the program runs, else `train`, else its only one."""
        names = [entry.name for entry in self.program.entries]
        if self.program.run.entry or "train" in names:
            return self.program.run.entry or "train"
        if len(names) == 1:
            return names[0]
        raise UsageError(f"the program does not say which entry it runs; name one of {', '.join(names)}")

    def rows(self, entry: str, data: str | Mapping[str, object] | None) -> Rows:
        """Return rows for an entry: of a split, of all of the data for None, or of arrays for all feeds."""
        data = cast(str | Mapping[str, object] | None, by_feed(data))
        if not isinstance(data, str | None):
            return self._given(entry, named_arrays(data))
        bound = self.bindings(entry)[0]
        if not bound.feeds:
            return input_rows(bound, {}, self.memory)
        if not self.data.exists:
            self._require_rows(entry)
            return input_rows(bound, {})  # the error names the missing feed
        return self._own(entry, data)

    def _require_rows(self, entry: str) -> None:
        """Raise DataError if a program that is not saved lacks its file of rows."""
        if self.missing_rows is not None:
            raise DataError(
                f"{self.missing_rows}: no such file; the entry {entry!r} takes its rows from it unless arrays are given"
            )

    def fitting(self, entry: str, given: Mapping[str, object]) -> list[BoundEntry]:
        """Return the bindings for rows of the length of these arrays, else for the longest."""
        lengths = self.lengths(entry)
        arrays = {name: cast(Array, value) for name, value in given.items() if isinstance(value, np.ndarray)}
        shapes = {name: array.shape[1:] for name, array in arrays.items()}
        fit = [one for one in lengths if fits(one[0], shapes)]
        return fit[-1] if fit else lengths[-1]

    def parts(self, entry: str, rows: Rows, *, apart: bool) -> list[Part]:
        """Return rows with the bindings that take them, by length where the rows have several.

        With `apart`, rows that do not fill a step of their length stay separate; else they go to the next length.

        Raises DataError for a row that is longer than the entry takes.
        """
        lengths = self.lengths(entry)
        if len(lengths) == 1 and not is_ragged(rows):
            return [Part(lengths[0], rows, None)]
        nbytes = len(rows) * (APART_BYTES if apart else LENGTH_BYTES)
        self.memory.take_for(rows, nbytes, "the order of the rows by length")
        return parts_of(entry, lengths, rows, apart=apart)

    def steps(self, entry: str, rows: Rows) -> Steps:
        """Return the bindings that make steps of rows, and the rows in an order where every step has one length.

        Raises DataError for a row that is longer than the entry takes.
        """
        lengths = self.lengths(entry)
        if len(lengths) == 1 and not is_ragged(rows):
            return Steps(lengths[0], [lengths[0][0]], rows)
        self.memory.take_for(rows, len(rows) * LENGTH_BYTES, "the order of the rows by length")
        return steps_of(entry, lengths, rows)

    def _given(self, entry: str, data: Mapping[str, object]) -> Rows:
        data = self.named(data)
        bound = self.fitting(entry, data)[0]
        if any(isinstance(value, list | tuple) for value in data.values()):
            from runtime.rows.ragged_inputs import ragged_rows  # few runs need it

            keys = {column.feed: column.key for column in self.program.data.columns}
            found = ragged_rows(bound, data, keys)
            if found is not None:
                return found
        return input_rows(bound, data, self.memory)

    def _own(self, entry: str, split: str | None) -> Rows:
        """Return the rows of a split; they may have another than the longest length."""
        first, *others = reversed(self.lengths(entry))
        try:
            return self.data.rows(first[0], split)
        except DataError:
            for other in others:
                with suppress(DataError):
                    return self.data.rows(other[0], split)
            raise

    def tensors(self, bound: BoundEntry, fetch: Sequence[str]) -> list[str]:
        """Return the tensors of `fetch` that the entry does not fetch itself; raise UsageError for an unknown name."""
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
        """Return True if an entry reads the total number of steps of the run."""
        return any(parameter.state == "total_steps" for parameter in bound.block.parameters)

    def require_length(self, bound: BoundEntry) -> None:
        """Raise UsageError if an entry reads the total number of steps of the run, and nobody has set it."""
        total = int(self.states.arrays["total_steps"])
        if total < 1 and self.reads_length(bound):
            raise UsageError(
                f"entry {bound.name!r} reads total_steps, the steps of the whole run, as schedules do, and it is "
                f"{total}; say how many there will be before the first, as in run.state['total_steps'] = 1000"
            )

    def trains(self, bound: BoundEntry) -> bool:
        """Return True if a bound entry changes states that live on."""
        return trains(self.program, bound.block)

    def is_row_wise(self, bound: BoundEntry, fetch: Sequence[str]) -> bool:
        """Return True if each row of an entry's fetches depends on the same row of its feeds alone."""
        key = bound.number, frozenset(fetch)
        if key not in self._row_wise:
            from runtime.rows.row_wise import is_row_wise  # needed only where rows remain: start-up time

            self._row_wise[key] = is_row_wise(bound, fetch)
        return self._row_wise[key]

    @contextmanager
    def apart(self, bindings: Sequence[BoundEntry], fetch: Sequence[str]) -> Generator[Lent]:
        """Lend a workspace for steps of an entry that have no lasting effect on the states.

        An entry that does not train shares the states with other threads. An entry that trains has the exclusive
        lock, and the states that it updates are restored at the end.
        """
        states = self.states
        if not self.trains(bindings[0]):
            with states.locks.shared(), self.workspaces.lent(bindings, fetch) as lent:
                lent.reset()
                yield lent
            return
        with states.locks.exclusive(), self.workspaces.lent(bindings, fetch) as lent:
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
        """Raise UsageError if a bound entry needs a file beside the arena, and no folder is given for it."""
        if not any(map(spills, {op.type for op in bound.block.ops})) or not self.engine.needs(bound).file:
            return  # a step without transfers is not lowered before it is prepared
        if self._spill is None:
            raise no_folder()
        if not self._spill.is_dir():
            raise UsageError(f"{self._spill}: there is no such folder")


def _dealt(program: pb.ProgramDesc, group: Group) -> pb.ProgramDesc:
    """Return the program as a rank runs it."""
    from runtime.ranks.deal import dealt  # few runs have several processes

    if group.size == 1:
        return program
    executed = dealt(program, group.rank, group.size, cuts_states=group.cuts_states)
    check_program(executed, TARGET, is_dealt=True)
    return executed


def _pieces(program: pb.ProgramDesc, executed: pb.ProgramDesc, group: Group | None) -> Pieces | None:
    """Return the states that are cut among the ranks."""
    if group is None or not group.cuts_states:
        return None
    from runtime.ranks.pieces import pieces_of  # few runs have several processes

    return pieces_of(program, executed, group)
