"""A lock on the states: shared by threads that read them, exclusive for one thread that changes them.

It is phase-fair (Brandenburg and Anderson, 2010). A thread that waits for the exclusive lock goes before later readers.
Readers that waited meanwhile go before the next exclusive lock. So neither a training, which takes one exclusive lock
after the other, nor an endless sequence of readers delays others by more than one turn. The lock is reentrant, but a
thread that holds it shared may not take it exclusively.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Lock, get_ident
from typing import Protocol

from runtime.errors import UsageError


class StateLock(Protocol):
    """The context of a held lock."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class StateLocks:
    """The lock on the states of one run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._readers: dict[int, int] = {}  # by thread, the depth of its nested locks
        self._writer = 0
        self._depth = 0
        self._waiting = 0
        self._changes = 0  # number of finished exclusive locks
        self._queued = 0  # number of waiting readers
        self._due = 0  # number of readers that waited when the last exclusive lock ended

    def shared(self) -> StateLock:
        """Return the context of the shared lock, in which no thread changes the states."""
        return _Held(self.acquire_shared, self.release_shared)

    def exclusive(self) -> StateLock:
        """Return the context of the exclusive lock; raise UsageError inside a shared one."""
        return _Held(self.acquire_exclusive, self.release_exclusive)

    def acquire_exclusive(self) -> None:
        """Take the exclusive lock, which `release_exclusive` releases."""
        me = get_ident()
        with self._lock:
            if self._writer != me:
                self._wait_exclusive(me)
            self._writer, self._depth = me, self._depth + 1

    def release_exclusive(self) -> None:
        """Release the exclusive lock of `acquire_exclusive`."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._writer = 0
                self._changes += 1
                self._due = self._queued
                self._changed.notify_all()

    def acquire_shared(self) -> None:
        """Take the shared lock, which `release_shared` releases."""
        me = get_ident()
        with self._lock:
            if self._writer != me and me not in self._readers and (self._writer or self._waiting):
                self._wait_shared()
            self._readers[me] = self._readers.get(me, 0) + 1

    def release_shared(self) -> None:
        """Release the shared lock."""
        me = get_ident()
        with self._lock:
            left = self._readers.pop(me) - 1
            if left:
                self._readers[me] = left
            elif self._waiting:  # nobody else waits for the end of readers
                self._changed.notify_all()

    def version(self) -> int | None:
        """Return a number that every exclusive lock changes.

        It is None outside of a shared lock, and inside an exclusive one.

        If two calls return the same number, no thread has changed the states in between.
        """
        me = get_ident()
        return self._changes if me in self._readers and self._writer != me else None

    def _wait_shared(self) -> None:
        """Wait until no thread changes the states, and no earlier thread waits for that."""
        came = self._changes
        self._queued += 1
        try:
            self._changed.wait_for(lambda: not self._writer and (self._changes != came or not self._waiting))
        finally:
            self._queued -= 1
            if self._changes != came:
                self._due -= 1
                self._changed.notify_all()

    def _wait_exclusive(self, me: int) -> None:
        if me in self._readers:
            raise UsageError(
                "states are changed while the same thread evaluates or predicts; change them afterwards, or enter the "
                "step that trains first, as in: with train, predict"
            )
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: not self._writer and not self._readers and not self._due)
        finally:
            self._waiting -= 1
            self._changed.notify_all()


class _Held:
    """The context of a lock: a class, as a generator would slow down small predictions."""

    __slots__ = ("_acquire", "_release")

    def __init__(self, acquire: Callable[[], None], release: Callable[[], None]) -> None:
        self._acquire, self._release = acquire, release

    def __enter__(self) -> None:
        self._acquire()

    def __exit__(self, *error: object) -> None:
        self._release()
