"""The parts of a step, for `runtime profile` and traces."""

from __future__ import annotations

from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb

TRANSFER_THREAD: Final = -1
"""Thread number of the thread that only moves tensors to the file beside the arena and back."""


class Part(NamedTuple):
    """An op, or a group of ops that an engine computes together, measured and instrumented as one.

    A group counts as its last op where a report names one op: its stage, its line.

    Attributes:
        name: the op's type, or the engine's name of the group.
        ops: the ops of the block, in its order. Views and constants take no time and belong to no part.
    """

    name: str
    ops: tuple[pb.OpDesc, ...]


class Buffer(NamedTuple):
    """Bytes of the arena that are alive together.

    Attributes:
        name: name of the tensor.
        nbytes: aligned size in bytes.
        parts: positions of the parts that touch it, in order.
        fed: True if it lives from the start of the step.
        kept: True if it lives to the end of the step.
    """

    name: str
    nbytes: int
    parts: list[int]
    fed: bool
    kept: bool


class Spell(NamedTuple):
    """An interval in which a thread worked on a part; a part that several threads share has one for each.

    Attributes:
        part: position of the part.
        start: seconds of `perf_counter`.
        stop: seconds of `perf_counter`.
        thread: 0 for the thread that called the step, TRANSFER_THREAD for the thread of transfers.
    """

    part: int
    start: float
    stop: float
    thread: int


class TimeInBlocks(NamedTuple):
    """The time of the ops with one name in the blocks of loops and conditions, in one step.

    Attributes:
        name: the op's type, or the engine's name of the group, and the type of the op whose block it is in.
        calls: number of calls, in all iterations.
        seconds: seconds of all calls.
    """

    name: str
    calls: int
    seconds: float


class TimesInBlocks:
    """A collector of times by name."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def add(self, name: str, seconds: float) -> None:
        """Add a call."""
        self._calls[name] = self._calls.get(name, 0) + 1
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def result(self) -> list[TimeInBlocks]:
        """Return the times of all names, in the order of their first calls."""
        return [TimeInBlocks(name, calls, self._seconds[name]) for name, calls in self._calls.items()]
