"""A whole step as calls: those of the ops, and those before and after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runtime.dtypes import Array
from runtime.engines.around_step import Allocate, AroundStep, around_step
from runtime.engines.reference.bind import Around, BoundBlock, bind
from runtime.entries import BoundEntry
from runtime.memory.aligned import aligned_bytes


class Memory(NamedTuple):
    """The sources of bytes: for the arena and the file, which executors may share, and for copies."""

    arena: Allocate
    file: Allocate
    copies: Allocate = aligned_bytes


class BoundStep(NamedTuple):
    """A bound step without the way in which its ops are called.

    Attributes:
        block: the arrays, and the ops in order.
        around: the calls before and after the ops.
    """

    block: BoundBlock
    around: AroundStep


def bind_step(
    bound: BoundEntry,
    states: Mapping[str, Array],
    fetch: Sequence[str],
    memory: Memory,
    around: Around,
    ways: Sequence[Sequence[int]],
) -> BoundStep:
    """Place and bind an entry that also fetches the tensors named in `fetch`; its states are updated in the arrays."""
    block = bound.block
    made = bind(
        block,
        states,
        around=around,
        pinned=fetch,
        plan=bound.plan,
        ways=ways,
        memory=memory.arena,
        file=memory.file,
    )
    return BoundStep(made, around_step(block, made.arrays, states, fetch, memory.copies))
