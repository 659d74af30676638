"""What signals do: they end a process at once while nothing is under way, and between two steps while it trains.

SIGINT is what Ctrl-C sends, SIGTERM what a service manager, a container or a batch system sends, SIGHUP what a terminal
sends that is closed. This module is imported before anything else and therefore imports next to nothing.
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
    """From now on end the process at a signal, with one sentence, and 128 and the signal's number as its code.

    For the time in which modules are imported: an exception there comes out as a traceback, or as another error.
    A signal that is ignored, as under nohup, stays so.
    """
    for number in ENDINGS:
        if _is_ours(signal.getsignal(number)):
            signal.signal(number, _Leave(command))


def ignore_all() -> None:
    """From now on no signal ends the process: all is done, and only the interpreter is taken down."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


class Interrupts:
    """While it is entered, a signal is noted, and `check` raises Interrupted; a second Ctrl-C raises at once.

    Outside the main thread, where Python has no signals, and for signals that somebody else handles, it does nothing.
    It can be entered many times.
    """

    def __init__(self, *signals: signal.Signals, at_once: bool = False) -> None:
        """Without arguments it is SIGINT alone; `at_once`: the first signal raises where it comes, until `hold`."""
        self._signals = signals or (signal.SIGINT,)
        self._at_once = at_once
        self._noted: int | None = None
        self._ask: Callable[[Callable[[], BaseException]], None] = lambda error: None
        self._previous: list[tuple[int, object]] = []

    def hold(self, ask: Callable[[Callable[[], BaseException]], None] = lambda error: None) -> None:
        """From now on a signal waits for `check`: there is something that must become whole before.

        `ask` is given what makes its error, for a step that is so long that it is cut.
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
        """Only a second Ctrl-C is impatience: SIGTERM and SIGHUP are sent twice by systems that take no care."""
        del frame
        impatient = self._noted is not None and number == signal.SIGINT
        self._noted = number if self._noted is None else self._noted
        if self._at_once or impatient:
            raise Interrupted(number)
        self._ask(lambda: Interrupted(number))


class _Leave:
    """Ends the process at once."""

    def __init__(self, command: str) -> None:
        self._sentence = f"{command}: interrupted\n".encode()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:  # noqa: SIM105 (contextlib is slow to import)
            os.write(2, self._sentence)
        except OSError:  # nobody is there to read it
            pass
        os._exit(128 + number)


def _is_ours(handler: object) -> bool:
    """Whether a signal does what it does by default, or what `leave_at_once` lets it do."""
    return handler in (signal.default_int_handler, signal.SIG_DFL) or isinstance(handler, _Leave)
