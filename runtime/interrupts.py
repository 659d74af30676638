"""Interrupts act between steps: a signal sets a flag, and the run looks at it when its states are whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType

_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


class Interrupts:
    """While it is entered, signals are noted, and `check` raises KeyboardInterrupt; a second one raises at once.

    Outside the main thread, where Python has no signals, and where somebody else handles them, it does nothing.
    It can be entered many times.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        """Without arguments it is SIGINT alone, which is what Ctrl-C sends."""
        self._signals = signals or (signal.SIGINT,)
        self._noted = False
        self._previous: list[tuple[int, object]] = []

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                previous = signal.signal(number, self._note)
                self._previous.append((number, previous))
                if previous not in _DEFAULTS:
                    signal.signal(number, previous)
        return self

    def __exit__(self, *error: object) -> None:
        while self._previous:
            number, handler = self._previous.pop()
            signal.signal(number, handler)  # pyright: ignore[reportArgumentType]: it came from signal.signal

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True
