"""The verb `profile`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.commands.feeds import read_feeds
from runtime.commands.outcome import EXIT_DONE, result_line
from runtime.entries import BoundEntry
from runtime.rows import Rows
from runtime.run import Run, load


class Spent(NamedTuple):
    """The time of one group of ops over all steps."""

    name: str
    calls: int
    seconds: float


def profile(options: argparse.Namespace) -> int:
    """Time every op of an entry over some steps, by type, by stage or one by one.

    The states that the steps change are not kept. Feeds without data and without --feed are zeros.
    """
    feeds = read_feeds(options.feed) or None
    run = load(options.program, data=options.data)
    entry = options.entry or run.training_entry()
    bound = run.bindings(entry)[0]
    executor = run.engine.executor(bound)
    rows = _rows(run, bound, feeds, options.split)
    seconds: dict[int, list[float]] = {}
    for number in range(options.steps + 1):
        rows.fill(executor.feeds, number * bound.rows % (len(rows) - bound.rows + 1))
        for op, spent in executor.profile_step():
            if number:  # the first step warms up caches
                seconds.setdefault(op.id, []).append(spent)
    _print(options, run.program, bound, seconds)
    return EXIT_DONE


def _rows(run: Run, bound: BoundEntry, feeds: Mapping[str, object] | None, split: str | None) -> Rows:
    if feeds is not None or run.data.exists:
        return run.rows(bound.name, feeds or split)
    if bound.feeds:
        print("runtime: the program has no data, so its feeds are zeros", file=sys.stderr)
    zeros = {feed.name: np.zeros(feed.type.static_shape, feed.type.dtype) for feed in bound.feeds.values()}
    return run.rows(bound.name, zeros)


def _print(
    options: argparse.Namespace, program: pb.ProgramDesc, bound: BoundEntry, seconds: Mapping[int, Sequence[float]]
) -> None:
    tables = {
        "type": _grouped(bound, seconds, lambda op: op.type),
        "stage": _grouped(bound, seconds, lambda op: pb.Stage.Name(op.stage).removeprefix("STAGE_").lower()),
        "op": _grouped(bound, seconds, lambda op: _described(program, op)),
    }
    chosen = [options.by] if options.by else ["type", "stage"]
    total = sum(map(sum, seconds.values()))
    if options.json:
        _print_json(options, bound, tables, total)
        return
    for name in chosen:
        print(_table(name, tables[name], options.steps, total))
    fields = (("entry", bound.name), ("steps", options.steps), ("ops", len(seconds)))
    print(result_line("OK", (*fields, ("seconds_per_step", total / options.steps))))


def _grouped(
    bound: BoundEntry, seconds: Mapping[int, Sequence[float]], name_of: Callable[[pb.OpDesc], str]
) -> list[Spent]:
    """The time by name, the longest first."""
    groups: dict[str, Spent] = {}
    for op in bound.block.ops:
        name = name_of(op)
        _, calls, spent = groups.get(name, Spent(name, 0, 0.0))
        times = seconds.get(op.id, ())
        groups[name] = Spent(name, calls + len(times), spent + sum(times))
    return sorted((group for group in groups.values() if group.calls), key=lambda group: (-group.seconds, group.name))


def _described(program: pb.ProgramDesc, op: pb.OpDesc) -> str:
    line = f" {program.locations[op.location - 1]}" if op.location else ""
    return f"{op.id} {op.type} -> {','.join(op.outputs)}{line}"


def _table(title: str, groups: Sequence[Spent], steps: int, total: float) -> str:
    width = max([len(title), 12, *(len(group.name) for group in groups)])
    lines = [f"{title:<{width}}  calls/step   us/step    us/call   share"]
    for name, calls, seconds in groups:
        step, call, share = seconds / steps * 1e6, seconds / calls * 1e6, seconds / total if total else 0.0
        lines.append(f"{name:<{width}}  {calls / steps:10.0f}  {step:8.1f}  {call:9.2f}  {share:6.1%}")
    return "\n".join([*lines, ""])


def _print_json(
    options: argparse.Namespace, bound: BoundEntry, tables: Mapping[str, Sequence[Spent]], total: float
) -> None:
    from json import dumps

    values = {
        "entry": bound.name,
        "steps": options.steps,
        "seconds": total,
        **{f"by_{name}": [group._asdict() for group in groups] for name, groups in tables.items()},
    }
    print(dumps(values))
