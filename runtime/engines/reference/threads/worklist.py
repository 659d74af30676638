"""Threads that run the tasks of a step, each task as soon as its predecessors are done.

The thread that ends a task continues with the most urgent one that is ready. Another thread is woken only if there are
more ready tasks than that, so no thread is woken along a chain.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from runtime.engines.reference.threads.in_order import Call, Failure
from runtime.engines.reference.threads.tasks import Tasks
from runtime.errors import OutOfTime


class Skipped(Sequence[Call]):
    """A replacement for the calls of an interrupted step: calls that do nothing."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int | slice) -> Any:
        return _nothing


class Worklist:
    """A number of threads, including the caller, that run tasks step after step."""

    def __init__(self, tasks: Tasks, threads: int) -> None:
        self._tasks = tasks
        self._condition = threading.Condition(threading.Lock())
        self._calls: Sequence[Call] = ()
        self._missing: list[int] = []  # number of tasks that each one still waits for
        self._ready: list[int] = []  # a heap, the most urgent first
        self._left = 0
        self._waiting = 0  # number of threads without work
        self._busy = 0  # number of threads, without the caller, that run a task
        self._closed = False
        self._failure: Failure | None = None
        for number in range(1, threads):
            threading.Thread(target=self._serve, name=f"prograd-{number}", daemon=True).start()

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call every op once, and return the failure that list order would have met, if any.

        An interrupt of the caller is raised when the other threads have stopped, each after its current op.
        """
        try:
            self._begin(calls)
            self._work(of_caller=True)
        except BaseException:
            self._calls = Skipped()
            raise
        finally:
            with self._condition:
                self._left = 0  # after an interrupt no more tasks become ready
                self._ready.clear()
                self._rest()
        return self._failure

    def close(self) -> None:
        """End the threads; the caller continues alone."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _begin(self, calls: Sequence[Call]) -> None:
        with self._condition:
            self._rest()  # a second interrupt may have kept the last run from doing so
            self._calls = calls
            self._failure = None
            self._missing = list(self._tasks.waits)
            self._left = len(self._missing)
            self._ready = [i for i, count in enumerate(self._missing) if not count]  # sorted, so it is a heap

    def _rest(self) -> None:
        while self._busy:
            self._condition.wait()

    def _serve(self) -> None:
        np.seterr(all="ignore")
        self._work(of_caller=False)

    def _work(self, *, of_caller: bool) -> None:
        """Run tasks: the caller of a step until none is left, the others until the list is closed."""
        task: int | None = None
        while True:
            with self._condition:
                if task is not None:
                    self._finish(task, of_caller)
                while not self._ready:
                    if self._closed or (of_caller and not self._left):
                        return
                    self._wait()
                task = heappop(self._ready)
                self._busy += not of_caller
                if self._ready and self._waiting:
                    self._condition.notify(len(self._ready))
            self._execute(self._tasks.ops[task])

    def _finish(self, task: int, of_caller: bool) -> None:
        self._busy -= not of_caller
        self._left -= 1
        if self._left <= 0:
            self._condition.notify_all()
            return
        for i in self._tasks.after[task]:
            self._missing[i] -= 1
            if not self._missing[i]:
                heappush(self._ready, i)

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._condition.wait()
        finally:
            self._waiting -= 1

    def _execute(self, ops: Sequence[int]) -> None:
        """Call ops, but none after one that failed: earlier ones may fail too, and then the first is reported."""
        i = -1
        try:
            if self._failure is None:
                for i in ops:
                    self._calls[i]()
                return
            for i in ops:
                if i < self._failure.position:
                    self._calls[i]()
        except BaseException as error:  # threads that wait for this task must learn that it has ended
            if isinstance(error, KeyboardInterrupt | OutOfTime):  # no fault of an op: no earlier op is to be tried
                self._calls = Skipped()
            with self._condition:
                if self._failure is None or i < self._failure.position:
                    self._failure = Failure(i, error)


def _nothing() -> None:
    """Do nothing, in the place of an op of an interrupted step."""
