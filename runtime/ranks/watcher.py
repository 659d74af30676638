"""A parent process that notices a rank which ends before its run does.

A launcher takes the exit code 0 of one process for its success, even in the middle of a run, and ends the others. So
each process that it started only watches a child, which runs. A child with the exit code 0 that did not say that it is
done is an error. The child dies with its parent.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

from runtime.errors import ProcessLost
from runtime.ranks.clock import WaitingClock
from runtime.runs.interrupts import ENDINGS

_JOINED: Final = b"j"
_DONE: Final = b"d"
_TICK_SECONDS: Final = 0.5  # of one wait, so that the clock notices pauses
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of Linux


class Watched:
    """The messages from a child to its parent; without a parent that watches, they go nowhere."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    def joined(self) -> None:
        """Tell that the process has joined the job."""
        self._tell(_JOINED)

    def done(self) -> None:
        """Tell that the run is done, so that the exit code counts."""
        self._tell(_DONE)

    def _tell(self, word: bytes) -> None:
        if self._pipe is not None:
            os.write(self._pipe, word)


def watched(say: Callable[[str], object], name: str, seconds: float) -> Watched:
    """Go on in a child process, while this one watches it and ends with its exit code.

    Args:
        say: prints a sentence.
        name: name of the rank in it.
        seconds: time in which the child must join the job.
    """
    if not hasattr(os, "fork"):
        return Watched(None)
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(reader)
        os.setpgid(0, 0)  # a Ctrl-C comes once, from the parent
        _die_with(parent)
        return Watched(writer)
    os.close(writer)
    for number in ENDINGS:
        signal.signal(number, _Forward(child))
    os._exit(_watch(child, reader, lambda text: say(f"{name}: {text}"), seconds))


class _Forward:
    """A handler that passes a signal on to the child."""

    def __init__(self, child: int) -> None:
        self._child = child

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del frame
        try:  # noqa: SIM105 (the child may be gone)
            os.kill(self._child, number)
        except ProcessLookupError:
            pass


def _watch(child: int, reader: int, say: Callable[[str], object], seconds: float) -> int:
    """Return the exit code for a child that has ended."""
    words, clock = b"", WaitingClock()
    while not select.select([reader], [], [], min(seconds, _TICK_SECONDS))[0] and clock.seconds() < seconds:
        pass
    if select.select([reader], [], [], 0)[0]:
        words = os.read(reader, 1)
    else:
        say(f"the process did not join the others within {seconds:g} seconds")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return ProcessLost.CODE
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number in ENDINGS or number == signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
        return 128 + number
    code = os.waitstatus_to_exitcode(status)
    while more := os.read(reader, 64):
        words += more
    if code == 0 and _DONE not in words:
        say("the process ended in the middle of the run, with the exit code 0")
        return ProcessLost.CODE
    return code


def _die_with(parent: int) -> None:
    """Let the system end this process when its parent ends."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, int(signal.SIGKILL))
    if os.getppid() != parent:  # it has ended already
        os._exit(ProcessLost.CODE)
