"""The account of an import: the nodes that it visits, the bytes of the constants that it computes, and its time.

A file of a kilobyte may demand any amount of these, by nested loops, which are unrolled, and by constants that are
computed from others. The account ends such an import, whatever its nodes are.
"""

from __future__ import annotations

from numbers import Integral, Real
from time import monotonic
from typing import Final

from compiler.errors import CompileError
from runtime.errors import ResourceLimit
from runtime.memory.limit import resident

MAX_NODES: Final = 100_000
"""Upper bound on the nodes that an import visits; an unrolled loop visits its nodes once for each iteration."""

MAX_CONSTANT_BYTES: Final = 1 << 30
"""Upper bound on the bytes of all constants that an import computes."""


class Account:
    """Counts the nodes, bytes and seconds of an import.

    Attributes:
        nodes: number of visited nodes.
        nbytes: bytes of computed constants.
    """

    def __init__(self, max_memory: int | None = None, max_time: float | None = None) -> None:
        """Begin to count.

        Args:
            max_memory: upper bound on the bytes of the process; None for `MAX_CONSTANT_BYTES` alone.
            max_time: upper bound in seconds; None for none.
        """
        for name, value, kind in (("max_memory", max_memory, Integral), ("max_time", max_time, Real)):
            if value is not None and not isinstance(value, kind):
                what = "whole number of bytes" if kind is Integral else "number of seconds"
                raise CompileError(f"{name}={value!r} is not a {what}")
        self.nodes = 0
        self.nbytes = 0
        self._max_memory, self._max_time = max_memory, max_time
        self._room = MAX_CONSTANT_BYTES if max_memory is None else min(MAX_CONSTANT_BYTES, max_memory - resident())
        self._until = None if max_time is None else monotonic() + max_time

    def visit(self) -> None:
        """Count a node; raise ResourceLimit if there are too many, or the time is over."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise ResourceLimit(
                f"the import visits more than {MAX_NODES} nodes, as loops are unrolled; give loops fewer trips"
            )
        if self._until is not None and monotonic() > self._until:
            raise ResourceLimit(f"the import takes longer than {self._max_time:g} seconds; --max-time gives it more")

    def require_room(self, nbytes: int, what: str) -> None:
        """Raise ResourceLimit if `nbytes` exceed what a limit of the process leaves; without a limit, do nothing."""
        if self._max_memory is not None:
            self.require(nbytes, what)

    def require(self, nbytes: float, what: str) -> None:
        """Raise ResourceLimit if another `nbytes` exceed the account; the error names `what` needs them."""
        if self.nbytes + nbytes <= self._room:
            return
        if self._max_memory is None:
            raise ResourceLimit(
                f"{what} takes {nbytes:.0f} bytes, and an import computes {MAX_CONSTANT_BYTES} of constants in all"
            )
        raise ResourceLimit(
            f"{what} takes {nbytes:.0f} bytes, and {max(0, self._room - self.nbytes)} are left of the "
            f"{self._max_memory} of the process; --max-memory gives it more"
        )

    def take(self, nbytes: int) -> None:
        """Count the bytes of a constant; raise ResourceLimit if they are too many."""
        self.require(nbytes, "a constant")
        self.nbytes += nbytes
