"""A wait of the main thread that ends at a signal, whenever the signal comes.

Python handles a signal in the main thread, between two of its instructions. A signal after the last instruction before
a wait, for a lock say, interrupts nothing: it is handled after the wait, which may take hours. Bytes in a socket are
not missed. So every signal writes a byte into a socket, and the thread waits for that.
"""

from __future__ import annotations

import signal
import socket
from contextlib import suppress


class Wakeup:
    """A context in which signals and `wake` end a `wait`; both may come before it.

    Outside the main thread, where Python has no signals, only `wake` does. One is entered at a time.
    """

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(True)
        self._there.setblocking(False)
        self._previous: int | None = None

    def __enter__(self) -> Wakeup:
        with suppress(ValueError):  # not the main thread
            self._previous = signal.set_wakeup_fd(self._there.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.set_wakeup_fd(self._previous)
        self._here.close()
        self._there.close()

    def fileno(self) -> int:
        """Return the descriptor that a selector waits for."""
        return self._here.fileno()

    def wake(self) -> None:
        """End a wait; any thread may call it."""
        with suppress(BlockingIOError):  # the buffer is full, so the wait ends anyway
            self._there.send(b"\0")

    def wait(self) -> None:
        """Wait until there was a signal or a `wake` since the last wait."""
        self._here.recv(1 << 12)
