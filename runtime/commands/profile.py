"""The verb `profile`."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.states import trains
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.outputs import require_free
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.commands.arrays.feeds import read_feeds
from runtime.commands.loaded import loaded_run
from runtime.commands.reports.metric_fields import engine_fields
from runtime.commands.reports.trace import TraceFile, stage_of, thread_name
from runtime.dtypes import numpy_dtype
from runtime.engines.engine import Executor
from runtime.engines.parts import Part, Spell, TimeInBlocks
from runtime.entries import BoundEntry
from runtime.files.output import require_form
from runtime.rows.rows import Rows
from runtime.runs.overtime import Overtime
from runtime.runs.run import Run


class Spent(NamedTuple):
    """The time of the parts with one name, and the peak of live arena bytes while one of them runs.

    Attributes:
        name: name of the parts.
        calls: number of calls over all steps.
        seconds: seconds over all steps.
        median: median seconds of a step over all steps, which one slow step does not change.
        alive: peak of live bytes.
    """

    name: str
    calls: int
    seconds: float
    median: float
    alive: int


class Measured(NamedTuple):
    """The measurements of the timed steps."""

    steps: list[list[Spell]]
    wall: list[float]  # seconds of each step, from the first op or copy to the last
    reading: list[float]  # seconds that reading its rows took
    alive: list[int]  # live bytes of the arena while each part runs, in the order of the list
    inside: list[Spent]  # ops in the blocks of loops and conditions, measured in steps of their own


def profile(options: argparse.Namespace) -> int:
    """Time every op of an entry over some steps by type, stage, line, thread or one by one, with the memory in use.

    The states that the steps change are not kept. Feeds without data and without --feed are zeros.
    """
    require_free([options.trace], force=options.force)
    if options.trace is not None:
        require_form(options.trace, ".json", "traces")
    if options.sandbox:
        from runtime.commands.sandbox import enter_sandbox  # few commands need it

        enter_sandbox(options.max_memory, options.max_time, options.threads)
    with Overtime(options.max_time, options.say):  # nothing is kept, so the time may end anywhere
        return _profile(options)


def _profile(options: argparse.Namespace) -> int:
    feeds = read_feeds(options.feed) or None
    run = loaded_run(options)
    try:
        entry = options.entry or run.session.training_entry()
        _agree(options, run, entry)
        bound = run.session.bindings(entry)[0]
        executor = run.session.workspaces.executor(bound)
        trace = TraceFile(options.trace, list(run.program.locations)) if options.trace else None
        measured = _measured(executor, rows_or_zeros(run, bound, feeds, options.split), bound, options.steps, trace)
    finally:
        run.close()
    if trace is not None:
        trace.write(force=options.force)
    _print(options, run, bound, executor, measured)
    return EXIT_DONE


def _agree(options: argparse.Namespace, run: Run, entry: str) -> None:
    """Let all ranks of a run agree on the step that they measure together."""
    group = run.session.group
    if group is None or group.size == 1:
        return
    from runtime.commands.ranks import agreed

    agreed(options, run, group, entry, trains=trains(run.program, run.session.bindings(entry)[0].block))


def rows_or_zeros(run: Run, bound: BoundEntry, feeds: Mapping[str, object] | None, split: str | None) -> Rows:
    """Return the rows for an entry: the given ones, else the program's, else zeros, with a message."""
    if feeds is not None or run.session.data.exists:
        return run.session.steps(bound.name, run.session.rows(bound.name, feeds or split)).rows
    if bound.feeds:
        logging.getLogger("prograd").warning("the program has no data, so its feeds are zeros")
    zeros = {feed.name: np.zeros(feed.type.static_shape, numpy_dtype(feed.type.dtype)) for feed in bound.feeds.values()}
    return run.session.rows(bound.name, zeros)


def _measured(executor: Executor, rows: Rows, bound: BoundEntry, steps: int, trace: TraceFile | None) -> Measured:
    found: list[list[Spell]] = []
    wall: list[float] = []
    reading: list[float] = []
    first = 2  # caches fill
    for number in range(first + steps):
        asked = perf_counter()
        rows.fill(executor.feeds, number * bound.rows % (len(rows) - bound.rows + 1))
        begin = perf_counter()
        spells = executor.profile_step()
        end = perf_counter()
        if number < first:
            continue
        found.append(spells)
        wall.append(end - begin)
        reading.append(begin - asked)
        if trace is not None:
            trace.note(executor, begin, spells, end)
    has_blocks = any(op.blocks for part in executor.parts for op in part.ops)
    inside = _inside([_blocks_profiled(executor, rows) for _ in range(steps)]) if has_blocks else []
    return Measured(found, wall, reading, _alive(executor), inside)


def _blocks_profiled(executor: Executor, rows: Rows) -> Sequence[TimeInBlocks]:
    """Make a step that times the ops in blocks, with rows of its own: the step before may have overwritten them."""
    rows.fill(executor.feeds, 0)
    return executor.profile_blocks()


def _inside(steps: Sequence[Sequence[TimeInBlocks]]) -> list[Spent]:
    """Return the times of ops in blocks over all steps, the longest first."""
    times: dict[str, list[float]] = {}
    calls: Counter[str] = Counter()
    for number, step in enumerate(steps):
        for name, count, seconds in step:
            times.setdefault(name, [0.0] * len(steps))[number] = seconds
            calls[name] += count
    found = [Spent(name, calls[name], sum(seconds), median(seconds), 0) for name, seconds in times.items()]
    return sorted(found, key=lambda group: (-group.median, group.name))


def _alive(executor: Executor) -> list[int]:
    """Return the live bytes of the arena while each part runs, in the order of the list."""
    change = [0] * (len(executor.parts) + 1)
    for buffer in executor.buffers:
        first = 0 if buffer.fed or not buffer.parts else buffer.parts[0]
        last = len(executor.parts) - 1 if buffer.kept or not buffer.parts else buffer.parts[-1]
        change[first] += buffer.nbytes
        change[last + 1] -= buffer.nbytes
    total = 0
    return [total := total + step for step in change[:-1]]


def _print(options: argparse.Namespace, run: Run, bound: BoundEntry, executor: Executor, measured: Measured) -> None:
    program, parts = run.program, executor.parts
    names: dict[str, Callable[[Part, Spell], str]] = {
        "type": lambda part, _: part.name,
        "stage": lambda part, _: stage_of(part),
        "line": lambda part, _: line_of(program, part.ops[-1]) or "none",
        "thread": lambda _, spell: thread_name(spell.thread),
        "op": lambda part, _: _described(program, part),
    }
    tables = {by: _grouped(parts, measured, name) for by, name in names.items()}
    threads = ["thread"] if options.threads > 1 or executor.footprint.file else []
    chosen = [options.by] if options.by else ["type", "stage", "line", *threads]
    totals = [sum(spell.stop - spell.start for spell in step) for step in measured.steps]
    peak = max(measured.alive, default=0)
    if options.json:
        _print_json(options, bound, tables, measured, sum(totals), peak)
        return
    for by in chosen:
        put(_table(by, tables[by], options.steps))
    if measured.inside:
        put(_table("in loops and conditions", measured.inside, options.steps, has_memory=False))
    if peak:
        part = parts[measured.alive.index(peak)]
        put(f"most memory: {peak} bytes of the arena are alive while op {_described(program, part)} runs\n")
    stages = {group.name: group.median for group in tables["stage"]}
    fields: list[tuple[str, object]] = [("entry", bound.name), ("steps", options.steps), ("ops", len(parts))]
    fields += [("seconds_per_step", median(totals)), ("wall_per_step", median(measured.wall))]
    if bound.feeds:
        fields += _rates(bound, measured)
    fields += [("forward", stages.get("forward", 0.0))]
    fields += [("backward", sum(stages.get(name, 0.0) for name in ("gradient", "derivative", "recompute")))]
    fields += [("update", stages.get("update", 0.0))]
    fields += [("transfer", stages["transfer"])] if "transfer" in stages else []
    fields += [
        ("arena", executor.footprint.arena),
        ("peak", peak),
        *engine_fields(run),
        ("threads", run.session.threads),
    ]
    put_result(options, "OK", fields)


def _rates(bound: BoundEntry, measured: Measured) -> list[tuple[str, object]]:
    """Return the rows per second of the median step, and of reading."""
    wall, reading = median(measured.wall), max(median(measured.reading), 1e-9)
    return [("rows_per_second", bound.rows / wall), ("read_per_second", bound.rows / reading)]


def _grouped(parts: Sequence[Part], measured: Measured, name_of: Callable[[Part, Spell], str]) -> list[Spent]:
    """Return the times by name, the longest first."""
    times: dict[str, list[float]] = {}
    calls: Counter[str] = Counter()
    most: dict[str, int] = {}
    for number, step in enumerate(measured.steps):
        for spell in step:
            name = name_of(parts[spell.part], spell)
            times.setdefault(name, [0.0] * len(measured.steps))[number] += spell.stop - spell.start
            calls[name] += 1
            most[name] = max(most.get(name, 0), measured.alive[spell.part])
    groups = [Spent(name, calls[name], sum(found), median(found), most[name]) for name, found in times.items()]
    return sorted(groups, key=lambda group: (-group.median, group.name))


def _described(program: pb.ProgramDesc, part: Part) -> str:
    op = part.ops[-1]
    line = line_of(program, op)
    more = f" with {len(part.ops) - 1} before it" if len(part.ops) > 1 else ""
    return sentence(f"{op.id} {part.name} -> {','.join(op.outputs)}{line and f' {line}'}{more}", MAX_WORD_CHARACTERS)


def line_of(program: pb.ProgramDesc, op: pb.OpDesc) -> str:
    """Return the user's line of an op, or an empty string if it is unknown."""
    return sentence(program.locations[op.location - 1], MAX_WORD_CHARACTERS) if op.location else ""


def _table(title: str, groups: Sequence[Spent], steps: int, *, has_memory: bool = True) -> str:
    total = sum(group.median for group in groups)
    width = max([len(title), 12, *(len(group.name) for group in groups)])
    lines = [f"{title:<{width}}  calls/step   us/step    us/call   share{'  alive KiB' * has_memory}"]
    for name, calls, _, middle, alive in groups:
        step, call, share = middle * 1e6, middle * steps / calls * 1e6, middle / total if total else 0.0
        memory = f"  {alive / 1024:9.1f}" * has_memory
        lines.append(f"{name:<{width}}  {calls / steps:10.4g}  {step:8.1f}  {call:9.2f}  {share:6.1%}{memory}")
    return "\n".join([*lines, ""])


def _print_json(
    options: argparse.Namespace,
    bound: BoundEntry,
    tables: Mapping[str, Sequence[Spent]],
    measured: Measured,
    total: float,
    peak: int,
) -> None:
    from json import dumps

    values = {
        "entry": bound.name,
        "steps": options.steps,
        "seconds": total,
        "wall": sum(measured.wall),
        "reading": sum(measured.reading),
        "peak": peak,
        "alive": measured.alive,
        "inside": [{key: x for key, x in group._asdict().items() if key != "alive"} for group in measured.inside],
        **{f"by_{name}": [group._asdict() for group in groups] for name, groups in tables.items()},
    }
    put(dumps(values))
