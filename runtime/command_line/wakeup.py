"""A wait of the main thread that ends at a signal, whenever that comes.

Python acts on a signal in the main thread, between two of its instructions. A signal that comes after the last of them
and before the thread waits, for a lock say, interrupts nothing: it is acted on when the wait is over, which may be in
hours. What has arrived in a socket is not missed, so every signal leaves a byte in one, and the thread waits for that.
"""

from __future__ import annotations

import signal
import socket
from contextlib import suppress


class Wakeup:
    """While it is entered, signals and `wake` end a `wait`; both may come before it.

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
        """Where a selector sees that there is nothing to wait for."""
        return self._here.fileno()

    def wake(self) -> None:
        """End a wait; from any thread."""
        with suppress(BlockingIOError):  # so much is there already that one byte more says nothing new
            self._there.send(b"\0")

    def wait(self) -> None:
        """Wait until there was a signal or a `wake` since the last time."""
        self._here.recv(1 << 12)
