"""Feeds that a step reads where they lie: the tables of its groups are led to them for as long as the step takes.

A feed is copied to its own place in the arena instead where the end of the step reads it, and where its array is not
contiguous or shares memory with a state or the arena, which the step may write over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.codegen.kernels.matmul.plan import PAGE
from runtime.codegen.lower import Lowered
from runtime.dtypes import Array
from runtime.engines.native.step import CompiledStep


class Words(NamedTuple):
    """The words of tables that have addresses within a feed.

    Attributes:
        tensor: the feed's tensor.
        places: the words, each with how many bytes its address lies behind the start of the feed.
        home: what they are while the feed lies in the arena.
    """

    tensor: str
    places: list[tuple[int, int]]
    home: list[tuple[int, int]]


class LedFeeds:
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
            for place, behind in words.places:
                table[place] = at + behind
            led.append(name)
        return led

    def end(self, led: Sequence[str]) -> None:
        """Lead the tables back to the arena."""
        table = self._table
        for name in led:
            for place, address in self._words[name].home:
                table[place] = address

    def arrays(self, given: Mapping[str, Array], led: Sequence[str]) -> dict[str, Array]:
        """Return the arrays of all tensors, those of feeds and their views being in what was given."""
        found, nodes = dict(self._compiled.arrays), self._step.nodes
        for name in led:
            tensor = self._words[name].tensor
            for view in [view for view, root in nodes.root.items() if root == tensor and view in found]:
                access = nodes.accesses.get(view)
                shape = nodes.types[view].static_shape
                found[view] = given[name].reshape(shape) if access is None else access.of(given[name])
        return found

    def _words_of_feeds(self) -> list[tuple[str, Words]]:
        nodes, tables = self._step.nodes, self._compiled.tables
        found: list[tuple[str, Words]] = []
        for parameter in nodes.block.desc.parameters:
            if parameter.WhichOneof("source") != "feed" or parameter.tensor in nodes.ends:
                continue
            tensor, start = parameter.tensor, self._feeds[parameter.feed].ctypes.data
            read = sorted(
                {place for of, places in tables.words_of.items() if nodes.root.get(of) == tensor for place in places}
            )
            home = [(place, int(tables.words[place])) for place in read]
            behind = [(place, address - start) for place, address in home]
            found.append((parameter.feed, Words(tensor, behind, home)))
        return found


def _spans(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return the first address and the one after the last of these arrays; those within a page of each other are one.

    States lie beside each other, so there are few spans, and each step looks at all of them.
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.nbytes):
        if found and low <= found[-1][1] + PAGE:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
