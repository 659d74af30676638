"""Feeds that a step reads where they lie: the tables of its groups are led to them for as long as the step takes.

A feed is copied to its own place in the arena instead where the end of the step reads it, and where its array is not
contiguous or shares memory with a state or the arena, which the step may write over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.codegen.kernels.matmul.plan import CONFLICT_STRIDE_BYTES
from runtime.codegen.lower import Lowered
from runtime.dtypes import Array
from runtime.engines.native.step import CompiledStep


class TableWords(NamedTuple):
    """The words of tables that have addresses within a feed.

    Attributes:
        tensor: the feed's tensor.
        positions: the words, each with how many bytes its address lies behind the start of the feed.
        home: what they are while the feed lies in the arena.
    """

    tensor: str
    positions: list[tuple[int, int]]
    home: list[tuple[int, int]]


class FeedsInPlace:
    """The feeds of one compiled step."""

    def __init__(
        self, step: Lowered, compiled: CompiledStep, feeds: Mapping[str, Array], owned: Sequence[Array]
    ) -> None:
        """`owned` is the memory that the step may write: its arena and the states."""
        self._step, self._compiled, self._feeds = step, compiled, feeds
        self._table = compiled.tables.words
        self._owned = _spans(owned)
        self._words = dict(self._words_of_feeds())

    def lead(self, given: Mapping[str, Array]) -> list[str]:
        """Have the next step read these arrays, and return the names of those that it reads where they lie."""
        led: list[str] = []
        table = self._table
        for name, out in self._feeds.items():
            array, words = given[name], self._words.get(name)
            flags = array.flags
            if words is None or not (flags.c_contiguous and flags.aligned):
                out[...] = array
                continue
            at = array.__array_interface__["data"][0]
            end = at + array.nbytes
            if any(at < high and end > low for low, high in self._owned):
                out[...] = array
                continue
            for position, behind in words.positions:
                table[position] = at + behind
            led.append(name)
        return led

    def end(self, led: Sequence[str]) -> None:
        """Lead the tables back to the arena."""
        table = self._table
        for name in led:
            for position, address in self._words[name].home:
                table[position] = address

    def arrays(self, given: Mapping[str, Array], led: Sequence[str]) -> dict[str, Array]:
        """Return the arrays of all tensors, those of feeds and their views being in what was given."""
        found, nodes = dict(self._compiled.arrays), self._step.nodes
        for name in led:
            tensor = self._words[name].tensor
            for view in [view for view, root in nodes.root.items() if root == tensor and view in found]:
                found_view = nodes.views.get(view)
                shape = nodes.types[view].static_shape
                found[view] = given[name].reshape(shape) if found_view is None else found_view.of(given[name])
        return found

    def _words_of_feeds(self) -> list[tuple[str, TableWords]]:
        nodes, tables = self._step.nodes, self._compiled.tables
        found: list[tuple[str, TableWords]] = []
        for parameter in nodes.block.desc.parameters:
            if parameter.WhichOneof("source") != "feed" or parameter.tensor in nodes.ends:
                continue
            tensor, start = parameter.tensor, self._feeds[parameter.feed].ctypes.data
            read = sorted(
                {
                    position
                    for of, positions in tables.words_of.items()
                    if nodes.root.get(of) == tensor
                    for position in positions
                }
            )
            home = [(position, int(tables.words[position])) for position in read]
            behind = [(position, address - start) for position, address in home]
            found.append((parameter.feed, TableWords(tensor, behind, home)))
        return found


def _spans(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return the first address and the one after the last of these arrays; those within a page of each other are one.

    States lie beside each other, so there are few spans, and each step looks at all of them.
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.nbytes):
        if found and low <= found[-1][1] + CONFLICT_STRIDE_BYTES:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
