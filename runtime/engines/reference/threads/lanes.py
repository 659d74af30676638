"""Two threads for a step that moves tensors to a file and back: the caller computes while the other one copies.

Each thread has a lane of the op list, and runs it in order. It waits only where an op depends on an op of the other
lane, and only for the latest of those. So a tensor comes back as soon as its bytes in the arena are free, ahead of its
reader. An op that overwrites a tensor on its way to the file waits until the tensor has arrived.

Between two waits an op costs what it costs in a plain loop.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from runtime.engines.reference.threads.in_order import Call, Failure, in_order
from runtime.errors import OutOfTime

_COMPUTE: Final = 0
_TRANSFER: Final = 1


class _Skipped(Sequence[Call]):
    """A replacement for the calls of an interrupted step: calls that do nothing."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int | slice) -> Any:
        return _nothing


class Stretch(NamedTuple):
    """Ops of one lane that follow each other without a wait.

    Attributes:
        after: the position of the op of the other lane that must be done before the first of them, -1 if none.
        ops: their positions in the list.
        heard: True if the other lane waits for the last of them.
    """

    after: int
    ops: list[int]
    heard: bool


class Lanes:
    """A thread for transfers beside the caller's, for step after step.

    Attributes:
        transfer_thread: the identity of that thread.
    """

    def __init__(self, before: Sequence[set[int]], transfers: Sequence[bool]) -> None:
        """Start the thread.

        Args:
            before: for each op the earlier ops that must be done before it starts.
            transfers: for each op, True if it is in the lane of transfers.
        """
        self._lanes = stretches(before, transfers)
        self._condition = threading.Condition(threading.Lock())
        self._calls: Sequence[Call] = ()
        self._done = [-1, -1]  # the position of the last op of each lane that the other lane is notified of
        self._end = 0  # ops from this position on do not start: the end of the list, or the first failure
        self._busy = False  # True while the thread is in its lane
        self._closed = False
        self._failure: Failure | None = None
        thread = threading.Thread(target=self._serve, name="prograd-transfers", daemon=True)
        thread.start()
        self.transfer_thread: int = thread.ident or 0

    def run(self, calls: Sequence[Call]) -> Failure | None:
        """Call every op once, and return the failure that list order would have met, if any.

        An interrupt of the caller is raised when the other thread has stopped, after its current op.
        """
        if self._closed:
            return in_order(calls)
        try:
            self._begin(calls)
            self._work(_COMPUTE)
            self._rest()
        except BaseException:
            self._calls = _Skipped()
            raise
        finally:
            self._stop()
        return self._failure

    def close(self) -> None:
        """End the thread; the caller continues alone."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _begin(self, calls: Sequence[Call]) -> None:
        self._stop()  # a second interrupt may have kept the last run from doing so
        with self._condition:
            self._calls = calls
            self._done = [-1, -1]
            self._end = len(calls)
            self._failure = None
            self._busy = True
            self._condition.notify_all()

    def _rest(self) -> None:
        with self._condition:
            while self._busy:
                self._condition.wait()

    def _stop(self) -> None:
        """Start no more ops, and wait for the thread."""
        with self._condition:
            self._end = 0
            self._condition.notify_all()
        self._rest()
        self._calls = ()  # the thread must not hold the memory of a dropped executor

    def _serve(self) -> None:
        np.seterr(all="ignore")
        while True:
            with self._condition:
                while not self._busy:
                    if self._closed:
                        return
                    self._condition.wait()
            self._work(_TRANSFER)
            with self._condition:
                self._busy = False
                self._condition.notify_all()

    def _work(self, lane: int) -> None:
        """Run a lane to its end, or up to the op of either lane that failed: an earlier op may fail too."""
        for stretch in self._lanes[lane]:
            if stretch.after >= 0:
                self._wait(1 - lane, stretch)
            if stretch.ops[0] >= self._end:
                return
            i = -1
            try:
                for i in stretch.ops:
                    self._calls[i]()
            except BaseException as error:  # the other lane must be notified that this one has ended
                if isinstance(error, KeyboardInterrupt | OutOfTime):
                    self._calls = _Skipped()
                self._fail(i, error)
                return
            if stretch.heard:
                with self._condition:
                    self._done[lane] = i
                    self._condition.notify_all()

    def _wait(self, other: int, stretch: Stretch) -> None:
        with self._condition:
            while self._done[other] < stretch.after and stretch.ops[0] < self._end:
                self._condition.wait()

    def _fail(self, position: int, error: BaseException) -> None:
        with self._condition:
            if self._failure is None or position < self._failure.position:
                self._failure = Failure(position, error)
            self._end = min(self._end, position)
            self._condition.notify_all()


def stretches(before: Sequence[set[int]], transfers: Sequence[bool]) -> tuple[list[Stretch], list[Stretch]]:
    """Return the stretches of computing ops and those of transfers, split where the lanes wait for each other."""
    waits = _waits(before, transfers)
    heard = set(waits)
    lanes: tuple[list[Stretch], list[Stretch]] = ([], [])
    for i, after in enumerate(waits):
        lane = lanes[transfers[i]]
        if after < 0 and lane and not lane[-1].heard:
            lane[-1].ops.append(i)
            lane[-1] = lane[-1]._replace(heard=i in heard)
        else:
            lane.append(Stretch(after, [i], i in heard))
    return lanes


def _waits(before: Sequence[set[int]], transfers: Sequence[bool]) -> list[int]:
    """Return for each op the latest op of the other lane to wait for, -1 if its lane has waited for that already."""
    latest = [-1, -1]
    waits: list[int] = []
    for i, needed in enumerate(before):
        lane = transfers[i]
        after = max((j for j in needed if transfers[j] != lane), default=-1)
        waits.append(after if after > latest[lane] else -1)
        latest[lane] = max(latest[lane], after)
    return waits


def _nothing() -> None:
    """Do nothing, in the place of an op of an interrupted step."""
