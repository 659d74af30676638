"""The verb `sweep`: run a program with several values of its settings, concurrently, and print one table."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import perf_counter
from typing import TextIO

from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.regular_files import open_lines
from prograd_proto.settings import settings_among
from runtime.check.settings import check_settings
from runtime.command_line.ending import EXIT_DONE, EXIT_FAILED
from runtime.command_line.outputs import require_free
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.commands.sweeps.runs import Here, Outcome, Started, Trial, outcomes, trials
from runtime.commands.sweeps.search import Bayes, Domain, Number, Range, Settings, combinations, domain_of, samples
from runtime.commands.sweeps.seeds import groups_of, seed_table, spread
from runtime.commands.sweeps.table import as_json, in_order, judged_by, metrics_of, table
from runtime.commands.verbs.sweeping import SWEEP
from runtime.errors import UsageError
from runtime.files.output import require_form, writing
from runtime.runs.interrupts import Interrupted
from runtime.runs.settings import checked_setting

Fields = list[tuple[str, object]]
MOST = 10_000
"""Upper bound on the runs of one sweep."""


def sweep(options: argparse.Namespace) -> int:
    """Run a program with every combination of settings and seeds; the code is 1 if a run failed."""
    start = perf_counter()
    require_free([options.results], force=options.force)
    if options.results is not None:
        require_form(options.results, ".jsonl", "results")
    program = load(options.program)
    check_settings(program)
    if options.merge:
        return _merge(options, program)
    domains = _domains(options, program)
    begin = program.seed if options.seed is None else options.seed
    seeds = [begin + i for i in range(options.seeds)]
    if seeds[-1] >= 1 << 63:
        raise UsageError(f"--seeds {options.seeds}: the seeds from {begin} on leave 64 bits")
    each = len(seeds) * (options.folds or 1)
    if options.folds == 1:
        raise UsageError("--folds 1: there are two folds or more, as one of them is evaluated on and the others train")
    count = each * _count(options, domains)
    if count > MOST:
        raise UsageError(f"these are {count} runs; a sweep has at most {MOST}")
    proposed = _proposed(options, domains, begin)
    asked = _tracked(options, trials(options.program, proposed, seeds, SWEEP.passed(options), folds=options.folds))
    if options.part:
        asked, count = _part(options, asked, count)
    done: list[Outcome] = []
    try:
        _run(options, asked, count, done, _told(program, proposed, each))
    except Interrupted as stop:
        _show(options, program, done)
        raise Interrupted(stop.number, f"interrupted after {len(done)} of {count} runs") from None
    return _ended(options, program, done, [("wall", f"{perf_counter() - start:.3f}")])


def _tracked(options: argparse.Namespace, asked: Iterable[Trial]) -> Iterable[Trial]:
    """Return the runs with the options of trackers, and of TensorBoard a folder for each.

    Raise UsageError if a package is missing.
    """
    if options.tensorboard is None and options.mlflow is None and options.wandb is None:
        return asked
    from runtime.sinks.opened import sinks_of  # few sweeps have trackers

    sinks_of(options)
    more = [word for name in ("mlflow", "wandb") if (value := getattr(options, name)) for word in (f"--{name}", value)]

    def words(trial: Trial) -> list[str]:
        if options.tensorboard is None:
            return more
        folder = ["--tensorboard", str(options.tensorboard / f"run-{trial.number}")]
        return [*folder, *(["--force"] if options.force else []), *more]

    return (trial._replace(words=[*trial.words, *words(trial)]) for trial in asked)


def _part(options: argparse.Namespace, asked: Iterable[Trial], count: int) -> tuple[Iterable[Trial], int]:
    """Return the runs of a part, and their number."""
    one, parts = options.part
    return (trial for trial in asked if (trial.number - one) % parts == 0), len(range(one, count + 1, parts))


def _merge(options: argparse.Namespace, program: pb.ProgramDesc) -> int:
    """Print the table of runs that were made before; the code is 1 if one of them failed."""
    from runtime.commands.sweeps.merged import merged  # few sweeps have parts

    done = merged(options.merge)
    for outcome in done if options.json else ():
        put(json.dumps(as_json(outcome)))
    return _ended(options, program, done, [])


def _ended(options: argparse.Namespace, program: pb.ProgramDesc, done: Sequence[Outcome], more: Fields) -> int:
    """Print the table and the result line; return 1 if a run failed."""
    _show(options, program, done)
    failed = sum(outcome.code != 0 for outcome in done)
    put_result(
        options, "FAILED" if failed else "OK", [("runs", len(done)), ("failed", failed), *_best(program, done), *more]
    )
    return EXIT_FAILED if failed else EXIT_DONE


def _count(options: argparse.Namespace, domains: Mapping[str, Domain]) -> int:
    """Return the number of settings that are tried."""
    return options.random or options.bayes or len(combinations(domains))


def _proposed(options: argparse.Namespace, domains: Mapping[str, Domain], seed: int) -> list[Settings] | Bayes:
    if options.bayes:
        return Bayes(domains, options.bayes, seed)
    return samples(domains, options.random, seed) if options.random else combinations(domains)


def _told(program: pb.ProgramDesc, proposed: list[Settings] | Bayes, each: int) -> Callable[[Outcome], None]:
    """Return a function that tells a search the mean value of settings when all of their runs have ended."""
    ended: dict[int, list[Outcome]] = {}

    def tell(outcome: Outcome) -> None:
        settings = outcome.trial.settings
        runs = ended.setdefault(id(settings), [])
        runs.append(outcome)
        if len(runs) == each and isinstance(proposed, Bayes):
            name, more_is_better = judged_by(program, runs)
            values = [metrics_of(run).get(name, math.nan) if run.code == 0 else math.nan for run in runs]
            proposed.tell(settings, (-1 if more_is_better else 1) * sum(values) / each)

    return tell


def _best(program: pb.ProgramDesc, done: Sequence[Outcome]) -> Fields:
    """Return the fields of the best run; of folds, those of the settings with the best mean."""
    name, _ = judged_by(program, done)
    if not name or all(outcome.code for outcome in done):
        return []
    if not any(outcome.trial.fold for outcome in done):
        best = in_order(program, done)[0]
        return [("best", best.trial.number), (name, best.fields.get(name, "none"))]
    settings, group = next(iter(groups_of(program, done).items()))
    middle, deviation = spread(group, name)
    told: Fields = [(f"best.{setting}", number) for setting, number in settings]
    return [*told, (f"mean.{name}", f"{middle:.6g}"), (f"deviation.{name}", f"{deviation:.6g}")]


def _show(options: argparse.Namespace, program: pb.ProgramDesc, done: Sequence[Outcome]) -> None:
    if done and not options.json:
        for line in table(program, done):
            put(line)
        for place, line in enumerate(seed_table(program, done)):
            put(line if place else f"\n{line}")


def _run(
    options: argparse.Namespace,
    asked: Iterable[Trial],
    count: int,
    done: list[Outcome],
    tell: Callable[[Outcome], None],
) -> None:
    with ExitStack() as stack:
        path: Path | None = options.results
        file = None if path is None else stack.enter_context(_opened(path))
        options.interrupts.hold()  # from here on there are runs that must be ended first
        started, jobs = _started(options)
        found = stack.enter_context(closing(outcomes(asked, jobs, options.interrupts.check, tell, started)))
        for outcome in found:
            done.append(outcome)
            line = json.dumps(as_json(outcome))
            if file is not None and path is not None:
                with writing(path):
                    file.write(line + "\n")
                    file.flush()
            if options.json:
                put(line)
            if outcome.error:
                options.say(f"run {outcome.trial.number}, {outcome.trial}, failed: {outcome.error}")
            elif not options.quiet:
                options.say(f"run {outcome.trial.number}, {outcome.trial}, is done: {len(done)} of {count}")


def _started(options: argparse.Namespace) -> tuple[Started, int]:
    """Return the place where runs are made, and how many run there at a time."""
    if not options.scheduler:
        jobs = options.jobs or 1
        return Here(jobs), jobs
    from runtime.commands.sweeps.cluster import Cluster  # few sweeps have a cluster

    cluster = Cluster(options.scheduler)
    return cluster, options.jobs or cluster.cores


def _domains(options: argparse.Namespace, program: pb.ProgramDesc) -> dict[str, Domain]:
    """Return values by setting; raise UsageError for a setting that does not exist, or a value out of its range."""
    descs = {state.name: state for state in settings_among(program.states)}
    found: dict[str, Domain] = {}
    choices: list[tuple[str, list[Number] | tuple[Number, Number, bool]]] = options.choices
    for name, numbers in choices:
        if name in found:
            raise UsageError(f"--set {name}: the setting is given twice; give all its values at once, as in 1e-3,1e-4")
        ends = numbers[:2] if isinstance(numbers, tuple) else numbers
        checked = [checked_setting(descs, name, number) for number in ends]
        whole = descs[name].dtype == pb.D_TYPE_INT64
        values = Range(checked[0], checked[1], numbers[2]) if isinstance(numbers, tuple) else checked
        found[name] = domain_of(values, name, whole=whole)
    return found


def _opened(path: Path) -> TextIO:
    with writing(path):
        return open_lines(path, append=False)
