"""Subjects that take turns, each in a process of its own: threads of one library that wait do not slow another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

Call = Callable[[], Any]
Make = Callable[[], Call]
"""A function of a module that returns the call to measure; the process of the subject calls it."""


class Turns(NamedTuple):
    """The results of the first calls of a subject, and the median of its seconds in all turns."""

    results: list[Any]
    seconds: float


def in_turns(subjects: Mapping[str, Make], seconds: float, first: int = 1) -> dict[str, Turns]:
    """Return the turns of all subjects, which make one call each in turn for that many seconds.

    `first` calls come before, which are not measured and whose results are returned.
    """
    context = get_context("spawn")
    pipes: dict[str, Connection] = {}
    for name, make in subjects.items():
        pipes[name], other = context.Pipe()
        context.Process(target=_serve, args=(other, make, first), daemon=True).start()
    results = {name: pipe.recv() for name, pipe in pipes.items()}
    times: dict[str, list[float]] = {name: [] for name in subjects}
    end = perf_counter() + seconds
    while perf_counter() < end:
        for name, pipe in pipes.items():
            pipe.send(True)
            times[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.send(False)
    return {name: Turns(results[name], median(found)) for name, found in times.items()}


def print_turns(turns: Mapping[str, Turns], count: int, part: str) -> None:
    """Print a table of the times of a call and of each of its `count` parts, beside the first subject."""
    ours = next(iter(turns.values())).seconds
    print(f"\n| subject | ms | µs {part} | times as long as {next(iter(turns))} |\n| --- | ---: | ---: | ---: |")
    for name, (_, taken) in turns.items():
        print(f"| {name} | {taken * 1e3:.1f} | {taken / count * 1e6:.1f} | {taken / ours:.2f} |")


def _serve(pipe: Connection, make: Make, first: int) -> None:
    call = make()
    pipe.send([call() for _ in range(first)])
    while pipe.recv():
        start = perf_counter()
        call()
        pipe.send(perf_counter() - start)
