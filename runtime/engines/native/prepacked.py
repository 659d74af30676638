"""What an entry that predicts makes of the states alone: it lies in memory of its own, good until the states change.

All threads that make steps of the entry share it. Who needs it asks for the version of the states; where that is not
the one that it was made of, or is unknown, it is made before the step. Who changes the states waits until nobody reads
them any more, and so nobody reads what is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from weakref import finalize

from runtime.engines.engine import Version
from runtime.memory.aligned import aligned_bytes
from runtime.memory.limit import MemoryLimit


class Prepacked:
    """The memory of what is prepacked, and the version of the states that it was made of.

    Attributes:
        memory: aligned bytes.
    """

    def __init__(self, nbytes: int, account: MemoryLimit) -> None:
        """Raises ResourceLimit if so many bytes do not fit into the limit."""
        account.take(nbytes, "what is prepacked of its states")
        finalize(self, account.give_back, nbytes).atexit = False
        self.memory = aligned_bytes(nbytes)
        self._lock = Lock()
        self._made: int | None = None

    def require(self, version: Version, make: Callable[[], object]) -> None:
        """Have it as these states ask for; `make` makes it. A thread that finds another one at it waits."""
        wanted = version()
        if wanted is not None and wanted == self._made:
            return
        with self._lock:
            if wanted is None or wanted != self._made:
                self._made = None  # until it is whole
                make()
                self._made = wanted
