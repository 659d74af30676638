"""Turns at the states: several threads read them at once, or one thread alone changes them.

A thread that waits to change them goes before those that come later to read, and those that waited meanwhile go before
the next one that changes them, as in a phase-fair lock (Brandenburg and Anderson, 2010): so neither a training, which
takes one turn after the other, nor readers without end keep others waiting for more than one turn. Who has a turn may
take another one inside it, but no reader may change what it reads.
"""

from __future__ import annotations

from threading import Condition, Lock, get_ident
from typing import Protocol

from runtime.errors import UsageError


class Turn(Protocol):
    """The context of a turn."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class Turns:
    """The turns of the threads of one run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._readers: dict[int, int] = {}  # by thread, how many turns it has inside each other
        self._writer = 0
        self._depth = 0
        self._waiting = 0
        self._changes = 0  # turns alone that are over
        self._queued = 0  # readers that wait
        self._due = 0  # those of them that waited when the last turn alone ended

    def together(self) -> _Together:
        """A turn in which nobody changes the states."""
        return _Together(self)

    def alone(self) -> _Alone:
        """A turn in which nobody else reads or changes the states. Raises UsageError inside a turn with others."""
        return _Alone(self)

    def begin_alone(self) -> None:
        """Begin such a turn, which `end_alone` ends."""
        me = get_ident()
        with self._lock:
            if self._writer != me:
                self._wait_alone(me)
            self._writer, self._depth = me, self._depth + 1

    def end_alone(self) -> None:
        """End a turn that `begin_alone` began."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._writer = 0
                self._changes += 1
                self._due = self._queued
                self._changed.notify_all()

    def begin_together(self) -> None:
        """Begin such a turn, which `end_together` ends."""
        me = get_ident()
        with self._lock:
            if self._writer != me and me not in self._readers and (self._writer or self._waiting):
                self._wait_together()
            self._readers[me] = self._readers.get(me, 0) + 1

    def end_together(self) -> None:
        """End it."""
        me = get_ident()
        with self._lock:
            left = self._readers.pop(me) - 1
            if left:
                self._readers[me] = left
            elif self._waiting:  # nobody else waits for the end of readers
                self._changed.notify_all()

    def version(self) -> int | None:
        """Another number after every turn alone; None outside of a turn with others, and inside one alone.

        So who gets the number twice knows that nobody has changed the states in between.
        """
        me = get_ident()
        return self._changes if me in self._readers and self._writer != me else None

    def _wait_together(self) -> None:
        """Wait until nobody changes the states, and nobody waits for that who came before."""
        came = self._changes
        self._queued += 1
        try:
            self._changed.wait_for(lambda: not self._writer and (self._changes != came or not self._waiting))
        finally:
            self._queued -= 1
            if self._changes != came:
                self._due -= 1
                self._changed.notify_all()

    def _wait_alone(self, me: int) -> None:
        if me in self._readers:
            raise UsageError("states are changed while the same thread evaluates or predicts; change them afterwards")
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: not self._writer and not self._readers and not self._due)
        finally:
            self._waiting -= 1
            self._changed.notify_all()


class _Alone:
    """The context of a turn alone: a class, as `_Together`."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        self._turns.begin_alone()

    def __exit__(self, *error: object) -> None:
        self._turns.end_alone()


class _Together:
    """The context of a turn with others: a class, as small predictions take little longer than a generator."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        self._turns.begin_together()

    def __exit__(self, *error: object) -> None:
        self._turns.end_together()
