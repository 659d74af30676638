"""The board: the words in memory by which the threads of a step share its chunks."""

from __future__ import annotations

from typing import Final

OPEN, DONE, STOP, ALARM, BUSY, CLAIMS = 0, 8, 16, 24, 32, 48
WORDS, ACTIONS, PAUSED, HOSTED, SINGLE = range(40, 45)
"""Indices of the words of the board; threads share the first five, each of which has a cache line of its own.

OPEN: the round and the number of the phase whose chunks may be taken; a round is one phase of one step. DONE: the
number of its chunks that helpers have finished. STOP: whether helpers are to leave.
ALARM: the address of a word that is 0 while no runtime check failed. BUSY: whether phases are running.
WORDS, ACTIONS: the addresses of the words of all tables, and of the table of actions. PAUSED: the phase to go on with,
or 0 if the phases are done; `NO_PAUSES` lets a loop run to its end. HOSTED: 1 + the number of the host op that the
caller computes before it goes on, or 0. SINGLE: whether the driver returns after each phase. CLAIMS: for each thread a
line with the last round in which chunks of its range were taken, and their number.
"""

NO_PAUSES: Final = -1

COUNT_BITS: Final = 20
"""Bits of the number of a phase, and of the number of chunks that were taken; a round takes the other bits of a word.

Even short rounds do not exhaust 64 bits in years.
"""

CLAIM_WORDS: Final = 8
"""Words of a cache line."""


def board_words(threads: int) -> int:
    """Return the number of words of the board of this number of threads."""
    return CLAIMS + CLAIM_WORDS * threads
