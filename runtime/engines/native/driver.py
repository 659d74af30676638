"""The driver of a step: it runs the phases of its tables, with the help of other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from runtime.codegen.board import (
    ACTIONS,
    ALARM,
    GET_CPU,
    HOSTED,
    NO_PAUSES,
    OTHER_CORES,
    PAUSED,
    SINGLE,
    SLEEPERS,
    STOP,
    SYSTEM_CALL,
    WORDS,
    board_words,
)
from runtime.codegen.machine import Target
from runtime.dtypes import Array
from runtime.engines.native.compiled import own_code
from runtime.engines.native.jit import Loaded
from runtime.engines.native.system_calls import get_cpu, give_way, other_cores, system_call
from runtime.memory.aligned import aligned_bytes

if TYPE_CHECKING:
    from runtime.codegen.ir import Module

SPINS_BEFORE_YIELD: Final = 4096
"""Reads of the board before a helper without work yields its core. They last longer than Python takes between steps."""

YIELDS_BEFORE_SLEEP: Final = 1024
"""Yields of a helper before it sleeps."""


class Driver:
    """Runs phases; one thread at a time drives, any others may help.

    Attributes:
        threads: number of threads that share the chunks, the caller's included; further helpers are not called.
        phases: the table of phases.
        chunks: the table of chunks.
        keeps_helpers: True if helpers sleep in compiled code, and leave it only when they are told to.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        phases: Array,
        chunks: Array,
        alarm: Array,
        alive: object,
        actions: Array | None = None,
        words: Array | None = None,
        hosts: Sequence[Callable[[], object]] = (),
    ) -> None:
        """Keep tables of phases and chunks, in the format of `codegen.emit.driver`.

        `actions` work on `words`, the tables of all groups; there may be none. `hosts` are the calls of the host ops
        in blocks inside ops. `alive` keeps the memory to which
        they refer. The first word of `alarm` is 0 unless a runtime check of a chunk failed.
        """
        code = driver_code(target)
        self._repeat: Callable[..., None] = code.function("repeat", 8)
        self._drive: Callable[..., None] = code.function("drive", 7)
        self._help: Callable[..., None] = code.function("help", 8)
        self._wake: Callable[..., None] = code.function("wake", 1)
        self._board = aligned_bytes(board_words(threads) * 8).view(np.int64)
        self._board[:] = 0
        self._board[ALARM] = alarm.ctypes.data
        self.keeps_helpers = threads > 1 and system_call() != 0
        cores = other_cores() if self.keeps_helpers else None
        if self.keeps_helpers:
            self._board[SYSTEM_CALL] = system_call()
        if cores is not None:
            self._board[GET_CPU], self._board[OTHER_CORES] = get_cpu(), cores.ctypes.data
        if actions is not None and words is not None:
            self._board[WORDS], self._board[ACTIONS] = words.ctypes.data, actions.ctypes.data
        self.phases, self.chunks, self._alive = phases, chunks, (alarm, actions, words, cores, alive)
        self._tables = tuple(array.ctypes.data for array in (self._board, phases, chunks))
        self.threads, self._hosts = threads, hosts

    def drive(self, first: int, last: int) -> None:
        """Run the phases from `first` to before `last`.

        A loop that takes long returns now and then, so that Python handles signals, and goes on. So does one with host
        ops in its block, to compute each.
        """
        board = self._board
        board[PAUSED] = board[HOSTED] = 0
        self._drive(*self._tables, first, last, self.threads, give_way())
        while board[PAUSED]:
            first, board[PAUSED] = int(board[PAUSED]), 0
            if board[HOSTED]:
                host, board[HOSTED] = self._hosts[int(board[HOSTED]) - 1], 0
                host()
            self._drive(*self._tables, first, last, self.threads, give_way())

    def timed(self, first: int, last: int) -> Iterator[tuple[int, float]]:
        """Run phases as `drive` does, and yield each with its seconds; host ops in blocks belong to their phase."""
        board = self._board
        board[PAUSED] = board[HOSTED] = 0
        board[SINGLE] = 1
        try:
            while first < last:
                start = perf_counter()
                self._drive(*self._tables, first, last, self.threads, give_way())
                following, board[PAUSED] = int(board[PAUSED]), 0
                if board[HOSTED]:
                    host, board[HOSTED] = self._hosts[int(board[HOSTED]) - 1], 0
                    host()
                yield first, perf_counter() - start
                first = following or last
        finally:
            board[SINGLE] = 0

    def repeat(self, first: int, last: int, steps: Array) -> None:
        """Run these phases many times, by a table in the format of `codegen.emit.driver`."""
        self._board[PAUSED] = NO_PAUSES
        self._repeat(*self._tables, first, last, self.threads, give_way(), steps.ctypes.data)

    def help(self, thread: int) -> None:
        """Take chunks of driven phases on another thread.

        Return when helpers are to leave or, unless the driver keeps them, when no phase was driven for a while.
        """
        self._help(*self._tables, thread, self.threads, give_way(), SPINS_BEFORE_YIELD, YIELDS_BEFORE_SLEEP)

    def welcome(self, helpers: bool) -> None:
        """Let helpers stay, or let them leave as soon as they find no chunk."""
        self._board[STOP] = not helpers
        if not helpers:
            self._wake(self._tables[0])

    def forget_helpers(self) -> None:
        """Begin without helpers: in a child of `fork`, where they do not exist."""
        self._board[SLEEPERS] = 0


def driver_code(target: Target) -> Loaded:
    """Return the functions of the driver, which are the same for all programs and numbers of threads."""
    return _driver_code(target.for_threads(1))


@cache
def _driver_code(target: Target) -> Loaded:
    return own_code(target, "driver", _write, ("drive", "help", "repeat", "wake", "words"))


def _write(module: Module) -> None:
    from runtime.codegen.emit.driver import write_driver  # imported here because cached code is not written
    from runtime.codegen.emit.random_bits import write_random_bits

    write_driver(module)
    write_random_bits(module)
