"""The board: the words in memory by which the threads of a step share its chunks."""

from __future__ import annotations

from typing import Final

CLAIM, DONE, STOP, ALARM, BUSY, BOARD_WORDS = 0, 8, 16, 24, 32, 48
WORDS, ACTIONS, PAUSED, HOSTED, SINGLE = range(40, 45)
"""Indices of the words of the board, and the number of words that it takes; threads share the first five, each of
which has a cache line of its own.

CLAIM: the chunks that are taken. DONE: the number of chunks that helpers have finished. STOP: whether helpers are to
leave. ALARM: the address of a word that is 0 while no runtime check failed. BUSY: whether phases are running.
WORDS, ACTIONS: the addresses of the words of all tables, and of the table of actions. PAUSED: the phase to go on with,
or 0 if the phases are done; `NO_PAUSES` lets a loop run to its end. HOSTED: 1 + the number of the host op that the
caller computes before it goes on, or 0. SINGLE: whether the driver returns after each phase.
"""

NO_PAUSES: Final = -1

COUNT_BITS: Final = 22
MAX_CHUNKS: Final = (1 << COUNT_BITS) - 1
CLOSED_CLAIM: Final = MAX_CHUNKS >> 1
"""A claim of phase 0 that nothing can be taken from."""
