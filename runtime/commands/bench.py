"""The verb `bench`: the speed of steps by engine and number of threads, and the share of the machine's peak."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb
from runtime.command_line.ending import EXIT_DONE
from runtime.command_line.results import put_result
from runtime.command_line.streams import put
from runtime.commands.arrays.feeds import read_feeds
from runtime.commands.profile import line_of, rows_or_zeros
from runtime.commands.reports.metric_fields import engine_fields
from runtime.engines.engine import Executor
from runtime.engines.parts import Part
from runtime.entries import BoundEntry
from runtime.memory.limit import MemoryLimit
from runtime.rows.rows import Rows
from runtime.runs.run import Run, load
from runtime.step.arithmetic import operations

MEASUREMENT_ROUNDS: Final = 7
ROUND_SECONDS: Final = 0.3
"""Seconds for which one variant makes steps before the next one does."""

GROUP_STEPS: Final = 30
"""Number of steps in which each group is timed."""

MAX_SHOWN_GROUPS: Final = 20
"""Number of groups that are shown, the slowest first."""


class Way(NamedTuple):
    """An engine with a number of threads, ready to make steps."""

    run: Run
    bound: BoundEntry
    executor: Executor
    rows: Rows
    threads: int


class Line(NamedTuple):
    """A row of the table of variants: seconds of a step, and its operations per second."""

    way: Way
    seconds: float
    rate: float


def bench(options: argparse.Namespace) -> int:
    """Make steps in turns, and print medians: steps and operations per second, share of the peak, time of each group.

    The states that the steps change are not kept. Feeds without data and without --feed are zeros.
    """
    engines = [options.engine, options.against] if options.against else [options.engine]
    ways = [_way(options, name, n) for n in options.threads for name in engines]
    try:
        counts = _operations(ways[0].bound)
        seconds = _by_turns(ways)
        lines = [Line(way, s, sum(counts.values()) / s) for way, s in zip(ways, seconds, strict=True)]
        peaks = _peaks(options.threads)
        _print(options, lines, counts, peaks)
    finally:
        for way in ways:
            way.run.close()
    return EXIT_DONE


def _way(options: argparse.Namespace, engine: str | None, threads: int) -> Way:
    run = load(
        options.program,
        data=options.data,
        threads=threads,
        engine=engine,
        spill=options.spill,
        max_memory=MemoryLimit(options.max_memory, of_process=True, threads=threads),
    )
    bound = run.session.bindings(options.entry or run.session.training_entry())[0]
    rows = rows_or_zeros(run, bound, read_feeds(options.feed) or None, options.split)
    return Way(run, bound, run.session.workspaces.executor(bound), rows, threads)


def _by_turns(ways: Sequence[Way]) -> list[float]:
    """Return the median seconds of a step, for each variant."""
    counts = [_warm(way) for way in ways]
    found: list[list[float]] = [[] for _ in ways]
    for _ in range(MEASUREMENT_ROUNDS):
        for way, count, times in zip(ways, counts, found, strict=True):
            times.append(_steps(way, count) / count)
    return [median(times) for times in found]


def _warm(way: Way) -> int:
    """Make steps until their times are stable; return the number of steps that fill a turn."""
    _steps(way, 2)
    took = min(_steps(way, 1) for _ in range(3))
    return max(int(ROUND_SECONDS / max(took, 1e-6)), 1)


def _steps(way: Way, count: int) -> float:
    """Return the seconds of `count` steps, without the time to read their rows."""
    seconds, last = 0.0, len(way.rows) - way.bound.rows + 1
    for number in range(count):
        way.rows.fill(way.executor.feeds, number * way.bound.rows % last)
        start = perf_counter()
        way.executor.step()
        seconds += perf_counter() - start
    return seconds


def _operations(bound: BoundEntry) -> dict[int, int]:
    """Return the number of operations of each op."""
    return {
        op.id: operations(
            op.type,
            [bound.types[name] if name else None for name in op.inputs],
            [bound.types[name] for name in op.outputs],
        )
        for op in bound.block.ops
        if op.type != "constant"
    }


def _peaks(threads: Sequence[int]) -> dict[int, float]:
    """Return the peak operations per second of this machine by number of threads, empty if it cannot be measured."""
    from runtime.engines.choice import machine_peak

    return {n: rate for n in threads if (rate := machine_peak(n)) is not None}


def _print(
    options: argparse.Namespace, lines: Sequence[Line], counts: Mapping[int, int], peaks: Mapping[int, float]
) -> None:
    first, groups = lines[0].way, _groups(lines[0].way, counts)
    rows = [_fields(line, peaks) for line in lines]
    if options.json:
        from json import dumps

        put(dumps({"ways": rows, "groups": [group._asdict() for group in groups]}))
        return
    put(f"{'engine':<10}{'threads':>8}{'us/step':>12}{'steps/s':>11}{'GFLOP/s':>9}{'of peak':>9}")
    for row, line in zip(rows, lines, strict=True):
        share = f"{row['of_peak']:9.1%}" if "of_peak" in row else f"{'-':>9}"
        words = f"{line.seconds * 1e6:12.1f}{1 / line.seconds:11.1f}{line.rate / 1e9:9.1f}{share}"
        put(f"{line.way.run.session.engine.name:<10}{line.way.threads:>8}{words}")
    put(f"\n{'us':>9}{'share':>8}{'GFLOP/s':>9}  group, by the engine {first.run.session.engine.name}")
    for group in groups[:MAX_SHOWN_GROUPS]:
        put(f"{group.us:9.1f}{group.share:8.1%}{group.gflops:9.1f}  {group.name}")
    if len(groups) > MAX_SHOWN_GROUPS:
        put(
            f"{'':9}{sum(group.share for group in groups[MAX_SHOWN_GROUPS:]):8.1%}{'':9}  "
            f"{len(groups) - MAX_SHOWN_GROUPS} more"
        )
    put("")
    put_result(options, "OK", [("entry", first.bound.name), *rows[0].items(), *engine_fields(first.run)[1:]])


class Group(NamedTuple):
    """The time of one part of the step.

    Attributes:
        name: the ops, and the line of the last one.
        us: median time in microseconds.
        share: share of the time of all parts.
        gflops: billions of operations per second.
    """

    name: str
    us: float
    share: float
    gflops: float


def _groups(way: Way, counts: Mapping[int, int]) -> list[Group]:
    """Return the parts of a step, the slowest first."""
    times: list[list[float]] = [[] for _ in way.executor.parts]
    for _ in range(GROUP_STEPS):
        way.rows.fill(way.executor.feeds, 0)
        spent = [0.0] * len(times)
        for spell in way.executor.profile_step():
            spent[spell.part] += spell.stop - spell.start
        for part, seconds in enumerate(spent):
            times[part].append(seconds)
    seconds = [median(part) for part in times]
    total = sum(seconds) or 1.0
    groups = [
        Group(
            _named(way.run.program, part),
            round(s * 1e6, 3),
            s / total,
            sum(counts[op.id] for op in part.ops) / max(s, 1e-9) / 1e9,
        )
        for part, s in zip(way.executor.parts, seconds, strict=True)
    ]
    return sorted(groups, key=lambda group: -group.us)


def _named(program: pb.ProgramDesc, part: Part) -> str:
    return f"{part.name} {line_of(program, part.ops[-1])}".rstrip(" ")


def _fields(line: Line, peaks: Mapping[int, float]) -> dict[str, str | int | float]:
    """Return the fields of a variant by name."""
    way = line.way
    fields: dict[str, str | int | float] = {
        "engine": way.run.session.engine.name,
        "threads": way.threads,
        "seconds_per_step": line.seconds,
        "operations_per_second": line.rate,
    }
    if way.threads in peaks:
        fields["of_peak"] = line.rate / peaks[way.threads]
    return fields
