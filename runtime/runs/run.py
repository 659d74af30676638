"""The library: a facade for a session with a program, and for the standing of its training."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, cast

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.argument_kinds import with_kinds, wrong_kind
from prograd_proto.entry_views import Entries
from prograd_proto.files import load as load_program
from prograd_proto.spelling import closest_or_all, no_attribute
from runtime.blas import use_one_thread
from runtime.dtypes import Array
from runtime.engines.engine import EngineOptions
from runtime.errors import DataError, UsageError
from runtime.files.output import require_form
from runtime.memory.limit import PARSED_BYTES_RATIO, MemoryLimit
from runtime.memory.shortage import limited_by_memory
from runtime.plugins import use_plugins
from runtime.runs.begin_training import begin_training
from runtime.runs.checkpoints.checkpoint import read_checkpoint, resume, write_checkpoint
from runtime.runs.checkpoints.checkpoint_folder import CheckpointFolder
from runtime.runs.course import MAX_STEPS_AT_ONCE, TrainingOptions
from runtime.runs.evaluation import run_over
from runtime.runs.events import Event
from runtime.runs.own_loop.one_step import OneStep
from runtime.runs.own_loop.own_steps import OwnSteps
from runtime.runs.position import Position
from runtime.runs.predictions import Predictions
from runtime.runs.raw.in_memory import data_by_feed
from runtime.runs.session import Compiled, Session
from runtime.runs.settings import Settings
from runtime.runs.shown.fetched import Fetched
from runtime.runs.shown.state_view import StateView
from runtime.runs.shown.train_to_end import ShowProgress, require_progress, train_to_end
from runtime.runs.standing import Standing
from runtime.runs.untrained import warn_if_untrained
from runtime.runs.watching.calls import looks_at_steps, require_callbacks, with_calls
from runtime.usable_cores import default_threads

if TYPE_CHECKING:
    from runtime.engines.choice import EngineName
    from runtime.ranks.group import Group
    from runtime.runs.checkpoints.pickled import PickledRun
    from runtime.runs.loading import Layout, Loaded
    from runtime.runs.shown.training_result import TrainingResult

Path_ = str | os.PathLike[str]


@with_kinds(UsageError)
def load(path: Path_, *, plugins: Sequence[str] = (), **options: Any) -> Run:
    """Load and check a program file, and set its states to their initial values.

    `plugins` are used first, as by `use_plugin`: the program imports nothing by itself. `options` are those of `Run`,
    without `program` and `folder`. A file of initial values that is missing or differs is an error when the values are
    used, because `load` and `resume` of a Run may replace them before.

    Raises:
        PluginError: a plugin is missing, or cannot be used.
        ProgramError: the file is no program that this runtime can run; nothing was allocated.
        ResourceLimit: the states do not fit into `max_memory`.
    """
    _require_path("load", path)
    use_plugins(plugins)
    limit = options.get("max_memory")
    if isinstance(limit, MemoryLimit) and os.path.isfile(path):
        limit.require(PARSED_BYTES_RATIO * os.path.getsize(path), "the parsed program")
    _require_known("load", options, Run.__init__)
    program = load_program(path)
    try:
        return Run(program, Path(path).parent, **options)
    except ProgramError as error:
        raise ProgramError(f"{os.fspath(path)}: {error}") from None


def _require_path(call: str, path: object) -> None:
    """Raise UsageError unless `path` is a path of a file."""
    if not isinstance(path, str | os.PathLike):
        what = type(path).__name__
        hint = "; a Program runs as prograd.Run(program.compile(batch=32))" if what in ("Program", "Compiled") else ""
        raise UsageError(f"{call}: the path of a file is text or a Path, not {what}{hint}")


class Run:
    """A program that is ready to run. Threads may share it.

    Each thread sees the states as they are between two steps of training. Evaluations and predictions run
    concurrently, each thread with an arena of its own as far as `max_memory` allows. Training steps wait for them.

    Args:
        program: program, checked before anything is allocated; or the result of `compile`, as if it were saved into
            the folder.
        folder: folder of the files that the program names.
        engine: name of the engine; by default "native" where it is installed and runs here, else "reference".
        threads: number of threads that run ops, by default at most one for each core of the process; the results do
            not depend on it.
        seed: seed in place of the program's.
        check_nan: check every output of every op, and raise NonFinite at the first NaN or Inf; its `step` is the
            argument of `write_reproducer`. Copies of the states that a step changes count for `max_memory`.
        max_memory: bytes that the run may allocate, as docs/limits.md counts them, or an account that counts them.
        spill: folder for the file beside the arena, which a program that spills needs; nothing is left in it.
        data: file in place of the program's own data file, with the same keys.
        settings: values of the program's settings, by name, in place of its own.
        group: the ranks of a run of several processes, as `runtime.ranks.join` returns them.

    Attributes:
        program: the message.
        settings: the program's settings, by name; `set` gives them other values.
        states: the states' arrays, which steps update; `state` reads and writes them by name.
        memory: the account of allocated memory.
        session: the program with its engine and its rows, for callers with a training loop of their own.
        standing: the state of the training in this process.
    """

    @with_kinds(UsageError)
    def __init__(
        self,
        program: pb.ProgramDesc | Compiled,
        folder: Path_ = ".",
        *,
        engine: EngineName | None = None,
        threads: int | None = None,
        seed: int | None = None,
        check_nan: bool = False,
        max_memory: int | MemoryLimit | None = None,
        spill: Path_ | None = None,
        data: Path_ | None = None,
        settings: Mapping[str, float] | None = None,
        group: Group | None = None,
    ) -> None:
        _require_whole({"threads": threads, "max_memory": max_memory, "seed": seed})
        _require_paths({"folder": folder, "spill": spill, "data": data})
        arrays = getattr(program, "arrays", {})  # initial values that an import brought, and no file has yet
        compiled = None if isinstance(program, pb.ProgramDesc) else _compiled(program)
        program = program if isinstance(program, pb.ProgramDesc) else _compiled(program).beside(folder)
        if data is None and program.HasField("data") and getattr(compiled, "rows_folder", ""):
            data = os.path.abspath(Path(folder, getattr(compiled, "rows_folder", ""), program.data.file))
        threads = default_threads() if threads is None else threads
        if threads < 1:
            raise UsageError(f"threads={threads}: a run takes at least one thread")
        missing = None if compiled is None else _missing_rows(compiled, program, folder)
        if data is not None and missing is not None:
            raise DataError(
                f"{missing}: no such file; a program that is not saved needs its own file of rows, also where data= "
                "replaces it; make the file, or leave data= out and give arrays to train and evaluate"
            )
        if data is not None and not program.HasField("data"):
            program = _with_rows(program, Path(data))
        use_one_thread()
        memory = max_memory if isinstance(max_memory, MemoryLimit) else MemoryLimit(max_memory)
        self._folder = os.path.abspath(folder)
        self._options: dict[str, Any] = {
            "engine": engine,
            "threads": threads,
            "check_nan": check_nan,
            "max_memory": max_memory,
            "spill": spill,
            "data": data,
        }
        options = EngineOptions(threads, check_nan, None if spill is None else Path(spill), memory)
        rows = None if data is None else Path(data)
        self.session = Session(program, Path(folder), engine, options, rows, group)
        self.session.missing_rows = missing
        self.compiled = compiled
        self.standing = Standing()
        self._predictions = Predictions(self.session)
        self._one_step = OneStep(self.session)
        self.program, self.memory, self.states = program, memory, self.session.states
        self.settings = Settings(program, self.states)
        self.states.brought = arrays
        self.states.initialise(seed)
        self.settings.put(settings or {})

    def __reduce__(self) -> tuple[Callable[[type[Run], PickledRun], Run], tuple[type[Run], PickledRun]]:
        """Return what `pickle` and `copy` make a run of: its program, its options, all states and its position."""
        from runtime.runs.checkpoints.pickled import pickled  # few runs are pickled

        options = self._options | {"settings": dict(self.settings.given)}
        return _unpickled, (type(self), pickled(self.session, self.standing, self._folder, options, self.compiled))

    def __repr__(self) -> str:
        entries = ", ".join(entry.name for entry in self.program.entries)
        return f"<Run {self.program.name!r}: step {self.position.steps}, entries {entries}, {len(self.state)} states>"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the position of the run, entries, settings and states."""
        from runtime.runs.shown.html_tables import run_html

        states = self.state._repr_html_()  # pyright: ignore[reportPrivateUsage]: the name that notebooks ask for
        return run_html(self.session, self.position.steps, self.settings, states)

    @property
    def compiled(self) -> Compiled | None:
        """The result of `compile` that the run was made of, which adds steps for other numbers of rows."""
        return self._compiled

    @compiled.setter
    def compiled(self, compiled: Compiled | None) -> None:
        """Let this result of `compile` add steps."""
        self._compiled = compiled
        self.session.recompiled = None if compiled is None else compiled.with_rows

    @property
    def sha256(self) -> str:
        """The hash of the program."""
        return self.session.sha256

    @property
    def state_sha256(self) -> str:
        """The hash of all states as they are now: `state_sha256` of the result line; see docs/format.md."""
        return self.states.sha256()

    @property
    def entries(self) -> Entries:
        """The feeds and fetches of each entry, by name."""
        return Entries(self.program)

    @property
    def position(self) -> Position:
        """The position of the training."""
        return self.standing.position

    @property
    def result(self) -> TrainingResult | None:
        """The result of the last call of `train`, also of one that was interrupted; None before the first."""
        return self.standing.result

    @property
    def fetched(self) -> Mapping[str, Array]:
        """The fetches of the last training step."""
        return Fetched(self.standing.fetched, self.session.names)

    @property
    def state(self) -> StateView:
        """The states by name, `seed`, `step` and `total_steps` among them."""
        return StateView(self.states)

    @limited_by_memory
    def step(
        self, feeds: Mapping[str, object] | None = None, *, entry: str | None = None, fetch: Sequence[str] = ()
    ) -> dict[str, Array]:
        """Make one step of an entry, by default the training entry, and return its fetches.

        If the entry does not train, its metrics are of this step alone, and the states are restored afterwards. For a
        schedule that reads the total number of steps, set it first: `run.state["total_steps"] = 1000`.

        Args:
            feeds: an array per feed, with exactly the rows of a step.
            entry: name of the entry.
            fetch: names of tensors to fetch besides the entry's own.
        """
        names = self.session.names
        try:
            if names:
                feeds, fetch = self._named(feeds), [names.own(name) for name in fetch]
            return Fetched(self._one_step(entry, {} if feeds is None else feeds, fetch), names)
        except (TypeError, ValueError):
            if fault := wrong_kind(Run.step, (self, feeds), {"entry": entry, "fetch": fetch}):
                raise UsageError(f"step: {fault}") from None
            raise

    @with_kinds(UsageError)
    def stepper(self, entry: str | None = None, *, fetch: str | Sequence[str] | None = None) -> OwnSteps:
        """Return a step of an entry, by default the training entry, to call in a loop of one's own.

        `step(x, label)` takes an array for each feed in the order of `step.feeds`, or by name, and makes the same step
        as `run.step`, with less work around it. Steps for other numbers of rows are compiled when they are first
        needed, if the run was made of the result of `compile`. Results are numbers and arrays. Inside `with step:` the
        run is kept for this thread, a call takes about half the time, and arrays are views until the next step.

        Args:
            entry: name of the entry.
            fetch: a name for its result alone, names for a tuple; None for all results of the entry by name.
        """
        return OwnSteps(self.session, self._one_step, entry, fetch)

    @with_kinds(UsageError)
    @limited_by_memory
    def train(
        self,
        *unnamed: Never,
        progress: ShowProgress = "auto",
        between: Callable[[], None] | None = None,
        **options: Any,
    ) -> TrainingResult:
        """Train, and return a table of the epochs and the final metrics; see `TrainingOptions` for the options.

        The run continues at its position: the start, the end of an earlier call, or the position of `resume`. At the
        end the best states are restored if the program keeps them. An interrupt acts between two steps: the states
        and the position are those after the last step, `result` has the epochs so far, and a later call continues.

        Args:
            *unnamed: none; options are given by name.
            progress: True draws a bar on stderr, or prints a line for each epoch if stderr is no terminal; "auto" draws
                the bar on a terminal or in a notebook only.
            between: callback before each step; KeyboardInterrupt from it ends the training.
            **options: fields of `TrainingOptions`.

        Raises (the first three before the first step):
            UsageError: an option does not fit the program or the run, or an earlier call still trains.
            DataError: rows are missing or do not fit.
            ResourceLimit: memory, or the disk for a checkpoint, is exhausted.
            NonFinite: the loss, or a state that training changes, is NaN or Inf. The best states are restored if the
                run keeps them: `is_restored` of the error tells.
        """
        require_progress(progress)
        ahead = {} if between is not None else {"ahead": MAX_STEPS_AT_ONCE}
        events = self._begin("train", unnamed, between, ahead | options)
        return train_to_end(events, self.session, self.standing, progress)

    @limited_by_memory
    def events(self, *unnamed: Never, between: Callable[[], None] | None = None, **options: Any) -> Generator[Event]:
        """Train as `train` does, and yield steps, epochs, evaluations and checkpoints as they happen.

        Each step is made when its event is asked for, unless `ahead` allows more; without iteration nothing is trained.
        Options and errors are those of `train`. The errors that come before the first step are raised by the call.
        """
        return self._begin("events", unnamed, between, options)

    def _begin(
        self, call: str, unnamed: Sequence[object], between: Callable[[], None] | None, options: Mapping[str, Any]
    ) -> Generator[Event]:
        if unnamed:
            raise UsageError(
                f"{call}: options are given by name, as in {call}(epochs=3) or {call}(data={{'x': x, 'y': y}})"
            )
        _require_known(call, options, TrainingOptions.__new__)
        asked = TrainingOptions(**options)
        require_callbacks(asked.callbacks)
        if looks_at_steps(asked.callbacks):
            asked = asked._replace(ahead=1)
        with self.states.locks.exclusive():
            self.standing.require_no_training(call)
            events = begin_training(self.session, self.standing, asked, between)
            if asked.callbacks:
                events = with_calls(self, asked.callbacks, events)
            self.standing.events = weakref.ref(events)
        return events

    def stop(self) -> None:
        """End the training after the steps that were made, as if it had no further ones; for callbacks and threads.

        The epoch so far is evaluated, and the best states are restored if the program keeps them. A later call of
        `train` continues.
        """
        self.standing.stops = True

    @with_kinds(UsageError)
    @limited_by_memory
    def evaluate(
        self, data: str | Mapping[str, object] | tuple[object, ...] | None = None, *, entry: str | None = None
    ) -> dict[str, Any]:
        """Return the metrics of an entry over rows, numbers and arrays; the states are restored afterwards.

        Args:
            data: a split, an array per feed, a tuple (x, y), or a frame; by default the split that the program
                evaluates on, else all rows.
            entry: name of the entry; by default the one that the program evaluates with.
        """
        asked = self.program.run.evaluate
        entry = entry or asked.entry or "evaluate"
        if data is None:
            data = asked.split or None
        rows = self.session.rows(entry, cast(Any, data_by_feed(self.session, entry, data)))
        results = run_over(self.session, entry, rows)
        warn_if_untrained(self.session, entry)
        return Fetched(results.metrics | results.tables, self.session.names)

    @with_kinds(UsageError)
    @limited_by_memory
    def predict(self, x: object, *, entry: str = "predict", raw: bool | None = None) -> dict[str, Array]:
        """Return an entry's fetches for any number of rows, always by name.

        Rows as a table has them are encoded like the packed rows of the training. The result then has the predicted
        values too, by the name of the label: names of classes, or numbers in their own units. That of images has the
        names of their files as `id`.

        Args:
            x: an array for the entry's one feed, or an array per feed; or rows as a table has them: a frame of pandas,
                polars or Arrow, or a mapping of columns. Labels and other columns may be missing, and are ignored. Or a
                path: of a table, an image or a folder of images; or the name of a split.
            entry: name of the entry.
            raw: True for rows as a table has them, False for encoded arrays. By default frames, texts, and columns
                that are joined in a feed tell; for a program that knows no table, all rows are arrays for its feeds.

        Raises DataError, which names the row, for a value that cannot be encoded; UsageError for numbers that may be
        either raw or encoded.
        """
        if isinstance(x, str | os.PathLike):
            return Fetched(self._predictions.of_named(entry, cast(Path_, x)), self.session.names)
        x = self._named(x) if self.session.names else x
        of_table = self._predictions.of_table(entry, x, raw=raw)
        return Fetched(self._predictions(entry, x) if of_table is None else of_table, self.session.names)

    @with_kinds(UsageError)
    def chat(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        most: int | None = None,
        stop: str | Sequence[str] = (),
        plain: bool = False,
        tokenizer: Path_ | None = None,
        **choices: float,
    ) -> Iterator[str]:
        """Return the pieces of a language model's answer, each written when it is asked for.

        The program is one of `from_lm`. Equal states, prompts and choices give equal texts.

        Args:
            prompt: a message, or a conversation: its turns, each with `role` and `content`.
            most: the number of codes that are written at most; by default as many as there is room for.
            stop: a text, or several, that ends the answer and is not part of it.
            plain: go on with the prompt, a text, as it is, without the template of conversations.
            tokenizer: the folder of the tokenizer; by default that of the model, from the folder of the program.
            **choices: temperature, top_k, top_p, repetition_penalty and seed, as docs/language-models.md has them.

        Raises UsageError for a program that is no language model, an unknown choice, an empty stop text, a
        conversation beside plain=True or a missing package, DataError for another tokenizer, a turn without a known
        role and content, or a prompt that there is no room for.
        """
        from runtime.language.chatting import chat  # few runs write texts

        folder, beside = None if tokenizer is None else Path(tokenizer), Path(self._folder)
        return chat(self.session, prompt, beside, folder, most=most, stop=stop, plain=plain, choices=choices)

    def _named(self, given: Any) -> Any:
        """Return arrays by feed with the program's names as keys, and anything else as it is."""
        return self.session.named(cast(dict[str, object], given)) if isinstance(given, dict) else given

    def set(self, *unnamed: Never, **values: float) -> None:
        """Set settings of the program to other values, for all steps from now on.

        Raises UsageError, and changes nothing, for a setting that does not exist, or a value out of its range.
        """
        if unnamed:
            raise UsageError("set: a setting is given by name, as in set(rate=0.01)")
        self.settings.put(values)

    @with_kinds(UsageError)
    def save(self, path: Path_, *, layout: Layout = "prograd", force: bool = False) -> None:
        """Write the states, and the position of the run, to a safetensors file that `resume` and `load` read.

        States that no step updates, and that have the values of the program's own files, are left out.

        With layout="torch", write only the tensors of the module that the program was imported from, with its names and
        axes, for load_state_dict.

        Raises UsageError if the file exists and not `force`, or if its name stands for another format, as in "x.pt",
        and NonFinite if a state that training changes has NaN or Inf; for other errors see `write_output`.
        """
        _require_path("save", path)
        require_form(path, ".safetensors", "states")
        self.states.require()
        self.session.finite.require(os.fspath(path))
        if layout != "prograd":
            from runtime.runs.torch_names import write_imported

            if self.states.pieces is not None and not self.states.pieces.is_first:
                return
            with self.states.locks.shared():
                write_imported(path, self.program, self.states.arrays, layout, force=force)
            return
        with self.states.locks.shared():
            write_checkpoint(path, self.program, self.sha256, self.states, self.position, force=force)

    @with_kinds(UsageError)
    def resume(self, path: Path_, *, change_settings: bool = False) -> None:
        """Continue a saved run at its position, from a file or from the newest checkpoint of a folder.

        Settings are those of the saved run; with `change_settings`, the settings passed to this run replace them.

        Raises ProgramError for a checkpoint of another program, DataError for a missing or damaged one, UsageError
        while the run trains, or if a setting passed to this run differs from the saved one.
        """
        self.standing.require_no_training("resume")
        _require_path("resume", path)
        path = Path(path)
        if not path.exists():
            raise DataError(f"{path}: no such file{CheckpointFolder(path).hint()}")
        checkpoint = CheckpointFolder(path).newest() if path.is_dir() else read_checkpoint(path)
        if checkpoint is None:
            raise DataError(f"{path}: there is no checkpoint in this folder{CheckpointFolder(path).hint()}")
        given = dict(self.settings.given)
        if not change_settings:
            self.settings.require_same(checkpoint.tensors, os.fspath(path))
        with self.states.locks.exclusive():
            self.standing.position = resume(checkpoint, self.sha256, self.states)
            self.states.are_given(self.states.arrays)
            self.standing.done, self.standing.home = 0, os.path.realpath(checkpoint.path.parent)
            self.settings.put(given)

    @with_kinds(UsageError)
    def load(
        self,
        path: Path_,
        *,
        only: str | Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        layout: Layout = "prograd",
    ) -> Loaded:
        """Load parameters and buffers from a file; slots, counters and the position of the run stay as they are.

        Args:
            path: path of a safetensors file, as `save` writes, or of PyTorch's state dict saved by safetensors.
            only: patterns of the states to load, as "trunk.*"; by default all states, and the file has no others.
            rename: new names for tensors of the file, as {"backbone.": "trunk."}; see docs/commands.md.
            layout: "torch" for names and axes of PyTorch's modules; see docs/layers.md.

        Returns:
            The loaded states, the tensors left in the file, and the states that are as before.

        Raises DataError or UsageError, and changes nothing, for tensors that cannot be loaded.
        """
        from runtime.runs.checkpoints.classes import warn_of_other_classes  # only some runs load: start-up time
        from runtime.runs.loading import load_parameters, require_no_pickle

        _require_path("load", path)
        require_no_pickle(Path(path))
        checkpoint = read_checkpoint(Path(path))
        patterns = [only] if isinstance(only, str) else only
        given = cast(object, patterns)
        if not isinstance(given, Collection) or not all(
            isinstance(each, str) for each in cast(Collection[object], given)
        ):
            raise UsageError(f"only={only!r} is no pattern of names and no list of patterns, as 'trunk.*' is")
        with self.states.locks.exclusive():
            loaded = load_parameters(checkpoint, self.program, self.states, patterns, rename, layout)
            self.states.are_given(loaded.loaded)
        warn_of_other_classes(self.program, Path(path), checkpoint.about)
        return loaded

    def close(self) -> None:
        """End all threads but the caller's."""
        self.session.workspaces.close()

    if not TYPE_CHECKING:  # a type checker knows the existing attributes

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("a Run", name, Run, _ELSEWHERE)


_ELSEWHERE: Final = {
    "eval": "run.evaluate(split) or run.predict(x)",
    "fit": "run.train(data=(x, y))",
    "load_state_dict": "run.load(path)",
    "parameters": "run.state",
    "score": "run.evaluate(split)",
    "state_dict": "run.state, or run.save(path)",
    "summary": "prograd.Program.load(path).summary(), or compiler summary program.pb",
}
"""Replacements for names that runs and models have in other frameworks."""

_OTHER_OPTIONS: Final = {
    **dict.fromkeys(("x", "y", "X"), "rows are given as data=(x, y)"),
    "batch_size": "the rows of a step are a size of the program: program.compile(batch=32)",
    "verbose": "progress=True shows the progress, and progress=False nothing",
    "sample_weight": "weights of rows are an input of the program that its loss multiplies",
    "class_weight": "weights of rows are an input of the program that its loss multiplies",
    "max_epochs": "it is called epochs",
    "validation_freq": "Program.training says it by every=",
    "learning_rate": "a rate that a run may change is a setting: program.setting('rate', 1e-3) and run.set(rate=1e-4)",
    "lr": "a rate that a run may change is a setting: program.setting('rate', 1e-3) and run.set(rate=1e-4)",
    "ckpt_path": "run.resume(path) goes on from a checkpoint",
}
"""Replacements for options that trainings have in other frameworks."""


def _with_rows(program: pb.ProgramDesc, file: Path) -> pb.ProgramDesc:
    """Return a program without data as one that trains on the rows of a file; raise UsageError if none of it trains."""
    from runtime.rows.by_names import with_rows_by_names  # few programs describe no rows

    found = with_rows_by_names(program, file)
    if not found.data.columns:
        raise UsageError("the program says nothing of data and trains nothing, so no file can take its place")
    return found


def _require_whole(numbers: Mapping[str, Any]) -> None:
    """Raise UsageError for an argument that is no whole number."""
    for name, value in numbers.items():
        is_number = hasattr(value, "__index__") and not getattr(value, "shape", ())
        if not (value is None or isinstance(value, MemoryLimit) or is_number):
            raise UsageError(f"{name}={value!r} is not a whole number")


def _require_paths(paths: Mapping[str, object]) -> None:
    """Raise UsageError for an argument that is no path."""
    for name, value in paths.items():
        if not isinstance(value, str | os.PathLike | None):
            hint = "; arrays of rows are given to train, as in run.train(data={...})" if name == "data" else ""
            raise UsageError(f"{name}={value!r} is not a path{hint}")


def _compiled(given: object) -> Compiled:
    """Return the result of `compile`.

    Raises UsageError for a path, and for anything that is no program; a Program raises its own error.
    """
    if isinstance(given, str | os.PathLike):
        raise UsageError(f"Run takes a program; prograd.load({os.fspath(given)!r}) reads one from its file")
    if not hasattr(type(given), "beside") and type(given).__name__ != "Program":
        raise UsageError(f"Run takes what program.compile(batch=32) gives, not {type(given).__name__}")
    return cast("Compiled", given)


def _missing_rows(compiled: Compiled, program: pb.ProgramDesc, folder: Path_) -> Path | None:
    """Return the file of rows without which a program that is not saved has lost its data; None if it has it."""
    desc = getattr(compiled, "desc", program)
    if program.HasField("data") or not desc.HasField("data"):
        return None
    return Path(folder, getattr(compiled, "rows_folder", ""), desc.data.file)


def _require_known(what: str, given: Mapping[str, object], function: Callable[..., object]) -> None:
    """Raise UsageError for an option that a function does not have."""
    known = [*signature(function).parameters][1:]
    for name in given:
        if name not in known:
            if name in _OTHER_OPTIONS and what in ("train", "events"):
                raise UsageError(f"{what}: there is no option {name!r}; {_OTHER_OPTIONS[name]}")
            raise UsageError(f"{what}: there is no option {name!r}{closest_or_all(name, known)}")


def _unpickled(kind: type[Run], content: PickledRun) -> Run:
    """Return a run of this class with the content of a pickle."""
    from runtime.runs.checkpoints.pickled import put_into

    run = kind(pb.ProgramDesc.FromString(content.program), content.folder, **content.options)
    put_into(content, run.session, run.standing)
    run.compiled = content.compiled
    return run
