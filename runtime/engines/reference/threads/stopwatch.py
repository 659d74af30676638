"""Calls that note their begin, end and thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from threading import get_ident
from time import perf_counter

from runtime.engines.parts import Spell
from runtime.engines.reference.threads.in_order import Call


class Stopwatch:
    """The instrumented calls of a step.

    Attributes:
        calls: the calls to make instead of the original ones.
    """

    def __init__(self, calls: Sequence[Call], known: Mapping[int, int]) -> None:
        """Instrument the calls; `known` are numbers below 0 of threads, by the identity of the thread."""
        self._start = [0.0] * len(calls)
        self._stop = [0.0] * len(calls)
        self._thread = [0] * len(calls)
        self._known = dict(known)
        self._unnumbered = len(known)
        self.calls = [self._watched(i, call) for i, call in enumerate(calls)]

    def spells(self) -> list[Spell]:
        """Return a spell for each call of the last step, in their order."""
        return list(map(Spell, count(), self._start, self._stop, map(self._number, self._thread)))

    def _watched(self, i: int, call: Call) -> Call:
        start, stop, thread = self._start, self._stop, self._thread

        def watched() -> None:
            thread[i] = get_ident()
            start[i] = perf_counter()
            call()
            stop[i] = perf_counter()

        return watched

    def _number(self, ident: int) -> int:
        self._known.setdefault(get_ident(), 0)
        return self._known.setdefault(ident, len(self._known) - self._unnumbered)
