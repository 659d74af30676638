"""Many seeds in child processes, one line for each fault: a signal, bytes beside a buffer, bits that differ, a raise.

A child that dies is replaced by one that begins with the next seed. No child makes more than some hundred trials, so
the memory of one that leaks is bounded.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

from runtime.engines.native import compiled
from runtime.engines.native.cache.entry import Entry

Tried = Callable[[int, Path], str]
"""Runs the trial of a seed in a folder and returns a word for its result; raises an exception for a fault."""

TRIALS: Final = 400
"""Number of trials of one child."""

SECONDS: Final = 120.0
"""Time limit of a trial; a trial that exceeds it counts as "slow"."""

CHILD_BYTES: Final = 6 << 30
"""Address space of a child; guards take much of it."""

KEPT_CODE: Final = 4000
"""Entries of compiled code that a child keeps in memory; mutations of one program often compile to the same."""

FAULT: Final = "FAULT"
"""The word of a trial that raised or killed its process."""


class Job:
    """The seeds of one child after the other.

    Attributes:
        receiver: what the current child says: a seed before its trial, and the word after it.
    """

    def __init__(self, tried: Tried, seeds: list[int]) -> None:
        self._tried, self._seeds = tried, seeds
        self._started = time.monotonic()
        self._next = 0
        self.current: int | None = None
        self._start()

    def _start(self) -> None:
        self.receiver, sender = multiprocessing.Pipe(duplex=False)
        seeds = self._seeds[self._next : self._next + TRIALS]
        context = multiprocessing.get_context("fork")
        self._child = context.Process(target=_tries, args=(self._tried, seeds, sender), daemon=True)
        self._child.start()
        sender.close()
        self._started = time.monotonic()

    def read(self) -> tuple[int, str, str] | None:
        """Return the seed, word and sentence of a trial that ended, if one did."""
        try:
            seed, word, said = self.receiver.recv()
        except EOFError:
            return self._ended("")
        self._started = time.monotonic()
        if word is None:
            self.current = seed
            return None
        self.current, self._next = None, self._next + 1
        return seed, word, said

    def give_up(self) -> tuple[int, str, str] | None:
        """End a trial that takes too long, and return it."""
        if time.monotonic() - self._started < SECONDS:
            return None
        self._child.kill()
        return self._ended("slow")

    def _ended(self, word: str) -> tuple[int, str, str] | None:
        self._child.join()
        code, seed = self._child.exitcode or 0, self.current
        self.receiver.close()
        if seed is not None:
            self._next, self.current = self._next + 1, None
        if not self.is_done:
            self._start()
        if seed is None:
            return None
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return seed, word or FAULT, "" if word else f"the process ended with {name}"

    @property
    def is_done(self) -> bool:
        """True if no seed is left."""
        return self._next >= len(self._seeds)


def run(tried: Tried, first: int, count: int, jobs: int, every: int = 500) -> Counter[str]:
    """Try `count` seeds from `first` on, print faults and progress, and count the words."""
    begun, counts = time.monotonic(), Counter[str]()
    running = [Job(tried, list(range(first + job, first + count, jobs))) for job in range(min(jobs, count))]
    while running:
        ready = wait([job.receiver for job in running], timeout=1.0)
        for job in running:
            found = job.read() if job.receiver in ready else job.give_up()
            if found is None:
                continue
            seed, word, said = found
            counts[word] += 1
            if word == FAULT:
                print(f"seed {seed}: {said}", flush=True)
            if counts.total() % every == 0:
                rate = counts.total() / (time.monotonic() - begun)
                print(f"-- {counts.total()} of {count}, {counts[FAULT]} faults, {rate:.1f} a second", flush=True)
        running = [job for job in running if not job.is_done or job.current is not None]
    return counts


def _tries(tried: Tried, seeds: list[int], sender: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (CHILD_BYTES, CHILD_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    known: dict[str, Entry] = {}

    def keep(entry: Entry) -> None:
        if len(known) < KEPT_CODE:
            known[entry.label.key] = entry

    with (
        TemporaryDirectory() as folder,
        patch.object(compiled, "find", known.get),
        patch.object(compiled, "keep", keep),
    ):
        gc.collect()
        gc.freeze()  # what the parent made: collections then look at trials only
        for seed in seeds:
            gc.collect()  # regions of the last trial
            sender.send((seed, None, ""))
            try:
                word, said = tried(seed, Path(folder)), ""
            except Exception as error:
                notes = "".join(f" ({note})" for note in getattr(error, "__notes__", []))
                word, said = FAULT, f"{type(error).__name__}: {error}{notes}"[:400]
            sender.send((seed, word, said))
