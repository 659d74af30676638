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
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from queue import SimpleQueue
from typing import NamedTuple

from runtime.command_line.wakeup import Wakeup
from runtime.usable_cores import usable_cores

Number = int | float


class Trial(NamedTuple):
    """One run of a sweep: its number from 1, its options, and the words of the command that repeats it."""

    number: int
    settings: dict[str, Number]
    seed: int
    words: list[str]

    @property
    def command(self) -> str:
        """The command line of the run."""
        return shlex.join(["runtime", *self.words])

    def __str__(self) -> str:
        return " ".join([*(f"{name}={number!r}" for name, number in self.settings.items()), f"seed={self.seed}"])


class Outcome(NamedTuple):
    """The end of a run: its exit code, the fields of its result line, and its last message if it failed."""

    trial: Trial
    code: int
    fields: dict[str, str]
    error: str


def trials(
    program: str, choices: Mapping[str, Sequence[Number]], seeds: Sequence[int], more: Sequence[str]
) -> list[Trial]:
    """Return every combination of the choices with every seed, the last setting changing first.

    `more` are further words of the command line.
    """
    found: list[Trial] = []
    for values in product(*choices.values()):
        for seed in seeds:
            settings = dict(zip(choices, values, strict=True))
            told = [word for name, number in settings.items() for word in ("--set", f"{name}={number!r}")]
            words = ["execute", program, *told, "--seed", str(seed), *more]
            found.append(Trial(len(found) + 1, settings, seed, words))
    return found


def outcomes(asked: Sequence[Trial], jobs: int, check: Callable[[], None] = lambda: None) -> Generator[Outcome]:
    """Make the runs, `jobs` at a time, and yield their outcomes as they end; when closed early, end the current runs.

    `check` raises Interrupted if a held signal has come; it is called after every wait for runs.
    """
    started = _Started(jobs)
    futures: list[Future[Outcome | None]] = []
    with Wakeup() as wakeup, ThreadPoolExecutor(jobs) as pool:
        ended: SimpleQueue[Future[Outcome | None]] = SimpleQueue()

        def end(future: Future[Outcome | None]) -> None:
            ended.put(future)
            wakeup.wake()

        try:
            for trial in asked:
                futures.append(pool.submit(started.run, trial))
                futures[-1].add_done_callback(end)
            for _ in asked:
                check()
                while ended.empty():
                    wakeup.wait()
                    check()
                outcome = ended.get().result()
                if outcome is not None:
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


class _Started:
    """The processes that are running."""

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
                env=os.environ | {"PYTHONUTF8": "1"},
                text=True,
            )
            self._processes.add(process)
        with process:
            out, said = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return None if self._over else _outcome(trial, process.returncode, out, said)

    def end(self, *, kill: bool = False) -> None:
        """Start no more runs, and end those that are running."""
        with self._lock:
            self._over = True
            for process in self._processes:
                if kill:
                    process.kill()
                else:
                    process.terminate()


def _outcome(trial: Trial, code: int, out: str, said: str) -> Outcome:
    last = out.splitlines()[-1:] or [""]
    verdict, *words = last[0].split(" ")
    fields = dict(word.split("=", 1) for word in words if "=" in word) if verdict in ("OK", "FAILED") else {}
    lines = said.splitlines() or [f"it ended with code {code}, and said nothing"]
    return Outcome(trial, code, fields, "" if code == 0 else lines[-1].removeprefix("runtime: "))
