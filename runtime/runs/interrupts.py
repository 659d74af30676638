"""The handling of signals: they end a process at once while nothing is under way, and between two steps of a training.

Ctrl-C sends SIGINT, a service manager, a container or a batch system SIGTERM, and a terminal that is closed SIGHUP.
This module is imported first and therefore imports next to nothing.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

TYPE_CHECKING = False  # as the module typing has it, which is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that ask a process to end; Windows lacks one."""


class Interrupted(KeyboardInterrupt):
    """A signal asked for an end; `number` is which one."""

    def __init__(self, number: int = signal.SIGINT, text: str = "interrupted") -> None:
        super().__init__(text)
        self.number = int(number)


def leave_at_once(command: str) -> None:
    """End the process at a signal from now on, with one sentence and 128 plus the signal's number as exit code.

    This is for the time in which modules are imported: an exception there comes out as a traceback, or as another
    error. A signal that is ignored, as under nohup, stays so.
    """
    for number in ENDINGS:
        if _is_ours(signal.getsignal(number)):
            signal.signal(number, _Leave(command))


def ignore_all() -> None:
    """Ignore all signals from now on: all work is done, and only the interpreter shuts down."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


class Interrupts:
    """A context in which a signal is noted, and `check` raises Interrupted; a second Ctrl-C raises at once.

    It does nothing outside the main thread, where Python has no signals, and for signals that have another handler. It
    can be entered many times.
    """

    def __init__(self, *signals: signal.Signals, at_once: bool = False) -> None:
        """Handle these signals, SIGINT alone by default.

        With `at_once` the first one raises where it comes, until `hold`.
        """
        self._signals = signals or (signal.SIGINT,)
        self._at_once = at_once
        self._noted: int | None = None
        self._ask: Callable[[Callable[[], BaseException]], None] = lambda error: None
        self._previous: list[tuple[int, object]] = []

    def hold(self, ask: Callable[[Callable[[], BaseException]], None] = lambda error: None) -> None:
        """Let signals wait for `check` from now on: there are states that must become whole first.

        `ask` gets a function that makes the error, for a step that is too long to be waited for.
        """
        self._at_once = False
        self._ask = ask

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self._noted is not None:
            number, self._noted = self._noted, None
            raise Interrupted(number)

    def __enter__(self) -> Interrupts:
        for number in self._signals:
            previous = signal.getsignal(number)
            if not _is_ours(previous):
                continue
            try:
                signal.signal(number, self._note)
            except ValueError:  # not the main thread
                return self
            self._previous.append((number, previous))
        return self

    def __exit__(self, *error: object) -> None:
        while self._previous:
            number, handler = self._previous.pop()
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]: it came from signal.getsignal

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; only a second Ctrl-C raises at once, as some systems send SIGTERM and SIGHUP twice."""
        del frame
        impatient = self._noted is not None and number == signal.SIGINT
        self._noted = number if self._noted is None else self._noted
        if self._at_once or impatient:
            raise Interrupted(number)
        self._ask(lambda: Interrupted(number))


class _Leave:
    """A handler that ends the process at once."""

    def __init__(self, command: str) -> None:
        self._sentence = f"{command}: interrupted\n".encode()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:  # noqa: SIM105 (contextlib is slow to import)
            os.write(2, self._sentence)
        except OSError:  # nobody reads stderr
            pass
        os._exit(128 + number)


def _is_ours(handler: object) -> bool:
    """Return True if a signal has its default handler, or the one of `leave_at_once`."""
    return handler in (signal.default_int_handler, signal.SIG_DFL) or isinstance(handler, _Leave)
