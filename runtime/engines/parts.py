"""What a step is made of, for who measures it: `runtime profile` and traces."""

from __future__ import annotations

from typing import Final, NamedTuple

from prograd_proto import program_pb2 as pb

TRANSFERS: Final = -1
"""The number of a thread that only moves tensors to the file beside the arena and back."""


class Part(NamedTuple):
    """What an engine times and watches as one: an op, or a group of ops that it computes together.

    A group counts as its last op where something is said of one op: its stage, its line.

    Attributes:
        name: the op's type, or what the engine calls the group.
        ops: of the block, in its order. Views and constants, which take no time, are in none.
    """

    name: str
    ops: tuple[pb.OpDesc, ...]


class Buffer(NamedTuple):
    """Bytes of the arena that are alive together.

    Attributes:
        name: of its tensor.
        nbytes: aligned.
        parts: the positions of those that touch it, in order.
        fed: it lives from the start of the step.
        kept: it lives to its end.
    """

    name: str
    nbytes: int
    parts: list[int]
    fed: bool
    kept: bool


class Spell(NamedTuple):
    """A time in which a thread was at a part; a part that several threads share has a spell for each.

    Attributes:
        part: its position.
        start: seconds of `perf_counter`.
        stop: likewise.
        thread: 0 is the thread that made the step, TRANSFERS one for transfers alone.
    """

    part: int
    start: float
    stop: float
    thread: int
