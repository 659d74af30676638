"""Values that a prediction derives from states alone, in memory of their own, valid until the states change.

All threads that make steps of the entry share them. Each asks for the version of the states; if it is not the version
of the values, or is unknown, they are computed before the step. A thread that changes states waits for its exclusive
lock, so no thread reads values while they are computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from weakref import finalize

from runtime.engines.engine import Version
from runtime.memory.aligned import aligned_bytes
from runtime.memory.limit import MemoryLimit


class Prepacked:
    """The memory of prepacked values, and the version of the states from which they were computed.

    Attributes:
        memory: aligned bytes.
    """

    def __init__(self, nbytes: int, account: MemoryLimit) -> None:
        """Allocate the memory; raise ResourceLimit if it does not fit into the limit."""
        account.take(nbytes, "what is prepacked of its states")
        finalize(self, account.give_back, nbytes).atexit = False
        self.memory = aligned_bytes(nbytes)
        self._lock = Lock()
        self._made: int | None = None

    def require(self, version: Version, make: Callable[[], object]) -> None:
        """Ensure that the values belong to the present states; `make` computes them. Other threads wait meanwhile."""
        wanted = version()
        if wanted is not None and wanted == self._made:
            return
        with self._lock:
            if wanted is None or wanted != self._made:
                self._made = None  # until it is complete
                make()
                self._made = wanted
