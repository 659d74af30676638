"""The account of memory that every large allocation asks first.

In the library the limit covers what a run allocates itself: states, arena, rows, fetches, results, best states. In the
command it covers the process. The memory of the process when the program is loaded, with interpreter and NumPy, counts
as well, and so does `MAX_ITEM_PIXEL_BYTES` for memory that is not counted one by one. docs/limits.md has the details.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Final
from weakref import finalize, ref

from prograd_proto.byte_sizes import exact_size
from prograd_proto.wording import as_asked
from runtime.dtypes import Array
from runtime.errors import ResourceLimit

UNCOUNTED_BYTES: Final = 8 << 20
"""Bytes reserved for memory that is not counted one by one: buffers of BLAS, temporaries of NumPy and Python."""

THREAD_BYTES: Final = 4 << 20
"""Bytes reserved likewise for each thread beside the first."""

PARSED_BYTES_RATIO: Final = 64
"""Upper bound on the bytes in memory per byte of a parsed program file: an empty op takes two bytes in the file."""

BOUND_BYTES_RATIO: Final = 16
"""Bytes of Python objects per byte of a program file when its ops are bound, at most."""


class MemoryLimit:
    """An upper bound on allocated bytes, None for no limit; threads may share it."""

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
        self._own = UNCOUNTED_BYTES + THREAD_BYTES * (threads - 1) if of_process else 0
        self._of_process = of_process and limit is not None
        self._taken = self._own + (resident() if self._of_process else 0)
        self.most = self._taken
        """The largest number of bytes that were counted at a time."""
        self.was_exceeded = False
        """True if more bytes were asked for than this limit, rather than that of `within`, allows."""
        self._lock = RLock()  # reentrant: garbage collection inside may call `give_back`
        self._noted: dict[int, tuple[ref[Array], int]] = {}  # reference to an array -> that reference and its bytes

    def take(self, nbytes: int, what: str) -> None:
        """Count bytes that are about to be allocated; raise ResourceLimit, and count nothing, if they are too many."""
        with self._lock:
            self._require(nbytes, what)
            self._taken += nbytes
            self.most = max(self.most, self._taken)
        if self._within is not None:  # without the lock: memory freed in between takes both locks in the other order
            try:
                self._within.take(nbytes, what)
            except ResourceLimit:
                with self._lock:
                    self._taken -= nbytes
                raise

    def take_for(self, owner: object, nbytes: int, what: str) -> None:
        """Count bytes for as long as an object lives."""
        self.take(nbytes, what)
        finalize(owner, self.give_back, nbytes).atexit = False

    def take_thread(self, owner: object) -> None:
        """Count the memory of a further thread for as long as an object lives, if the limit covers the process."""
        if self._own:
            self.take_for(owner, THREAD_BYTES, "the memory of a thread")

    def note(self, array: Array) -> None:
        """Give back the bytes of an array when it is freed.

        It uses a weak reference of its own, because `finalize` would slow down small predictions.
        """
        noted = ref(array, self._freed)
        self._noted[id(noted)] = noted, array.nbytes

    def _freed(self, array: ref[Array]) -> None:
        self.give_back(self._noted.pop(id(array))[1])

    @property
    def limit(self) -> int | None:
        """The upper bound on the bytes; None for no limit."""
        return self._limit

    @property
    def taken(self) -> int:
        """Bytes that are counted now."""
        return self._taken

    @property
    def room(self) -> int | None:
        """Bytes that may still be taken, None for no limit."""
        return None if self._limit is None else self._limit - self._taken

    @property
    def room_of_process(self) -> int | None:
        """Bytes that the process may still take, None without a limit or under a limit of the run alone."""
        return self.room if self._of_process else None

    def take_of_process(self, nbytes: int, what: str) -> None:
        """Count bytes that belong to the process, and not to the run."""
        if self._of_process:
            self.take(nbytes, what)

    def give_back(self, nbytes: int) -> None:
        """Count `nbytes` bytes as free again."""
        with self._lock:
            self._taken -= nbytes
        if self._within is not None:
            self._within.give_back(nbytes)

    def require(self, nbytes: int, what: str) -> None:
        """Raise ResourceLimit unless `nbytes` bytes are left."""
        with self._lock:
            self._require(nbytes, what)
        if self._within is not None:
            self._within.require(nbytes, what)

    def require_resident(self, nbytes: int, what: str) -> None:
        """Raise ResourceLimit if `nbytes` more bytes would exceed the limit of the process now."""
        if self._of_process and self._limit is not None and resident() + nbytes > self._limit:
            raise ResourceLimit(self._too_much(resident() + nbytes, what))

    @contextmanager
    def lent(self, nbytes: int, what: str) -> Generator[None]:
        """Count bytes for as long as the context lasts."""
        self.take(nbytes, what)
        try:
            yield
        finally:
            self.give_back(nbytes)

    def loaded(self, program_bytes: int) -> None:
        """Measure the process again after a program of `program_bytes` bytes was loaded.

        The measurement includes all bytes that were counted so far.
        """
        if self._of_process:
            self._taken = self._own + resident() + BOUND_BYTES_RATIO * program_bytes
            self.require(0, "the program")

    def _require(self, nbytes: int, what: str) -> None:
        total = self._taken + nbytes
        if self._limit is not None and total > self._limit:
            self.was_exceeded = True
            raise ResourceLimit(self._too_much(total, what))

    def _too_much(self, total: int, what: str) -> str:
        assert self._limit is not None, "only an account with a limit has too little"
        needed = f"with {what} {self._who} needs {exact_size(total)}, and the limit is {exact_size(self._limit)}"
        if self._within is not None:
            return needed
        return f"{needed}; allow more by {as_asked('--max-memory', 'max_memory')}"


NO_LIMIT: Final = MemoryLimit()
"""The account of callers without a limit."""


def resident() -> int:
    """Return the memory in bytes that the process occupies.

    The result is the peak where the system does not report the present size.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return peak_rss()


def peak_rss() -> int:
    """Return the peak memory of the process in bytes; 0 where the system does not report it.

    On Linux `ru_maxrss` includes the memory of the parent when it started the process, so it is not used there.
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
