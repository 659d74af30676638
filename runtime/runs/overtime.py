"""The end of a run that goes on after it was asked to end: a limit of time holds within a step, and before the first.

1. While a run is loaded, checked and initialised, there is nothing to keep. The limit is raised wherever the process
   is, by an alarm of the system (setitimer), so no op is slower for it.
2. From `hold` on, the limit is checked between steps, where the states are whole. A step is interrupted: at once
   if nothing of the run would be kept anyway, else when it has had a second more than the longest step so far. The
   states are unusable then, so nothing is written of them. Only steps are ever interrupted.
3. Python handles an alarm between two calls of NumPy, so the interruption comes at most one call late. Where one call
   takes longer than `EXTRA_CALL_SECONDS`, a thread says so and ends the process.

Without alarms, on Windows and outside the main thread, the limit acts only between steps.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from time import perf_counter
from types import FrameType
from typing import Final

from runtime.errors import OutOfTime

ALARM_SECONDS: Final = 0.1
"""Seconds between alarms: Python drops an exception raised while it frees an object, with a message on stderr."""

EXTRA_STEP_SECONDS: Final = 1.0
"""Seconds that a step may take beyond the longest earlier step, where a checkpoint is to follow."""

EXTRA_CALL_SECONDS: Final = 1.0
"""Seconds that one call of NumPy may go on after it should have been interrupted."""

_EXIT_LIMIT: Final = 6


class Overtime:
    """A limit of seconds from now on, None for no limit; it acts in a `with` block."""

    def __init__(self, seconds: float | None, say: Callable[[str], object] = lambda text: None) -> None:
        """Begin with no alarm; `say` prints the last sentence of a process that is ended in the middle of a call."""
        self._seconds = seconds
        self._say = say
        self._asked = float("inf") if seconds is None else perf_counter() + seconds  # time at which the end is due
        self._error: Callable[[], BaseException] = self._out_of_time
        self._anywhere = True  # True while there is nothing to keep: an alarm raises wherever it comes
        self._stepping = False
        self._keeps = False
        self._begun = 0.0
        self._longest = 0.0
        self._left = threading.Event()
        self._alarms = False

    def ask(self, error: Callable[[], BaseException]) -> None:
        """Ask for the end now, with another error than that of the time; for the handler of a signal."""
        if perf_counter() < self._asked:
            self._error = error
            self._asked = perf_counter()
            self._set_alarm(ALARM_SECONDS / 100)

    def hold(self, *, keeps: bool) -> None:
        """Interrupt nothing but steps from now on; with `keeps` a current step gets time to become whole."""
        self._anywhere = False
        self._keeps = keeps

    def check(self) -> None:
        """Raise the error if the end was asked for; called between steps."""
        if perf_counter() >= self._asked:
            raise self._error()

    def step(self, step: Callable[[], object]) -> None:
        """Make a step, which may be interrupted."""
        self._begun = perf_counter()
        self._stepping = True
        try:
            step()
        finally:
            self._stepping = False
        self._longest = max(self._longest, perf_counter() - self._begun)

    def __enter__(self) -> Overtime:
        """Let alarms come from now on."""
        try:
            self._alarms = _can_set_alarms()
            if self._alarms:
                signal.signal(signal.SIGALRM, self._ring)
            if self._seconds is not None:
                threading.Thread(target=self._watch, name="prograd-limit", daemon=True).start()
                self._set_alarm(max(self._asked - perf_counter(), 1e-6))
        except BaseException:  # an alarm already
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Stop all alarms."""
        self._anywhere = self._stepping = False
        self._left.set()
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _set_alarm(self, seconds: float) -> None:
        if self._alarms:
            signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_SECONDS)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        del number
        if self._is_due(0.0):
            if _frees(frame):
                self._set_alarm(ALARM_SECONDS / 10)
                return
            self._set_alarm(10 * ALARM_SECONDS)  # not again before the current work has been left
            raise self._error()

    def _is_due(self, patience: float) -> bool:
        """Return True if the present work is to be interrupted, and has been for `patience` seconds."""
        room = self._longest + EXTRA_STEP_SECONDS if self._keeps else 0.0
        return (self._anywhere or self._stepping) and perf_counter() >= self._asked + room + patience

    def _watch(self) -> None:
        """End the process, from a thread, if the interruption does not come because one call does not return."""
        assert self._seconds is not None, "only begun with a limit"
        if self._left.wait(max(self._asked + EXTRA_CALL_SECONDS - perf_counter(), 0.0)):
            return
        while not self._left.wait(ALARM_SECONDS):
            if self._is_due(EXTRA_CALL_SECONDS):
                self._say(f"{self._error()}, and one operation went on for {EXTRA_CALL_SECONDS:g} more")
                os._exit(_EXIT_LIMIT)

    def _out_of_time(self) -> OutOfTime:
        return OutOfTime(f"the run took its {self._seconds:g} seconds")


def _frees(frame: FrameType | None) -> bool:
    """Return True if the frame frees an object, or waits for that: no exception can leave there."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_globals.get("__name__") in ("weakref", "_weakrefset"):
            return True
        frame = frame.f_back
    return False


def _can_set_alarms() -> bool:
    """Return True if alarms exist, may be set from this thread, and have no other user."""
    here = threading.current_thread() is threading.main_thread()
    return (
        here and hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
    )
