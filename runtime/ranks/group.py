"""The ranks of a job, and what they tell each other.

Every call is nonblocking and is polled: Python handles signals and alarms in between, and a deadline ends a call that
other ranks do not answer. A call tests at once, then yields the core, then sleeps for 20 microseconds at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from threading import Timer
from typing import Any, Final, NoReturn

import numpy as np

from runtime.dtypes import Array
from runtime.errors import ProcessLost
from runtime.ranks.clock import WaitingClock

EAGER_TESTS: Final = 100
"""Tests of a call before the process yields its core."""

YIELDING_SECONDS: Final = 0.05
"""Seconds in which the process yields its core between two tests, before it sleeps: tests move large messages."""

NAP: Final = 20e-6
"""Seconds of sleep between two later tests."""

ABORT_SECONDS: Final = 3.0
"""Seconds after which a process leaves by itself if the launcher did not end the job that it aborted."""


class RanksDiffer(RuntimeError):
    """Ranks that began alike have other states: a fault of prograd, or of a machine."""


class Group:
    """The ranks of a job.

    Args:
        mpi: the module `mpi4py.MPI`.
        timeout: seconds that a call waits for other ranks.
        cuts_states: True if the states of the optimizer are cut among the ranks.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        timeout: seconds that a call waits for other ranks.
        cuts_states: True if the states of the optimizer are cut among the ranks.
        is_stopped: True if all ranks agreed to stop.
    """

    def __init__(self, mpi: Any, timeout: float, *, cuts_states: bool = False) -> None:
        self._mpi = mpi
        self._comm = mpi.COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.timeout = timeout
        self.cuts_states = cuts_states and self.size > 1
        self.is_stopped = False

    def __repr__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    def send_and_receive(self, sent: Sequence[tuple[int, Array]], received: Sequence[tuple[int, Array]]) -> None:
        """Send arrays to ranks, and fill arrays with those that ranks send, all at once."""
        comm = self._comm
        try:
            requests = [comm.Irecv(array, rank) for rank, array in received]
            requests += [comm.Isend(array, rank) for rank, array in sent]
            self._wait(self._mpi.Request.Testall, requests)
        except self._mpi.Exception as error:
            raise _lost(error) from None

    def all_gather(self, own: Array | None, out: Array, counts: Sequence[int]) -> None:
        """Fill `out` with the elements of all ranks, one rank after another; None if `own` are there already."""
        mine = self._mpi.IN_PLACE if own is None else own
        self._finish(lambda: self._comm.Iallgatherv(mine, [out, counts]))

    def largest(self, number: int) -> int:
        """Return the largest number that a rank gives."""
        own, out = np.array([number], np.int64), np.zeros(1, np.int64)
        self._finish(lambda: self._comm.Iallreduce(own, out, self._mpi.MAX))
        return int(out[0])

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.largest(0)

    def gather(self, own: bytes) -> list[bytes]:
        """Return the bytes that each rank gives, by rank."""
        counts = np.zeros(self.size, np.int64)
        self.all_gather(np.array([len(own)], np.int64), counts, [1] * self.size)
        sizes = [int(count) for count in counts]
        out = np.empty(sum(sizes), np.uint8)
        self.all_gather(np.frombuffer(own, np.uint8), out, sizes)
        ends = np.cumsum(sizes)
        return [out[end - size : end].tobytes() for end, size in zip(ends, sizes, strict=True)]

    def require_equal(self, states: str, when: str) -> None:
        """Raise RanksDiffer unless all ranks give the same hash of their states."""
        everyone = self.gather(states.encode())
        for rank, found in enumerate(everyone):
            if found != everyone[0]:
                raise RanksDiffer(f"{when}, the states of rank {rank} differ from those of rank 0")

    def abort(self, code: int) -> NoReturn:
        """End the processes of all ranks, this one with the exit code."""
        Timer(ABORT_SECONDS, lambda: os._exit(code)).start()  # a launcher that lost another host may never answer
        self._mpi.COMM_WORLD.Abort(code)
        os._exit(code)

    def leave(self) -> None:
        """Leave the job after all ranks have come to their end."""
        self.barrier()
        timer = Timer(self.timeout, lambda: os._exit(ProcessLost.CODE))
        timer.daemon = True
        timer.start()
        self._mpi.Finalize()
        timer.cancel()

    def _finish(self, begin: Callable[[], Any]) -> None:
        """Begin a call and wait for its end; raise ProcessLost if other ranks do not answer or are gone."""
        try:
            self._wait(self._mpi.Request.Test, begin())
        except self._mpi.Exception as error:
            raise _lost(error) from None

    def _wait(self, is_done: Callable[[Any], bool], request: Any) -> None:
        for _ in range(EAGER_TESTS):
            if is_done(request):
                return
        clock = WaitingClock()
        while not is_done(request):
            waited = clock.seconds()
            if waited < YIELDING_SECONDS:
                os.sched_yield()
                continue
            time.sleep(NAP)
            if waited > self.timeout:
                raise ProcessLost(f"the other processes gave no answer for {self.timeout:g} seconds")


def _lost(error: Any) -> ProcessLost:
    return ProcessLost(f"another process was lost: {error.Get_error_string()}")
