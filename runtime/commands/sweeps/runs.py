"""The runs of a sweep: every combination of settings and seeds, each a process of `runtime execute`, some concurrently.

A run that fails ends no other run. When the sweep must end, it asks its runs to end as a signal would, and waits for
them; on a second signal it kills them. The main thread waits for them in a way that misses no signal.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice, product
from queue import SimpleQueue
from typing import NamedTuple, Protocol, cast

from runtime.command_line.wakeup import Wakeup
from runtime.ranks.join import without_launcher
from runtime.usable_cores import usable_cores

Number = int | float


class Trial(NamedTuple):
    """One run of a sweep: its number from 1, its options, and the words of the command that repeats it.

    `fold` is the number of the fold that it evaluates on, 0 for a run without folds.
    """

    number: int
    settings: dict[str, Number]
    seed: int
    words: list[str]
    fold: int = 0

    @property
    def command(self) -> str:
        """The command line of the run."""
        return shlex.join(["runtime", *self.words])

    def __str__(self) -> str:
        told = [*(f"{name}={number!r}" for name, number in self.settings.items()), f"seed={self.seed}"]
        return " ".join([*told, f"fold={self.fold}"] if self.fold else told)


class Outcome(NamedTuple):
    """The end of a run: its exit code, the fields of its result line, and its last message if it failed."""

    trial: Trial
    code: int
    fields: dict[str, str]
    error: str


def trials(
    program: str,
    proposed: Iterable[Mapping[str, Number]],
    seeds: Sequence[int],
    more: Sequence[str] = (),
    *,
    folds: int | None = None,
) -> Iterator[Trial]:
    """Yield the runs of each of the proposed settings: one for each seed and each fold.

    `more` are further words of the command line. The next settings are asked for when their first run is.
    """
    number = 0
    for settings in proposed:
        told = [word for name, value in settings.items() for word in ("--set", f"{name}={value!r}")]
        for seed, fold in product(seeds, range(1, folds + 1) if folds else [0]):
            number += 1
            one = ["--fold", f"{fold}/{folds}"] if fold else []
            words = ["execute", program, *told, "--seed", str(seed), *one, *more]
            yield Trial(number, cast(dict[str, Number], settings), seed, words, fold)


def outcomes(
    asked: Iterable[Trial],
    jobs: int,
    check: Callable[[], None] = lambda: None,
    tell: Callable[[Outcome], None] = lambda outcome: None,
    started: Started | None = None,
) -> Generator[Outcome]:
    """Make the runs, `jobs` at a time, and yield their outcomes as they end; when closed early, end the current runs.

    A run is taken from `asked` when there is a place for it; `tell` gets each outcome before the next run is taken.
    `check` raises Interrupted if a held signal has come; it is called after every wait for runs. `started` is the
    place where they run, by default this machine.
    """
    started = started or Here(jobs)
    futures: list[Future[Outcome | None]] = []
    left = iter(asked)
    with Wakeup() as wakeup, ThreadPoolExecutor(jobs) as pool:
        ends = _Ends(wakeup, check)

        def begin() -> int:
            """Begin the next run, if there is one; return the number of runs begun."""
            new = [pool.submit(started.run, trial) for trial in islice(left, 1)]
            futures.extend(new)
            for future in new:
                future.add_done_callback(ends.add)
            return len(new)

        try:
            pending = sum(begin() for _ in range(jobs))
            while pending:
                outcome = ends.next().result()
                pending -= 1
                if outcome is not None:
                    tell(outcome)
                    pending += begin()
                    yield outcome
        finally:
            started.end()
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                while not all(future.done() for future in futures):
                    wakeup.wait()
            except KeyboardInterrupt:  # a second one does not wait
                started.end(kill=True)
                raise


class _Ends:
    """The runs that have ended, in the order of their ends."""

    def __init__(self, wakeup: Wakeup, check: Callable[[], None]) -> None:
        self._ended: SimpleQueue[Future[Outcome | None]] = SimpleQueue()
        self._wakeup, self._check = wakeup, check

    def add(self, future: Future[Outcome | None]) -> None:
        """Add a run that has ended, from any thread."""
        self._ended.put(future)
        self._wakeup.wake()

    def next(self) -> Future[Outcome | None]:
        """Return the next run that ends."""
        self._check()
        while self._ended.empty():
            self._wakeup.wait()
            self._check()
        return self._ended.get()


class Started(Protocol):
    """A place where runs are made."""

    def run(self, trial: Trial) -> Outcome | None:
        """Make a run and wait for its end; return None if the sweep is over. Threads call it."""
        ...

    def end(self, *, kill: bool = False) -> None:
        """Start no more runs, and end those that are running."""
        ...


class Here:
    """The processes that are running on this machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._over = False

    def _threads(self, words: Sequence[str]) -> list[str]:
        """Return options by which concurrent runs share the cores, unless the sweep got a number of threads."""
        return [] if "--threads" in words else ["--threads", str(max(usable_cores() // self._jobs, 1))]

    def run(self, trial: Trial) -> Outcome | None:
        """Make a run and wait for its end; return None if the sweep is over."""
        with self._lock:
            if self._over:
                return None
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "runtime", *trial.words, *self._threads(trial.words), "-q"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=without_launcher(os.environ) | {"PYTHONUTF8": "1"},
                text=True,
            )
            self._processes.add(process)
        with process:
            out, said = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return None if self._over else outcome_of(trial, process.returncode, out, said)

    def end(self, *, kill: bool = False) -> None:
        """Start no more runs, and end those that are running."""
        with self._lock:
            self._over = True
            for process in self._processes:
                if kill:
                    process.kill()
                else:
                    process.terminate()


def outcome_of(trial: Trial, code: int, out: str, said: str) -> Outcome:
    """Return the end of a run by its exit code and what it printed on stdout and stderr."""
    last = out.splitlines()[-1:] or [""]
    verdict, *words = last[0].split(" ")
    fields = dict(word.split("=", 1) for word in words if "=" in word) if verdict in ("OK", "FAILED") else {}
    lines = said.splitlines() or [f"it ended with code {code}, and said nothing"]
    return Outcome(trial, code, fields, "" if code == 0 else lines[-1].removeprefix("runtime: "))
