"""Feeds that a step reads in the caller's arrays: the tables of its groups point there for the duration of the step.

A feed is copied into the arena instead in three cases: the end of the step reads it, its array is not contiguous, or
it shares memory with a state or the arena, which the step may overwrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.engines.native.step import CompiledStep
from runtime.placement.alignment import PAGE


class TableWords(NamedTuple):
    """The words of tables that have addresses within a feed.

    Attributes:
        base: base of the feed.
        positions: the words, each with the bytes between the start of the feed and its address.
        home: their values while the feed is in the arena.
    """

    base: int
    positions: list[tuple[int, int]]
    home: list[tuple[int, int]]


class FeedsInPlace:
    """The feeds of one compiled step."""

    def __init__(self, compiled: CompiledStep, feeds: Mapping[str, Array], owned: Sequence[Array]) -> None:
        """Keep the feeds; `owned` is the memory that the step may write: its arena and the states."""
        self._compiled, self._feeds = compiled, feeds
        self._table = compiled.words
        self._owned = _spans(owned)
        self._words = dict(self._words_of_feeds())

    def lead(self, feeds: Mapping[str, Array]) -> list[str]:
        """Let the next step read these arrays, and return the names of those that it reads in place."""
        led: list[str] = []
        table = self._table
        for name, out in self._feeds.items():
            array, words = feeds[name], self._words.get(name)
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
        """Point the tables to the arena again."""
        table = self._table
        for name in led:
            for position, address in self._words[name].home:
                table[position] = address

    def arrays(self, feeds: Mapping[str, Array], led: Sequence[str]) -> dict[str, Array]:
        """Return the arrays of all tensors; feeds that are read in place, and their views, are in the given arrays."""
        arrays, code = self._compiled.arrays, self._compiled.code
        found = dict(arrays)
        for name in led:
            memory = feeds[name].reshape(-1).view(np.uint8)
            found |= {tensor: arrays.at(tensor, memory) for tensor in code.tensors_at(self._words[name].base)}
        return found

    def _words_of_feeds(self) -> Iterator[tuple[str, TableWords]]:
        code, words = self._compiled.code, self._compiled.words
        for base, feed in enumerate(code.feeds, code.first_feed):
            if not feed.is_read_at_end:
                read = code.words_at(base)
                positions = zip(read.tolist(), code.words[read, 1].tolist(), strict=True)
                home = zip(read.tolist(), words[read].tolist(), strict=True)
                yield feed.name, TableWords(base, list(positions), list(home))


def _spans(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return address ranges that cover these arrays; arrays within a page of each other have one range.

    States are contiguous, so there are few spans, and each step looks at all of them.
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.nbytes):
        if found and low <= found[-1][1] + PAGE:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
