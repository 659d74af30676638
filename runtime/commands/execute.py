"""The verb `execute`."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from prograd_proto.states import trains
from prograd_proto.wording import install_hint
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.outputs import require_free
from runtime.command_line.results import put_result
from runtime.commands.arrays.decoding import asked_columns, decoded
from runtime.commands.arrays.feeds import read_feeds, texts_as_bytes
from runtime.commands.arrays.fetches import differences, expectations, give, wanted_fetches
from runtime.commands.loaded import loaded_run
from runtime.commands.reports.metric_fields import engine_fields, metric_fields
from runtime.commands.reports.reproduce import reproducing
from runtime.commands.reports.trace import TraceFile
from runtime.commands.settings import setting_fields
from runtime.commands.verbs.running import EXECUTE
from runtime.dtypes import Array
from runtime.errors import NonFinite, OutOfTime, UsageError
from runtime.files.output import require_form
from runtime.memory.limit import MemoryLimit, peak_rss
from runtime.rows.table_names import are_images, is_table
from runtime.runs.checkpoints.checkpoint_folder import CheckpointFolder
from runtime.runs.course import MAX_STEPS_AT_ONCE
from runtime.runs.evaluation import run_over
from runtime.runs.events import Event
from runtime.runs.interrupts import Interrupted, Interrupts
from runtime.runs.metrics import scalar_fetches
from runtime.runs.overtime import Overtime
from runtime.runs.raw.decoding import Decoding
from runtime.runs.run import Run
from runtime.runs.shown.progress import Progress, new_progress
from runtime.runs.untrained import warn_if_untrained

if TYPE_CHECKING:
    from runtime.commands.reports.attest import Attestation
    from runtime.commands.reports.metrics_file import MetricsFile
    from runtime.commands.reports.watched import Watch
    from runtime.sinks.opened import OpenSinks
    from runtime.sinks.sink import Sink

Between = Callable[[], None]
Fields = list[tuple[str, object]]


NOT_INSTALLED: Final = (
    "NumPy computes the steps; the native engine makes those of the examples 2.6 to 14 times as fast: %s"
)
"""Note of a training without the package that the native engine needs; docs/native-measurements.md has the figures."""


_WITHOUT_METRICS: Final = ("entry", "steps")
"""Fields of the result of an entry without metrics."""


class Performed(NamedTuple):
    """A finished run, the fields of its result line, and a sentence for each unexpected array."""

    run: Run
    fields: Fields
    failures: list[str]


def execute(options: argparse.Namespace) -> int:
    """Run a program: its own run, or the entry that the options name.

    Results go to stdout, and the last line of it sums them up; progress and messages go to stderr.
    """
    options.attestation = None
    run, fields, failures = perform(options)
    if options.record:
        from runtime.commands.reports.record import record  # queries the system, which costs start-up time

        record(options, run, dict(fields))
    if options.attestation is not None:
        options.attestation.write(dict(fields), run.position.metrics | run.position.evaluation)
    for failure in failures:
        options.say(failure)
    put_result(options, "FAILED" if failures else "OK", fields)
    return EXIT_FAILED if failures else EXIT_DONE


def perform(options: argparse.Namespace) -> Performed:
    """Run a program, and write all requested outputs but the result line."""
    start = perf_counter()
    _require_consistent(options)
    columns = asked_columns(options.decode)
    wanted = wanted_fetches(options.fetch)
    wanted += wanted_fetches([name for name in columns if name not in {fetch.name for fetch in wanted}])
    if options.sandbox:
        from runtime.commands.sandbox import enter_sandbox  # few commands need it

        enter_sandbox(options.max_memory, options.max_time, options.threads)
    memory = MemoryLimit(options.max_memory, of_process=True, threads=options.threads)
    expected = expectations(options.expect, memory)
    names = list(dict.fromkeys([fetch.name for fetch in wanted] + list(expected)))
    _require_free(options, [fetch.file for fetch in wanted])
    feeds = read_feeds(options.feed, memory) or None
    table = _taken_table(options)
    with ExitStack() as stack:
        _log_to(options, stack)
        overtime = stack.enter_context(Overtime(options.max_time, options.say))
        options.memory = memory
        run = _loaded(options)
        stack.callback(run.close)
        run.session.stepper.overtime = overtime
        trace = TraceFile(options.trace, list(run.program.locations)) if options.trace else None
        run.session.stepper.trace = trace
        spelled = run.session.names
        wanted = [fetch._replace(name=spelled.own(fetch.name)) for fetch in wanted]
        names = list(dict.fromkeys(map(spelled.own, names)))
        expected, columns = run.session.named(expected), run.session.named(columns)
        feeds = None if feeds is None else run.session.named(feeds)
        entry = options.entry or run.session.training_entry()
        is_training = trains(run.program, run.session.bindings(entry)[0].block)
        between = _together(options, run, entry, _limits(options.interrupts, overtime), is_training=is_training)
        with reproducing(options, run):
            if options.out:
                arrays, fields = _write_table(options, run, entry, table, feeds, columns, names, between)
            elif is_training:
                with _saving_the_best(options, run):
                    arrays, fields = _train(options, run, entry, feeds, names, between, overtime, stack)
            else:
                arrays, fields = _run_over(options, run, entry, feeds, names, between)
        if not is_training and (run.session.group is None or not run.session.group.rank):
            warn_if_untrained(run.session, entry)
        if trace is not None:
            trace.write(force=options.force)
        given = {} if options.out else decoded(run, columns, arrays)
    if not options.out and _is_first(run):
        give(wanted, given, force=options.force, classes=lambda n: _class_names(run, n))
        if not is_training and not options.quiet:
            _hint(options, run, entry, [fetch.name for fetch in wanted if fetch.file is None], fields)
    _save(options, run)
    failures = differences(expected, arrays, rtol=options.rtol, atol=options.atol)
    return Performed(run, fields + _common_fields(options, run, perf_counter() - start), failures)


def _hint(options: argparse.Namespace, run: Run, entry: str, printed: list[str], fields: Fields) -> None:
    """Log how to see predictions, unless metrics or files are what is asked for."""
    from runtime.commands.arrays.hints import hint_at_outputs  # reads the encoding, which quiet commands need not

    asked = (options.fetch, options.decode, options.expect, options.save, options.in_place, options.trace)
    is_shown = any(asked) or len(fields) > len(_WITHOUT_METRICS)
    printed = [name for name in printed if name not in asked_columns(options.decode)]
    hint_at_outputs(run, entry, printed, options.say, is_shown=is_shown)


def _save(options: argparse.Namespace, run: Run) -> Path | None:
    """Write the states to the file of --save or --in-place, and return its path."""
    path: Path | None = options.save or (options.load if options.in_place else None)
    if path is not None:
        layout = "prograd" if options.load else options.layout
        run.save(path, layout=layout, force=options.force or options.in_place)
    return path


@contextmanager
def _saving_the_best(options: argparse.Namespace, run: Run) -> Generator[None]:
    """Save the best states if a training diverges and has restored them; let the error say which files are left."""
    try:
        yield
    except NonFinite as error:
        kept = ""
        if error.is_restored and (run.session.group is None or error.step is None):  # else other ranks do not save
            path = _save(options, run)
            kept = "" if path is None else f", and {path} has them"
        raise NonFinite(f"{error}{kept}{_kept(options)}", error.step, is_restored=error.is_restored) from None


def _together(options: argparse.Namespace, run: Run, entry: str, between: Between, *, is_training: bool) -> Between:
    """Let all ranks of a run agree on it; return a function that stops them at one step."""
    group = run.session.group
    if group is None or group.size == 1:
        return between
    from runtime.commands.ranks import agreed, between_ranks

    agreed(options, run, group, entry, trains=is_training)
    return between_ranks(group, between)


def _is_first(run: Run) -> bool:
    """Return True for the process that writes the files; ranks that end a run have equal states."""
    group = run.session.group
    if group is None:
        return True
    group.require_equal(run.state_sha256, f"at the end, after step {run.position.steps}")
    return group.rank == 0


def _class_names(run: Run, count: int) -> list[str] | None:
    from runtime.rows.encoding.class_names import class_names  # few runs print a confusion matrix

    return class_names(run.program, count)


def _train(
    options: argparse.Namespace,
    run: Run,
    entry: str,
    feeds: Mapping[str, object] | None,
    fetch: list[str],
    between: Between,
    overtime: Overtime,
    stack: ExitStack,
) -> tuple[dict[str, Array], Fields]:
    """Train, and return the fetches of the last step and the fields of the result."""
    _require_entries(options, "training", f"shares the rows of a prediction, and the entry {entry!r} trains")
    file = _metrics_file(options, run, entry)
    watch = _watch(options, run, entry)
    asked = _sinks(options)
    attestation = options.attestation = _attestation(options, run)
    interval = None if attestation is None else attestation.every
    try:
        events = run.events(
            between=between,
            entry=entry,
            epochs=options.epochs,
            steps=options.steps,
            data=feeds or options.split,
            shuffle=False if feeds else None,
            fold=options.fold,
            fetch=list(dict.fromkeys([*fetch, *(watch.fetch if watch is not None else ())])),
            checkpoint=options.checkpoint,
            every=options.every or (interval if options.checkpoint else None),
            keep=options.keep,
            keep_best=options.keep_best,
            force=options.force,
            ahead=MAX_STEPS_AT_ONCE,
            retarget_schedule=options.retarget_schedule,
            change_data=options.change_data,
            before_checkpoint=_before_checkpoint(file, attestation),
            pauses=interval,
        )
        if run.session.why_not_native == "no_llvmlite":
            logging.getLogger("prograd").info(NOT_INSTALLED, install_hint("native"))
        progress = _progress(options, run, stack)
        if file is not None:
            _open_metrics(file, options, run, entry)
            stack.callback(file.close)
        sinks = _opened(asked, options, run, entry, stack)
        options.interrupts.hold(overtime.ask)  # nothing was begun until here
        overtime.hold(keeps=options.checkpoint is not None)
        for event in events:
            if attestation is not None:
                attestation.take(event)
            _write(event, [] if watch is None else list(watch.after(event)), file, sinks)
            progress.show(event)
    except Interrupted as stop:
        raise Interrupted(stop.number, _interrupted(options, run.position.steps)) from None
    except OutOfTime as error:
        raise OutOfTime(f"{error}{_kept(options)}") from None
    if fetch and not run.fetched:
        raise UsageError("the run is at its end already, so no step fetches anything; run another entry")
    position = run.position
    loss = {"loss": position.metrics["loss"]} if "loss" in position.metrics else position.metrics
    evaluated = run.program.run.evaluate.entry
    fields: Fields = [("entry", entry), ("steps", max(position.reached, position.steps)), *metric_fields(loss)]
    fields += [(f"{evaluated}.{name}", value) for name, value in position.evaluation.items()]
    return {name: run.fetched[name] for name in fetch}, fields


def _require_entries(options: argparse.Namespace, entries: str, why: str) -> None:
    """Raise UsageError for an option that only entries of another kind have."""
    for option in EXECUTE.options:
        if option.entries not in ("", entries) and option.is_given(options):
            raise UsageError(f"{option.flags[-1]} {why}")


def _run_over(
    options: argparse.Namespace,
    run: Run,
    entry: str,
    feeds: Mapping[str, object] | None,
    fetch: list[str],
    between: Between,
) -> tuple[dict[str, Array], Fields]:
    """Run an entry that does not train over rows; return its fetches and the fields of the result."""
    _require_entries(options, "prediction", f"belongs to training, and the entry {entry!r} does not train")
    if feeds:
        feeds = texts_as_bytes(feeds, {name: feed.type for name, feed in run.session.bindings(entry)[0].feeds.items()})
    asked = run.program.run.evaluate
    split = options.split or (asked.split if asked.entry == entry else None)
    rows = run.session.rows(entry, feeds or split)
    if run.session.group is not None:
        from runtime.commands.ranks import agree_on_rows  # few runs have several processes

        agree_on_rows(run.session.group, rows)
    if options.scheduler:
        from runtime.commands.parts.cluster import by_cluster  # few runs have a cluster

        arrays, steps = by_cluster(options, run, entry, rows, fetch, between)
        return arrays, [("entry", entry), ("steps", steps)]
    if options.part:
        from runtime.commands.parts.part import rows_of_part

        rows = rows_of_part(run.session, entry, rows, options.part)
    results = run_over(run.session, entry, rows, fetch=fetch, between=between)
    return results.arrays, [("entry", entry), ("steps", results.steps), *metric_fields(results.metrics)]


def _taken_table(options: argparse.Namespace) -> Path | None:
    """Return the new rows that `--out` predicts piece by piece, and take them away from the program's data.

    They are a table, or images.
    """
    if not options.out or options.data is None or not (is_table(options.data) or are_images(options.data)):
        return None
    if options.feed or options.split:
        raise UsageError(f"--data {options.data} has the rows, and so has --{'feed' if options.feed else 'split'}")
    table, options.data = options.data, None
    return table


def _write_table(
    options: argparse.Namespace,
    run: Run,
    entry: str,
    table: Path | None,
    feeds: Mapping[str, object] | None,
    decode: Mapping[str, str],
    fetch: list[str],
    between: Between,
) -> tuple[dict[str, Array], Fields]:
    """Write the predictions of an entry as a table, and return the fields of the result."""
    from runtime.commands.tables.predict import Asked, predict_to_file  # few commands need it

    if trains(run.program, run.session.bindings(entry)[0].block):
        raise UsageError(f"--out is a table of predictions, and the entry {entry!r} trains; say --entry predict")
    rows = feeds or options.split
    if run.session.group is not None:
        from runtime.commands.ranks import agree_on_rows, agree_on_table  # few runs have several processes

        if table is None:
            agree_on_rows(run.session.group, run.session.rows(entry, rows))
        else:
            agree_on_table(run.session.group, table)
    shown = [name for name in fetch if name not in decode]
    asked = Asked(options.out, table, rows, options.id, Decoding(run.session, decode), shown)
    count = predict_to_file(run, entry, asked, force=options.force, between=between)
    return {}, [("entry", entry), ("rows", count)]


def _loaded(options: argparse.Namespace) -> Run:
    """Return the program, with the requested states."""
    run = loaded_run(options, check_nan=options.check_nan, memory=options.memory)
    if options.load and not options.resume:
        loaded = run.load(options.load, only=options.only, rename=dict(options.rename), layout=options.layout)
        if options.only or options.rename or options.layout != "prograd":
            logging.getLogger("prograd").info("%s: %s", options.load, loaded)
    elif options.load:
        run.resume(options.load, change_settings=options.change_settings)
    elif options.resume:
        folder = CheckpointFolder(options.checkpoint)
        if folder.files():
            run.resume(options.checkpoint, change_settings=options.change_settings)
        else:
            text = "%s: there is no checkpoint yet; the run begins%s"
            logging.getLogger("prograd").warning(text, options.checkpoint, folder.hint())
    run.states.require()  # before any work: the result line has the hash of all states
    return run


def _require_consistent(options: argparse.Namespace) -> None:
    """Raise UsageError for options whose values contradict each other."""
    rules = (
        (
            options.out and any("=@" in name for name in options.fetch),
            "--out writes fetches as columns of one table, and --fetch NAME=@FILE as files; leave one of them out",
        ),
        (
            options.metrics and options.metrics.suffix not in (".csv", ".jsonl"),
            f"--metrics {options.metrics}: the name ends in neither .csv nor .jsonl",
        ),
        (
            options.watch
            and options.tensorboard is None
            and (options.metrics is None or options.metrics.suffix != ".jsonl"),
            "--watch writes histograms into a .jsonl file of metrics or a folder of --tensorboard; name one",
        ),
    )
    for broken, text in rules:
        if broken:
            raise UsageError(text)


def _require_free(options: argparse.Namespace, fetched: list[Path | None]) -> None:
    """Raise UsageError before the run for a file that the run could not write at its end."""
    if options.reproduce is not None:
        from runtime.runs.reproducer import require_folder

        require_folder(options.reproduce, force=options.force)
    if options.out:
        from runtime.commands.tables.writers import require_writer

        require_writer(options.out)
    outputs = [options.save, options.out, options.trace, options.record, options.attest, *fetched]
    if not options.resume:
        outputs.append(options.metrics)
    require_free(outputs, force=options.force)
    for path, suffix, what in (
        (options.load if options.in_place else options.save, ".safetensors", "states"),
        (options.trace, ".json", "traces"),
        (options.record, ".json", "records"),
        (options.attest, ".json", "statements"),
    ):
        if path is not None:
            require_form(path, suffix, what)


def _limits(interrupts: Interrupts, overtime: Overtime) -> Between:
    def between() -> None:
        interrupts.check()
        overtime.check()

    return between


def _log_to(options: argparse.Namespace, stack: ExitStack) -> None:
    """Log to stderr as the options ask: notes too, unless the command is quiet."""
    logger = logging.getLogger("prograd")
    stack.callback(logger.setLevel, logger.level)
    logger.setLevel(logging.WARNING if options.quiet else logging.INFO)
    options.say.show = new_progress("none", options.log_format, 0, 0).say
    if options.log_format == "json":
        options.say.level = logging.ERROR  # plain sentences need no label


def _progress(options: argparse.Namespace, run: Run, stack: ExitStack) -> Progress:
    kind = "none" if options.quiet else options.progress
    total = int(run.states.arrays["total_steps"])
    silent = options.say.show
    progress = new_progress(kind, options.log_format, run.position.steps, total)
    options.say.show = progress.say

    def close() -> None:
        progress.close()
        options.say.show = silent

    stack.callback(close)
    return progress


def _metrics_file(options: argparse.Namespace, run: Run, entry: str) -> MetricsFile | None:
    if options.metrics is None:
        return None
    from runtime.commands.reports.metrics_file import MetricsFile  # imports csv and json, which costs start-up time

    names = [fetch.name for fetch in scalar_fetches(run.session.bindings(entry)[0])]
    evaluated = run.program.run.evaluate.entry if run.program.run.entry == entry else ""
    if evaluated:
        names += [f"{evaluated}.{fetch.name}" for fetch in scalar_fetches(run.session.bindings(evaluated)[0])]
    return MetricsFile(options.metrics, names, evaluates=bool(evaluated))


def _watch(options: argparse.Namespace, run: Run, entry: str) -> Watch | None:
    if not options.watch:
        return None
    from runtime.commands.reports.watched import Watch  # few commands need it

    watch = Watch(run, entry, options.watch)
    if watch.missing:
        first, more = watch.missing[0], len(watch.missing) - 1
        which = f"{first!r}{f' and of {more} more' if more else ''}"
        options.say(f"--watch: the gradient of {which} is no tensor of the compiled step, and is not watched")
    return watch


def _attestation(options: argparse.Namespace, run: Run) -> Attestation | None:
    if options.attest is None:
        return None
    from runtime.commands.reports.attest import Attestation  # few commands need it

    return Attestation(options, run)


def _before_checkpoint(file: MetricsFile | None, attestation: Attestation | None) -> Callable[[], None] | None:
    """Return a function that puts on the disk what must be there with a checkpoint; None if there is nothing."""
    calls = [] if file is None else [file.sync]
    calls += [] if attestation is None else [attestation.keep]

    def call_all() -> None:
        for call in calls:
            call()

    return call_all if calls else None


def _sinks(options: argparse.Namespace) -> list[Sink]:
    if options.tensorboard is None and options.mlflow is None and options.wandb is None:
        return []
    from runtime.sinks.opened import sinks_of  # few commands need it

    return sinks_of(options)


def _opened(sinks: list[Sink], options: argparse.Namespace, run: Run, entry: str, stack: ExitStack) -> OpenSinks | None:
    if not sinks:
        return None
    from runtime.sinks.opened import OpenSinks

    return stack.enter_context(OpenSinks(sinks, run, entry, force=options.force or options.resume))


def _write(event: Event, more: list[Mapping[str, object]], file: MetricsFile | None, sinks: OpenSinks | None) -> None:
    if file is not None:
        file.write(event, more)
    if sinks is not None:
        sinks.write(event, more)


def _open_metrics(file: MetricsFile, options: argparse.Namespace, run: Run, entry: str) -> None:
    """Begin the file, or continue it where the run resumes."""
    if options.resume and not options.force:
        per_epoch = -(-run.position.rows // run.session.bindings(entry)[0].rows)
        file.reopen(run.position, options.every or per_epoch)
    else:
        file.open(force=options.force)


def _interrupted(options: argparse.Namespace, steps: int) -> str:
    if options.checkpoint is None:
        return f"interrupted after step {steps}; no checkpoint was asked for"
    if not CheckpointFolder(options.checkpoint).files():
        return f"interrupted after step {steps}{_kept(options)}"
    return f"interrupted after step {steps}; --resume goes on from the checkpoint in {options.checkpoint}"


def _kept(options: argparse.Namespace) -> str:
    if options.checkpoint is None:
        return ""
    if not CheckpointFolder(options.checkpoint).files():
        return f"; there is no checkpoint in {options.checkpoint} yet, so the next run begins at step 1"
    return f"; --resume goes on from the last checkpoint in {options.checkpoint}"


def _common_fields(options: argparse.Namespace, run: Run, seconds: float) -> Fields:
    spilled = [("spill", run.session.workspaces.file_bytes)] if run.session.workspaces.file_bytes else []
    return [
        *setting_fields(run),
        ("wall", f"{seconds:.3f}"),
        ("arena", run.session.workspaces.arena_bytes),
        *spilled,
        ("state", run.states.nbytes),
        ("rss", peak_rss()),
        *engine_fields(run),
        ("threads", run.session.threads),
        ("state_sha256", run.states.sha256()),
    ]
