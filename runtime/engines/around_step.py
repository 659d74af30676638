"""The work of every engine around the ops of a step: feeds to fill, copies of fetches, and late updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.conversion import conversion, python_dtype
from runtime.dtypes import Array, array_type
from runtime.memory.aligned import view

Call = Callable[[], object]
Allocate = Callable[[int], Array]
"""Function that returns at least the given number of aligned bytes."""


class AroundStep(NamedTuple):
    """The calls and arrays before and after the ops of a step.

    Attributes:
        feeds: arrays to fill before a step, by feed name.
        fetches: values of the last step, by fetch name.
        before: calls before those of the ops.
        after: calls after them: copies of fetches, and updates that the ops have not made in place.
    """

    feeds: dict[str, Array]
    fetches: dict[str, Array]
    before: list[Call]
    after: list[Call]


def around_step(
    block: pb.BlockDesc,
    arrays: Mapping[str, Array],
    states: Mapping[str, Array],
    fetch: Sequence[str],
    copies: Allocate,
) -> AroundStep:
    """Return the calls around the ops of a block on these arrays; also fetch the tensors named in `fetch`."""
    feeds = {p.feed: arrays[p.tensor] for p in block.parameters if p.WhichOneof("source") == "feed"}
    fetches: dict[str, Array] = {}
    before: list[Call] = []
    after: list[Call] = []
    of_state = {p.tensor for p in block.parameters if p.WhichOneof("source") == "state"}
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    wanted = {desc.name: desc.tensor for desc in block.fetches} | {name: name for name in fetch}
    for name, tensor in wanted.items():
        dtype = python_dtype(types[tensor].dtype)
        fetches[name], copy = conversion(arrays[tensor], dtype, copies)
        (before if tensor in of_state else after).append(copy)
    return AroundStep(feeds, fetches, before, after + _updates(block, arrays, states, copies))


def _updates(
    block: pb.BlockDesc, arrays: Mapping[str, Array], states: Mapping[str, Array], memory: Allocate
) -> list[Call]:
    """Return the calls for the updates that no op has made in place.

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
