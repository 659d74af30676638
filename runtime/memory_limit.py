"""One account of memory: whoever is about to allocate what a file or an option makes large asks it before.

In the library the limit is of what a run allocates by itself: states, arena, rows, fetches, results, best states. In
the command it is of the process: what it occupies when the program is loaded, interpreter and NumPy included, counts as
well, and so does `OWN` for what nobody counts. docs/limits.md says what that is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Final
from weakref import finalize, ref

from runtime.dtypes import Array
from runtime.errors import ResourceLimit

OWN: Final = 8 << 20
"""Bytes for what is not counted one by one: BLAS packs parts of matrices, NumPy and Python have small change."""

PER_THREAD: Final = 4 << 20
"""Bytes likewise for each thread beside the first."""

PARSED: Final = 64
"""Bytes that a byte of a program file takes at most, when it is parsed: an empty op takes two in the file."""

BOUND: Final = 16
"""Bytes likewise for Python's objects, when its ops are bound."""


class MemoryLimit:
    """So many bytes, None for no limit; threads may share it."""

    def __init__(
        self,
        limit: int | None = None,
        *,
        of_process: bool = False,
        threads: int = 1,
        within: MemoryLimit | None = None,
        who: str = "",
    ) -> None:
        """Count bytes from 0, or from what the process occupies.

        Args:
            limit: upper bound on the bytes, None for no limit.
            of_process: count what the process occupies already, and what `threads` threads need.
            threads: number of threads of the process.
            within: account that counts the same bytes as well, under a limit of its own.
            who: noun that errors name in place of the process or the run.
        """
        self._limit = limit
        self._within = within
        self._who = who or ("the process" if of_process and limit is not None else "the run")
        self._own = OWN + PER_THREAD * (threads - 1) if of_process else 0
        self._of_process = of_process and limit is not None
        self._taken = self._own + (resident() if self._of_process else 0)
        self.most = self._taken
        """The most bytes that were counted at a time."""
        self.was_exceeded = False
        """True if more bytes were asked for than this limit, rather than that of `within`, allows."""
        self._lock = RLock()  # what is freed meanwhile may give back
        self._noted: dict[int, tuple[ref[Array], int]] = {}  # by the reference to an array, that and its bytes

    def take(self, nbytes: int, what: str) -> None:
        """Note bytes that are about to be allocated; raises ResourceLimit, and notes nothing, if they are too many."""
        with self._lock:
            self._require(nbytes, what)
            self._taken += nbytes
            self.most = max(self.most, self._taken)
        if self._within is not None:  # without the lock: what is freed in between waits for both in the other order
            try:
                self._within.take(nbytes, what)
            except ResourceLimit:
                with self._lock:
                    self._taken -= nbytes
                raise

    def take_for(self, owner: object, nbytes: int, what: str) -> None:
        """Take bytes for as long as an object lives."""
        self.take(nbytes, what)
        finalize(owner, self.give_back, nbytes).atexit = False

    def take_thread(self, owner: object) -> None:
        """Take what a further thread needs, where the limit is of the process, for as long as an object lives."""
        if self._own:
            self.take_for(owner, PER_THREAD, "the memory of a thread")

    def note(self, array: Array) -> None:
        """Give back what was taken for an array when nobody has it any more.

        By a reference of its own, as small predictions would wait for `finalize`.
        """
        noted = ref(array, self._freed)
        self._noted[id(noted)] = noted, array.nbytes

    def _freed(self, array: ref[Array]) -> None:
        self.give_back(self._noted.pop(id(array))[1])

    @property
    def taken(self) -> int:
        """The bytes that are counted now."""
        return self._taken

    @property
    def room(self) -> int | None:
        """The bytes that may still be taken, None for no limit."""
        return None if self._limit is None else self._limit - self._taken

    @property
    def room_of_process(self) -> int | None:
        """The bytes that the process may still take, None for no limit, or one of the run alone."""
        return self.room if self._of_process else None

    def take_of_process(self, nbytes: int, what: str) -> None:
        """Take bytes that belong to the process, and not to the run."""
        if self._of_process:
            self.take(nbytes, what)

    def give_back(self, nbytes: int) -> None:
        """Note that so many bytes are free again."""
        with self._lock:
            self._taken -= nbytes
        if self._within is not None:
            self._within.give_back(nbytes)

    def require(self, nbytes: int, what: str) -> None:
        """Raise ResourceLimit unless there is room for so many bytes."""
        with self._lock:
            self._require(nbytes, what)
        if self._within is not None:
            self._within.require(nbytes, what)

    def require_resident(self, nbytes: int, what: str) -> None:
        """Raise ResourceLimit if `nbytes` on top of what the process occupies now exceed the limit of the process."""
        if self._of_process and self._limit is not None and resident() + nbytes > self._limit:
            raise ResourceLimit(self._too_much(resident() + nbytes, what))

    @contextmanager
    def lent(self, nbytes: int, what: str) -> Generator[None]:
        """Take bytes for as long as the context lasts."""
        self.take(nbytes, what)
        try:
            yield
        finally:
            self.give_back(nbytes)

    def loaded(self, program_bytes: int) -> None:
        """Look at the process anew, now that a program of so many bytes is there: what was taken so far is in it."""
        if self._of_process:
            self._taken = self._own + resident() + BOUND * program_bytes
            self.require(0, "the program")

    def _require(self, nbytes: int, what: str) -> None:
        total = self._taken + nbytes
        if self._limit is not None and total > self._limit:
            self.was_exceeded = True
            raise ResourceLimit(self._too_much(total, what))

    def _too_much(self, total: int, what: str) -> str:
        return f"with {what} {self._who} needs {total} bytes, the limit is {self._limit}"


NO_LIMIT: Final = MemoryLimit()
"""For who asks nobody."""


def resident() -> int:
    """Bytes of memory that the process occupies now, or the most so far where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return peak_rss()


def peak_rss() -> int:
    """The most memory, in bytes, that the process has occupied; 0 where the system does not say.

    Linux counts what the parent occupied when it started the process in `ru_maxrss`, so that is not asked there.
    """
    with suppress(OSError), open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
