"""The actions of conditions and loops, as the driver runs them; `codegen.actions` defines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from runtime.codegen.actions import (
    ADD,
    CLEAR,
    COPY,
    HOST,
    JUMP,
    JUMP_IF_DONE,
    JUMP_IF_ZERO,
    LIMIT,
    LINK,
    LOAD,
    LOAD_BYTE,
    PAUSE,
    ROW,
    SET,
    STORE,
    TOGGLE,
)
from runtime.codegen.board import ACTIONS, HOSTED, NO_PAUSES, PAUSED
from runtime.codegen.costs import MAX_CYCLES_BETWEEN_SIGNALS
from runtime.codegen.emit.records import Records
from runtime.codegen.ir import INT64, UINT8, Function, Value
from runtime.codegen.ir.words import convert, where


class Interpreter(NamedTuple):
    """Values that the code of every action uses.

    Attributes:
        f: the function under construction.
        board: address of the board.
        words: address of the words of all tables.
        phase: number of the phase whose actions are run.
        next_phase: address of the number of the phase that follows.
        may_return: False in a loop whose iterations threads share: no thread returns to the caller there.
    """

    f: Function
    board: Value
    words: Value
    phase: Value
    next_phase: Value
    may_return: bool = True

    def load(self, word: Value) -> Value:
        """Return a word."""
        return self.f.load(self.words, word)

    def store(self, x: Value, word: Value) -> None:
        """Set a word."""
        self.f.store(x, self.words, word)

    def jump(self, distance: Value, condition: Value) -> None:
        """Continue with the phase that is so far away, if a condition holds."""
        with self.f.when(condition):
            self.f.store(self.phase + distance, self.next_phase)


class _Numbers(NamedTuple):
    a: Value
    b: Value
    c: Value
    d: Value


def run_actions(machine: Interpreter, records: Records, first: Value, count: Value) -> None:
    """Write the loop that runs `count` actions from a number on."""
    f = machine.f
    actions = f.address_at(machine.board, ACTIONS, INT64)
    for i in f.range(0, count):
        opcode, *numbers = records.action(f, actions, first + i)
        with f.forever() as choosing:
            for number, write in _WRITERS.items():
                if number in _RETURNING and not machine.may_return:
                    continue
                is_it = opcode.equal(number)
                with f.when(is_it):
                    write(machine, _Numbers(*numbers))
                choosing.end_if(is_it)
            choosing.end_if(opcode.equal(opcode))


def copy_bytes(f: Function, source: Value, to: Value, size: Value) -> None:
    """Write the loops that copy bytes between two arrays."""
    lanes = f.target.vector_bytes
    whole = size & -lanes
    for i in f.range(0, whole, lanes):
        f.store(f.load(source, i, lanes), to, i)
    for i in f.range(whole, size):
        f.store(f.load(source, i), to, i)


def _copy(at: Interpreter, n: _Numbers) -> None:
    f = at.f
    with f.when(at.load(n.a).not_equal(at.load(n.b))):
        copy_bytes(f, f.address_at(at.words, n.b, UINT8), f.address_at(at.words, n.a, UINT8), n.c)


def _clear(at: Interpreter, n: _Numbers) -> None:
    f = at.f
    to = f.address_at(at.words, n.a, UINT8)
    for byte in f.range(at.load(n.b) * n.c, n.d * n.c):
        f.store(f.constant(UINT8, 0), to, byte)


def _toggle(at: Interpreter, n: _Numbers) -> None:
    one, other = at.load(n.b), at.load(n.c)
    at.store(where(at.load(n.a).equal(one), other, one), n.a)


def _limit(at: Interpreter, n: _Numbers) -> None:
    f, number = at.f, at.load(n.a)
    with f.when((number < 0) | (number > n.c)):
        for check in (n.b, n.d):
            f.store(f.index(1), f.address_at(at.words, check, INT64))
        at.store(f.index(0), n.a)


def _pause(at: Interpreter, n: _Numbers) -> None:
    f, cycles = at.f, at.load(n.a) + n.c
    at.store(cycles, n.a)
    with f.when((cycles >= MAX_CYCLES_BETWEEN_SIGNALS) & f.load(at.board + PAUSED).not_equal(NO_PAUSES)):
        at.store(f.index(0), n.a)
        f.store(f.load(at.next_phase), at.board + PAUSED)


def _host(at: Interpreter, n: _Numbers) -> None:
    at.f.store(n.a + 1, at.board + HOSTED)
    at.f.store(at.f.load(at.next_phase), at.board + PAUSED)


_WRITERS: Final[Mapping[int, Callable[[Interpreter, _Numbers], None]]] = {
    LINK: lambda at, n: at.store(at.load(n.b) + n.c, n.a),
    ROW: lambda at, n: at.store(at.load(n.b) + at.load(n.d) * n.c, n.a),
    SET: lambda at, n: at.store(n.c, n.a),
    ADD: lambda at, n: at.store(at.load(n.a) + n.c, n.a),
    JUMP: lambda at, n: at.f.store(at.phase + n.c, at.next_phase),
    JUMP_IF_ZERO: lambda at, n: at.jump(n.c, at.load(n.a).equal(0)),
    JUMP_IF_DONE: lambda at, n: at.jump(n.c, at.load(n.a) >= at.load(n.b)),
    TOGGLE: _toggle,
    COPY: _copy,
    PAUSE: _pause,
    LOAD: lambda at, n: at.store(at.f.load(at.f.address_at(at.words, n.b, INT64)), n.a),
    LOAD_BYTE: lambda at, n: at.store(convert(at.f.load(at.f.address_at(at.words, n.b, UINT8)), INT64), n.a),
    STORE: lambda at, n: at.f.store(at.load(n.b), at.f.address_at(at.words, n.a, INT64)),
    CLEAR: _clear,
    LIMIT: _limit,
    HOST: _host,
}
"""The functions that write each action, the frequent ones first."""

_RETURNING: Final = (PAUSE, HOST)
"""Actions after which the driver may return to its caller."""
