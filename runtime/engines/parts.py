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
