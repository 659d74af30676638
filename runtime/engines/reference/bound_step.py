"""A whole step as calls: copies of fetched states, the ops, copies of all other fetches, and of updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.aligned_memory import aligned_bytes, view
from runtime.conversion import conversion, given_dtype
from runtime.dtypes import Array, array_type
from runtime.engines.reference.bind import BoundBlock, Call, bind, no_file
from runtime.entries import BoundEntry

Allocate = Callable[[int], Array]
"""Gives at least so many aligned bytes."""


class Memory(NamedTuple):
    """Where bytes come from: for the arena and the file, which executors that take turns may share, and for copies."""

    arena: Allocate = aligned_bytes
    file: Allocate = no_file
    copies: Allocate = aligned_bytes


class BoundStep(NamedTuple):
    """Everything of a step but the way in which its ops are called.

    Attributes:
        block: the arrays, and the ops in order.
        feeds: by feed name, the arrays to fill before a step.
        fetches: by fetch name, the values of the last step.
        before: calls before those of the ops.
        after: calls after them.
    """

    block: BoundBlock
    feeds: dict[str, Array]
    fetches: dict[str, Array]
    before: list[Call]
    after: list[Call]


def bind_step(bound: BoundEntry, states: Mapping[str, Array], fetch: Sequence[str], memory: Memory) -> BoundStep:
    """Place and bind an entry that also fetches the tensors of these names; its states are updated in the arrays."""
    block = bound.block
    made = bind(block, states, pinned=fetch, plan=bound.plan, memory=memory.arena, file=memory.file)
    feeds = {p.feed: made.arrays[p.tensor] for p in block.parameters if p.WhichOneof("source") == "feed"}
    fetches: dict[str, Array] = {}
    before: list[Call] = []
    after: list[Call] = []
    of_state = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    wanted = {desc.name: desc.tensor for desc in block.fetches} | {name: name for name in fetch}
    for name, tensor in wanted.items():
        dtype = given_dtype(types[tensor].dtype)
        fetches[name], copy = conversion(made.arrays[tensor], dtype, memory.copies)
        (before if tensor in of_state else after).append(copy)
    after += _updates(block, made.arrays, states, memory.copies)
    return BoundStep(made, feeds, fetches, before, after)


def _updates(
    block: pb.BlockDesc, arrays: Mapping[str, Array], states: Mapping[str, Array], memory: Allocate
) -> list[Call]:
    """The updates that no op has made in place.

    A source may lie in the memory of another state: it is a state itself, or was written over one. If that state is
    copied to as well, the source is read before.
    """
    pairs = [(states[update.state], arrays[update.tensor]) for update in block.updates]
    pairs = [(state, source) for state, source in pairs if state.ctypes.data != source.ctypes.data or not state.size]
    written = {state.ctypes.data for state, _ in pairs if state.size}
    early: list[Call] = []
    late: list[Call] = []
    for state, source in pairs:
        if source.size and source.ctypes.data in written:
            copy = view(memory(source.nbytes), 0, array_type(source))
            early.append(partial(np.copyto, copy, source))
            source = copy
        late.append(partial(np.copyto, state, source))
    return early + late
