"""The library: a loaded program, its states, and everything that can be done with them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import GEN_CLOSED, getgeneratorstate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load as load_program
from prograd_proto.identity import program_sha256
from prograd_proto.spelling import closest
from runtime.blas import use_one_thread
from runtime.check import check_program
from runtime.engines.choice import make_engine
from runtime.engines.engine import NO_FOLDER, EngineOptions, MathName, ScheduleName
from runtime.entries import BoundEntry, bound_entries
from runtime.errors import DataError, UsageError
from runtime.kernel import Array
from runtime.memory_limit import PARSED, MemoryLimit
from runtime.plugins import use_plugins
from runtime.rows.data import Data
from runtime.rows.rows import Rows, given_rows
from runtime.runs.begin_training import TrainingOptions, begin_training
from runtime.runs.checkpoint import read_checkpoint, resume, write_checkpoint
from runtime.runs.checkpoint_folder import CheckpointFolder
from runtime.runs.evaluation import Results, apart, run_over
from runtime.runs.events import Event
from runtime.runs.interrupts import Interrupts
from runtime.runs.position import Position
from runtime.runs.state_view import StateView
from runtime.runs.states import new_states
from runtime.runs.stepper import Stepper
from runtime.runs.workspaces import Lent, Workspaces
from runtime.target import TARGET

if TYPE_CHECKING:
    from runtime.engines.choice import EngineName
    from runtime.runs.loading import Layout, Loaded

Path_ = str | os.PathLike[str]


def load(path: Path_, *, plugins: Sequence[str] = (), **options: Any) -> Run:
    """Load and check a program file, and give its states their initial values.

    `plugins` are used before, as by `use_plugin`: the program imports nothing by itself. `options` are those of `Run`,
    without `program` and `folder`.

    Raises:
        PluginError: a plugin is not there, or cannot be used.
        ProgramError: the file is no program that this runtime can run; nothing was allocated.
        DataError: a file that holds initial values is missing or another one.
        ResourceLimit: the states do not fit into `max_memory`.
    """
    use_plugins(plugins)
    limit = options.get("max_memory")
    if isinstance(limit, MemoryLimit) and os.path.isfile(path):
        limit.require(PARSED * os.path.getsize(path), "the parsed program")
    program = load_program(path)
    try:
        return Run(program, Path(path).parent, **options)
    except ProgramError as error:
        raise ProgramError(f"{os.fspath(path)}: {error}") from None


class Run:
    """A program that is ready to run. Threads may share it.

    Each sees the states as they are between two steps of training: evaluations and predictions run side by side, each
    thread with an arena of its own as far as `max_memory` allows, and steps that train wait for them.

    Args:
        program: checked before anything is allocated.
        folder: where the files lie that the program names.
        engine: what computes; "reference" is NumPy, one function per op.
        math: "exact" computes as the program says.
        threads: how many threads run ops; the results do not depend on it.
        schedule: "fifo" keeps the order of the op list on one thread, "parallel" starts an op when it can.
        seed: in place of the program's.
        check_nan: look at every output of every op, and raise NonFinite at the first NaN or Inf; its `step` is what
            `write_reproducer` takes. Copies of what a step changes count for `max_memory`.
        max_memory: bytes that the run may allocate, as docs/limits.md counts them, or an account that counts them.
        spill: a folder for the file beside the arena, which a program that spills needs; nothing is left in it.
        data: a file in place of the program's own data file, with the same keys.

    Attributes:
        program: the message.
        state: the states by name; reading gives a copy, writing checks the type.
        position: where training stands.
        engine: what computes.
        workspaces: of the engine, for the threads of the run.
        stepper: makes its steps.
        fetched: what the last training step fetched.
        memory: what is counted of it, for the limit.
    """

    def __init__(
        self,
        program: pb.ProgramDesc,
        folder: Path_ = ".",
        *,
        engine: EngineName = "reference",
        math: MathName = "exact",
        threads: int = 1,
        schedule: ScheduleName | None = None,
        seed: int | None = None,
        check_nan: bool = False,
        max_memory: int | MemoryLimit | None = None,
        spill: Path_ | None = None,
        data: Path_ | None = None,
    ) -> None:
        if threads < 1:
            raise UsageError(f"threads={threads}: a run takes at least one thread")
        if data is not None and not program.HasField("data"):
            raise UsageError("the program says nothing of data, so no file can take its place; feed arrays")
        use_one_thread()
        check_program(program, TARGET)
        self.program = program
        self.folder = Path(folder)
        self.memory = max_memory if isinstance(max_memory, MemoryLimit) else MemoryLimit(max_memory)
        self.memory.loaded(program.ByteSize())
        self.data = Data(program, self.folder, None if data is None else Path(data), self.memory)
        self._spill = None if spill is None else Path(spill)
        self.engine = make_engine(
            engine, program, EngineOptions(math, threads, schedule, check_nan, self._spill, self.memory)
        )
        self.states = new_states(program, self.folder, self.memory)
        self.workspaces = Workspaces(program, self.states, self.engine, self.memory)
        self.stepper = Stepper()
        self.position = Position()
        self.fetched: Mapping[str, Array] = {}
        self.keeps_best = False  # and their memory is counted
        self.done = 0  # steps of the run that was trained to its end
        self.home: str | None = None  # the folder with the checkpoints of this run's past
        self._bound: dict[str, list[BoundEntry]] = {}
        self._events: Callable[[], Generator[Event] | None] = lambda: None
        self.states.initialise(seed)

    @cached_property
    def sha256(self) -> str:
        """The program's identity."""
        return program_sha256(self.program)

    @property
    def state(self) -> StateView:
        """The states by name, `seed`, `step` and `total_steps` among them."""
        return StateView(self.states)

    def step(
        self, feeds: Mapping[str, object] | None = None, *, entry: str | None = None, fetch: Sequence[str] = ()
    ) -> dict[str, Array]:
        """Make one step of an entry, the training entry unless named, and give what it fetches.

        If the entry does not train, its metrics are of this step alone, and the states are afterwards what they were.
        A schedule that reads how many steps the run has in all needs to be told: `run.state["total_steps"] = 1000`.

        Args:
            feeds: an array per feed, with exactly the rows of a step.
            entry: which one.
            fetch: names of tensors to fetch besides the entry's own.
        """
        bindings = self.bindings(entry or self.training_entry())
        rows = given_rows(bindings[0], feeds or {})
        bound = next((b for b in bindings if b.rows == len(rows)), None)
        if bound is None:
            sizes = " or ".join(str(b.rows) for b in bindings)
            raise DataError(f"entry {bindings[0].name!r} takes {sizes} rows a step, and {len(rows)} are given")
        self._require_length(bound)
        fetch = self.tensors(bound, fetch)
        with self._lent(bound, fetch) as lent:
            executor = lent.executor(bound, fetch)
            rows.fill(executor.feeds, 0)
            executor.step()
            return {name: array.copy() for name, array in executor.fetches.items()}

    def train(self, *, between: Callable[[], None] | None = None, **options: Any) -> Generator[Event]:
        """Train, and report steps, epochs, evaluations and checkpoints; see `TrainingOptions` for the options.

        The run goes on where it stands: at its start, where an earlier call was left, or where `resume` put it.
        At the end the best states are put back if the program keeps them. An interrupt acts between two steps.

        Raises (the first three before the first step):
            UsageError: an option does not fit the program or the run, or an earlier call still trains.
            DataError: rows are missing or do not fit.
            ResourceLimit: memory, or the disk for a checkpoint.
            NonFinite: the loss is NaN or Inf.
        """
        asked = TrainingOptions(**options)
        with self.states.turns.alone():
            self._require_no_training("train")
            if between is not None:
                events = begin_training(self, asked, between)
            else:
                interrupts = Interrupts()
                events = _interruptible(begin_training(self, asked, interrupts.check), interrupts)
            self._events = weakref.ref(events)
        return events

    def evaluate(self, data: str | Mapping[str, object] | None = None, *, entry: str | None = None) -> dict[str, Any]:
        """The metrics of an entry over rows, numbers and arrays; the states are afterwards what they were.

        Args:
            data: a split, or an array per feed; the split that the program evaluates on unless given, else all rows.
            entry: the one that the program evaluates with unless given.
        """
        asked = self.program.run.evaluate
        entry = entry or asked.entry or "evaluate"
        if data is None:
            data = asked.split or None
        results = self.over(entry, self.rows(entry, data))
        return results.metrics | results.tables

    def predict(self, x: object, *, entry: str = "predict") -> dict[str, Array]:
        """What an entry fetches for any number of rows, always by name.

        Args:
            x: an array for the entry's one feed, or an array per feed.
            entry: which one.
        """
        feeds = self.bindings(entry)[0].feeds
        if not isinstance(x, Mapping):
            if len(feeds) != 1:
                raise DataError(f"entry {entry!r} has the feeds {', '.join(feeds) or 'none'}; give an array by name")
            x = {next(iter(feeds)): x}
        return self.over(entry, self.rows(entry, x)).arrays  # pyright: ignore[reportUnknownArgumentType]: names are checked

    def over(
        self,
        entry: str,
        rows: Rows,
        *,
        fetch: Sequence[str] = (),
        between: Callable[[], None] = lambda: None,
    ) -> Results:
        """Run an entry over rows, without an effect on the states."""
        bindings = self.bindings(entry)
        self._require_length(bindings[0])
        fetch = self.tensors(bindings[0], fetch)
        return run_over(self.workspaces, self.stepper, self.states, bindings, rows, fetch=fetch, between=between)

    def save(self, path: Path_, *, force: bool = False) -> None:
        """Write all states, and where the run stands, to a safetensors file that `resume` and `load` take."""
        with self.states.turns.together():
            write_checkpoint(path, self.program, self.sha256, self.states, self.position, force=force)

    def resume(self, path: Path_) -> None:
        """Go on where a saved run stood, from a file or from the newest checkpoint of a folder.

        Raises ProgramError for a checkpoint of another program, DataError for a missing or damaged one, UsageError
        while the run trains.
        """
        self._require_no_training("resume")
        path = Path(path)
        checkpoint = CheckpointFolder(path).newest() if path.is_dir() else read_checkpoint(path)
        if checkpoint is None:
            raise DataError(f"{path}: there is no checkpoint in this folder")
        with self.states.turns.alone():
            self.position = resume(checkpoint, self.sha256, self.states)
            self.done, self.home = 0, os.path.realpath(checkpoint.path.parent)

    def load(
        self,
        path: Path_,
        *,
        only: str | Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        layout: Layout = "prograd",
    ) -> Loaded:
        """Take parameters and buffers from a file; slots, counters and where the run stands stay as they are.

        Args:
            path: of a safetensors file, such as `save` writes, or PyTorch's state dict saved by safetensors.
            only: patterns of the states that are taken, as "trunk.*"; unless given, all, and the file has no others.
            rename: what tensors of the file are called here, as {"backbone.": "trunk."}; see docs/commands.md.
            layout: "torch" for names and axes of PyTorch's modules; see docs/layers.md.

        Returns:
            What was loaded, what was left in the file, and which states are as before.

        Raises DataError or UsageError, and changes nothing, for what cannot be taken.
        """
        from runtime.runs.loading import load_parameters  # for those who load: start-up time

        checkpoint = read_checkpoint(Path(path))
        patterns = [only] if isinstance(only, str) else only
        with self.states.turns.alone():
            return load_parameters(checkpoint, self.program, self.states.arrays, patterns, rename, layout)

    def load_state(self, path: Path_) -> None:
        """Take all parameters and buffers from a file; see `load`."""
        self.load(path)

    def bindings(self, entry: str) -> list[BoundEntry]:
        """The bindings of an entry, the one with the most rows first.

        Raises UsageError if there is no such entry, or no folder for the file that it needs.
        """
        if entry not in self._bound:
            found = bound_entries(self.program, entry)
            for bound in found:
                self._require_file(bound)
            self._bound[entry] = found
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
        bound = self.bindings(entry)[0]
        if isinstance(data, Mapping):
            return given_rows(bound, data, self.memory)
        if not bound.feeds:
            return given_rows(bound, {}, self.memory)
        if not self.data.exists:
            return given_rows(bound, {})  # says which feed is not given
        return self.data.rows(bound, data)

    def tensors(self, bound: BoundEntry, fetch: Sequence[str]) -> list[str]:
        """The tensors among `fetch` that the entry does not fetch by itself. Raises UsageError for an unknown name."""
        declared = {f.name for f in bound.block.fetches}
        known = {tensor.name for tensor in bound.block.tensors}
        for name in fetch:
            if name not in declared | known:
                hint = closest(name, declared) or closest(name, known)
                raise UsageError(f"entry {bound.name!r} has no fetch and no tensor {name!r}{hint}")
        return [name for name in fetch if name not in declared]

    def _require_length(self, bound: BoundEntry) -> None:
        """Raise UsageError if an entry reads how many steps the run has in all, and nobody has said so."""
        total = int(self.states.arrays["total_steps"])
        if total < 1 and any(parameter.state == "total_steps" for parameter in bound.block.parameters):
            raise UsageError(
                f"entry {bound.name!r} reads total_steps, the steps of the whole run, as schedules do, and it is "
                f"{total}; say how many there will be before the first, as in run.state['total_steps'] = 1000"
            )

    def close(self) -> None:
        """Let all threads end but the caller's."""
        self.workspaces.close()

    @contextmanager
    def _lent(self, bound: BoundEntry, fetch: Sequence[str]) -> Generator[Lent]:
        """For one step of an entry, which changes the states if it trains."""
        if not self.workspaces.trains(bound):
            with apart(self.workspaces, self.states, [bound], fetch) as lent:
                yield lent
            return
        with self.states.turns.alone(), self.workspaces.lent([bound], fetch) as lent:
            yield lent

    def _require_file(self, bound: BoundEntry) -> None:
        """Raise UsageError if a bound entry needs a file beside the arena, and no folder is there for it."""
        if not self.engine.needs(bound).file:
            return
        if self._spill is None:
            raise UsageError(NO_FOLDER)
        if not self._spill.is_dir():
            raise UsageError(f"{self._spill}: there is no such folder")

    def _require_no_training(self, what: str) -> None:
        """Raise UsageError if a call of `train` has neither ended nor been dropped."""
        events = self._events()
        if events is not None and getgeneratorstate(events) != GEN_CLOSED:
            raise UsageError(
                f"{what}: the run trains already; take the events of that train() to the end, or close() it"
            )


def _interruptible(events: Iterator[Event], interrupts: Interrupts) -> Generator[Event]:
    """The same events; an interrupt while the next one is made waits until the states are whole."""
    while True:
        with interrupts:
            event = next(events, None)
        if event is None:
            interrupts.check()
            return
        yield event
