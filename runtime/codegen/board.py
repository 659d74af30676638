"""The board: the words in memory by which the threads of a step share its chunks."""

from __future__ import annotations

from typing import Final

OPEN, STOP, ALARM, BUSY, SLEEPERS, DONE = 0, 8, 16, 24, 40, 48
FUNCTIONS, CALLER_CPU, WAKINGS = ALARM + 1, BUSY + 1, SLEEPERS + 1
WORDS, ACTIONS, PAUSED, HOSTED, SINGLE, SYSTEM_CALL, GET_CPU, OTHER_CORES = range(32, 40)
"""Indices of the words of the board; those that threads share have cache lines of their own.

OPEN: the round and the number of the phase whose chunks may be taken; a round is one phase of one step. STOP: whether
helpers are to leave.
ALARM: the address of a word that is 0 while no runtime check failed. FUNCTIONS: the address of the functions of a
library, whose chunks have their numbers. BUSY: whether phases are running. CALLER_CPU: the CPU that the caller was on
when it began. SLEEPERS: the number of helpers that sleep, or are about to. WAKINGS: the number of times that they were
woken; they sleep on this word.
WORDS, ACTIONS: the addresses of the words of all tables, and of the table of actions. PAUSED: the phase to go on with,
or 0 if the phases are done; `NO_PAUSES` lets a loop run to its end. HOSTED: 1 + the number of the host op that the
caller computes before it goes on, or 0. SINGLE: whether the driver returns after each phase. SYSTEM_CALL: the address
of the function that makes a system call, or 0 where helpers sleep outside of compiled code. GET_CPU: the address of the
function that returns the CPU of a thread, or 0 where helpers stay on any. OTHER_CORES: the address of a table of masks,
see `system_calls.other_cores`. DONE: for each group of threads a line with the number of chunks that its helpers have
finished in all rounds: a word to which all threads add would move from core to core as often as there are threads.
"""

THREADS_OF_GROUP: Final = 8
"""Threads that count the chunks that they have finished in one word."""

MAX_GROUPS: Final = 32
"""Upper bound on these groups; the last one has all further threads."""

NO_PAUSES: Final = -1

COUNT_BITS: Final = 20
"""Bits of the number of a phase, and of the number of chunks that were taken; a round takes the other bits of a word.

Even short rounds do not exhaust 64 bits in years.
"""

MASK_BYTES: Final = 128
"""Size of a mask of CPUs: as many as the system's own type has."""

LINE_WORDS: Final = 8
"""Words of a cache line."""

CLAIMS: Final = DONE + LINE_WORDS * MAX_GROUPS
"""For each thread a line with the last round in which chunks of its range were taken, and their number."""


def board_words(threads: int) -> int:
    """Return the number of words of the board of this number of threads."""
    return CLAIMS + LINE_WORDS * threads
