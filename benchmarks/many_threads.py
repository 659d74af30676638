"""Simulate native training steps on 1 to 32 threads: every chunk timed alone, then scheduled as the driver does.

    python benchmarks/many_threads.py [--threads 2,4,8,16,32] [--seconds 2] [--phases] [SUBJECT ...]

A step is lowered for each number of threads, and one thread runs its chunks one after the other, each between two
readings of the clock; the lower quartile over some steps counts. `cases/thread_simulation.py` has the rule by which
threads take chunks. The columns are speed-ups over the step that is lowered for one thread. `even` is the speed-up if
each phase were split evenly. `work` is the time of all chunks over that of one thread: what the partition costs. `meet`
is the share of the simulated time that barriers take, by their estimate of `costs.barrier_cycles`. Steps
on as many threads as this machine has cores are measured too, and printed in parentheses. `--phases` lists the phases
that keep threads idle for longest.

Subjects are those of `against_peers.py`; words choose among them, such as `mlp` or `adam, 256`.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from time import perf_counter

os.environ.setdefault("PROGRAD_CACHE", "")

sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("peers", "cases")]

import numpy as np  # noqa: E402 - the environment is set first
from in_prograd import session  # noqa: E402 - found by the path above
from subjects import SUBJECTS, rows  # noqa: E402 - likewise
from thread_simulation import even_time, phase_time, share_of_barriers, step_time  # noqa: E402 - likewise

from runtime.codegen.code import CHUNK_COLUMNS  # noqa: E402 - likewise
from runtime.codegen.costs import CYCLE_NANOSECONDS, MIN_CHUNK_CYCLES  # noqa: E402 - likewise
from runtime.codegen.ir import INT64, Module, pointer  # noqa: E402 - likewise
from runtime.engines.native import jit  # noqa: E402 - likewise
from runtime.engines.native.cpu import this_machine  # noqa: E402 - likewise
from runtime.usable_cores import usable_cores  # noqa: E402 - likewise

CHOSEN = ("mlp, momentum, 256", "lenet", "lstm", "transformer", "mobilenet", "resnet18")
"""Words for the subjects that are simulated if none are named."""

MONOTONIC, OF_THREAD = 1, 3
"""Clocks of Linux: time, and processor time of this thread, which a busy machine does not lengthen."""

FIRST_STEPS = 3
"""Steps before those that are timed."""

LISTED = 8
"""Phases that are listed for each number of threads."""

LEAST = MIN_CHUNK_CYCLES * CYCLE_NANOSECONDS / 1000
"""Least microseconds of a chunk."""

Phases = list[list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="2,4,8,16,32")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing the chunks of a step")
    parser.add_argument("--phases", action="store_true")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", default=CHOSEN)
    options = parser.parse_args()
    counts = [int(word) for word in options.threads.split(",")]
    print(
        f"{'':30}{'ms':>9}" + "".join(f"{f'{count} threads':>14}{'even':>6}{'work':>6}{'meet':>6}" for count in counts)
    )
    for name in SUBJECTS:
        if any(word in name for word in options.subjects):
            row(name, counts, options.seconds, options.phases)


def row(name: str, counts: list[int], seconds: float, lists_phases: bool) -> None:
    """Print the speed-ups of one subject."""
    alone = Timed(name, 1, seconds)
    one = sum(map(sum, alone.phases))
    print(f"{name:30}{one / 1000:9.3f}", end="", flush=True)
    idle: list[str] = []
    for count in counts:
        step = Timed(name, count, seconds)
        found = f" ({alternating(alone, step, seconds):.2f})" if count <= usable_cores() else ""
        even, work = one / even_time(step.phases, count, LEAST), sum(map(sum, step.phases)) / one
        meet = share_of_barriers(step.phases, count)
        print(
            f"{one / step_time(step.phases, count):7.2f}{found:7}{even:6.1f}{work:6.2f}{meet:6.1%}", end="", flush=True
        )
        idle += idle_phases(step, count)
    print("\n".join(["", *(idle if lists_phases else [])]))


def idle_phases(step: Timed, threads: int) -> Iterator[str]:
    """Yield the phases in which threads are idle for longest, with the time beyond an even split."""
    beyond = [phase_time(chunks, threads) - sum(chunks) / threads for chunks in step.phases]
    for i in sorted(range(len(beyond)), key=lambda i: -beyond[i])[:LISTED]:
        chunks = step.phases[i]
        work, longest = sum(chunks), max(chunks)
        yield (
            f"  {threads} threads, phase {i}: {beyond[i]:.1f} us beyond an even split of {work:.1f} us; "
            f"{len(chunks)} chunks, the longest {longest:.1f} us: {step.what(i)}"
        )


class Timed:
    """A step that is lowered for some threads, with the time of its chunks in every phase, in microseconds."""

    def __init__(self, name: str, threads: int, seconds: float) -> None:
        """Time the chunks on this thread."""
        subject = SUBJECTS[name]
        self.run = session(subject, threads)
        self.feeds = dict(zip("xy", (array[: subject.batch] for array in rows(subject)), strict=True))
        for _ in range(FIRST_STEPS):
            self.run.step(self.feeds)
        [bound] = self.run.session.bindings("train")
        self.executor = self.run.session.workspaces.executor(bound)
        self._compiled = self.executor._compiled
        self.phases = self._phases(seconds)

    def fill(self) -> None:
        """Copy the rows to the arena, where a step may overwrite them."""
        for name, array in self.executor.feeds.items():
            array[...] = self.feeds[name]

    def what(self, phase: int) -> str:
        """Return the ops whose chunks a phase has."""
        code, block = self._compiled.code, self._compiled.block
        first, count = code.phases[phase].tolist()
        groups = dict.fromkeys(code.chunks[first : first + count, 1].tolist())
        return "; ".join("+".join(block.ops[i].type for i in code.ops_of(group)) for group in groups)

    def _phases(self, seconds: float) -> Phases:
        driver, [segment] = self._compiled.driver, self._compiled.segments
        table = driver.phases[segment.phases[0] : segment.phases[1]]
        if (table[:, 1] < 0).any():
            raise SystemExit("a step with loops or conditions cannot be simulated")
        times = chunk_times(driver.chunks, int(table.sum(axis=1).max()), seconds, self.fill)
        return [times[first : first + count].tolist() for first, count in table.tolist()]


def chunk_times(chunks: np.ndarray, count: int, seconds: float, fill: Callable[[], None]) -> np.ndarray:
    """Return the microseconds of the first `count` chunks of a table."""
    code = clocked_code()
    empty = np.zeros((256, CHUNK_COLUMNS), np.int64)
    empty[:, 0] = code.address("nothing")
    nothing = np.quantile(clocked(empty, 256, 0.02, lambda: None), 0.25, axis=(0, 1))
    times = np.quantile(clocked(chunks, count, seconds, fill), 0.25, axis=0)
    return np.maximum(times - nothing, 0.005).min(axis=1)


def clocked(chunks: np.ndarray, count: int, seconds: float, fill: Callable[[], None]) -> np.ndarray:
    """Return, for some steps and each of the first chunks, time and processor time in microseconds.

    `fill` is called before each step.
    """
    run = clocked_code().function("clocked", 4)
    clocks = np.zeros((count, 2, 2, 2), np.int64)  # before and after; both clocks; seconds and nanoseconds
    found: list[np.ndarray] = []
    start = perf_counter()
    while len(found) < FIRST_STEPS + 8 or perf_counter() - start < seconds:
        fill()
        run(chunks.ctypes.data, count, clocks.ctypes.data, clock_address())
        read = clocks @ np.array([1e6, 1e-3])
        found.append(read[:, 1] - read[:, 0])
    return np.array(found[FIRST_STEPS:])


@cache
def clocked_code() -> jit.Loaded:
    """Return `clocked(chunks, count, clocks, clock_gettime)`, and a chunk that computes nothing."""
    module, words = Module(this_machine()), pointer(INT64)
    module.function("nothing", [INT64] * 4).end()
    f = module.function("clocked", [words, INT64, words, words])
    chunks, count, clocks, clock = f.arguments
    for chunk in f.range(0, count):
        at = clocks + f.index(chunk) * 8
        f.call_at(clock, f.index(OF_THREAD), at + 2)
        f.call_at(clock, f.index(MONOTONIC), at)
        records = f.repeat([f.index(chunk)])
        for [index] in records:
            record = chunks + index * CHUNK_COLUMNS
            function, table = f.address_at(record, 0, INT64), f.address_at(record, 1, INT64)
            f.call_at(function, table, f.load(record, 2), f.load(record, 3), f.index(0))
            further = f.load(record, 4)
            records.carry([index + further], further.not_equal(0))
        f.call_at(clock, f.index(MONOTONIC), at + 4)
        f.call_at(clock, f.index(OF_THREAD), at + 6)
    f.end()
    return jit.load(jit.compiled(module), module.target)


@cache
def clock_address() -> int:
    """Return the address of the system's function that reads a clock."""
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    assert address
    return address


def alternating(alone: Timed, several: Timed, seconds: float) -> float:
    """Return the measured speed-up of whole steps, the median over turns."""
    ratios: list[float] = []
    end = perf_counter() + max(seconds, 0.5)
    while perf_counter() < end or len(ratios) < 5:
        ratios.append(step_seconds(alone) / step_seconds(several))
    return float(np.median(ratios))


def step_seconds(step: Timed) -> float:
    """Return the least seconds of a few steps."""
    return min(one_step(step) for _ in range(5))


def one_step(step: Timed) -> float:
    step.fill()
    start = perf_counter()
    step.executor.step()
    return perf_counter() - start


if __name__ == "__main__":
    main()
