"""A way to call ops phase after phase, whose shares threads call at once (`runtime.step.phases`)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock

import numpy as np

from runtime.engines.reference.threads.in_order import Call, Failure
from runtime.errors import OutOfTime
from runtime.step.phases import Shares


class InPhases:
    """A way to call ops: phase after phase, whose shares threads call at once."""

    def __init__(self, phases: Sequence[Shares]) -> None:
        """Start as many threads as the largest number of shares takes, besides the caller's."""
        self.phases = phases
        self._pool = ThreadPoolExecutor(
            max(len(shares) for shares in phases) - 1, "prograd", initializer=np.seterr, initargs=("ignore",)
        )
        self._lock = Lock()
        self._calls: Sequence[Call] = ()
        self._waiting: list[Future[None]] = []
        self._failure: Failure | None = None
        self._ends = False  # True if no more ops begin: after an interrupt, and at the end of the time

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call every op once, and return the failure that list order would have met, if any.

        An interrupt of the caller is raised when the other threads have stopped, each after its current op.
        """
        wait(self._waiting)  # a second interrupt may have kept the last run from doing so
        self._calls, self._failure, self._ends = calls, None, False
        try:
            for own, *others in self.phases:
                self._waiting = [self._pool.submit(self._call, ops) for ops in others]
                self._call(own)
                for share in self._waiting:
                    share.result()
        finally:
            self._ends = True
            wait(self._waiting)
            self._calls = ()  # threads must not hold the memory of a dropped executor
        return self._failure

    def close(self) -> None:
        """End the threads; the caller continues alone."""
        self._pool.shutdown(wait=False)
        self.phases = [[sorted(i for shares in self.phases for share in shares for i in share)]]

    def _call(self, ops: Sequence[int]) -> None:
        """Call ops, but none after one that failed: earlier ones may fail too, and then the first is reported."""
        i = -1
        try:
            for i in ops:
                if self._ends:
                    return
                if self._failure is None or i < self._failure.position:
                    self._calls[i]()
        except Exception as error:  # an interrupt is no failure of an op
            with self._lock:
                self._ends = self._ends or isinstance(error, OutOfTime)
                if self._failure is None or i < self._failure.position:
                    self._failure = Failure(i, error)
