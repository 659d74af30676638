"""Threads that help to run steps: asleep between steps, except for a moment after each.

A step does not need them: a late helper claims the remaining chunks, if there are any. Therefore they are woken when a
step begins, and no thread waits for them. On a busy machine, the thread of the step computes the chunks that helpers do
not.

On Linux helpers sleep in compiled code, in the driver that they help, and the driver itself wakes them. Here they are
only called for another driver. On other systems they return to this file to sleep, and each step wakes them one by one.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Sequence
from threading import Event
from typing import Final
from weakref import WeakSet

from runtime.engines.native.driver import Driver
from runtime.memory.memory_nodes import Node, nodes_from_here, stay_on_node


class Helpers:
    """A number of threads, which start when they are first needed."""

    def __init__(self, count: int) -> None:
        self._helpers = [_Helper(number + 1, count + 1) for number in range(count)]
        self._driver: Driver | None = None
        self._stays = False
        _ALL.add(self)

    def reset(self) -> None:
        """Begin without threads: in a child of `fork`, which has none."""
        if self._driver is not None:
            self._driver.forget_helpers()
        self._driver, self._stays = None, False
        for helper in self._helpers:
            helper.reset()

    def helping(self, driver: Driver) -> _Helping:
        """Return a context in which they help this driver."""
        return _Helping(self, driver)

    def begin(self, driver: Driver) -> None:
        """Wake them for a driver."""
        if driver is self._driver and self._stays:
            return  # all of them are in the driver, which wakes them
        if driver is not self._driver:
            self._dismiss()
            driver.welcome(True)
            self._driver = driver
        for helper in self._helpers[: driver.threads - 1]:
            helper.call(driver)
        self._stays = driver.keeps_helpers

    def end(self) -> None:
        """Let them sleep again."""
        if not self._stays:
            for helper in self._helpers:
                helper.called = False

    def close(self) -> None:
        """End the threads."""
        self._dismiss()
        for helper in self._helpers:
            helper.end()

    def _dismiss(self) -> None:
        """Let them leave the driver, if there is one; an exception at any moment leaves them in it, or without one."""
        self._stays = False
        for helper in self._helpers:
            helper.called = False
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.welcome(False)


class _Helping:
    """The context in which they help: a class, because a generator takes half as long as a small step."""

    __slots__ = ("_driver", "_helpers")

    def __init__(self, helpers: Helpers, driver: Driver) -> None:
        self._helpers, self._driver = helpers, driver

    def __enter__(self) -> None:
        self._helpers.begin(self._driver)

    def __exit__(self, *error: object) -> None:
        self._helpers.end()


class _Helper:
    """One thread.

    It announces its sleep before it checks whether it is called, and a caller calls before it checks for sleep: one of
    them sees the other, so no call is missed.

    The handler of a signal may raise an exception between any two instructions of the caller, such as that of a limit
    of time. Therefore the caller uses no `threading.Thread` and no `threading.Semaphore`, which such an exception may
    leave half started, or locked. A call of `start_new_thread` starts a thread or does not, and a plain lock is
    released or not. The thread itself notes that it runs. If two have been started, the second one ends at once.

    Attributes:
        called: True while a driver is at work.
    """

    def __init__(self, number: int, threads: int) -> None:
        self._number, self._threads = number, threads
        self._nodes: Sequence[Node] = ()
        self.reset()

    def reset(self) -> None:
        """Begin without a thread: at first, and in a child of `fork`, which has none."""
        self.called = False
        self._driver: Driver | None = None
        self._runs = self._is_closed = False
        self._sleeps = True
        self._begin, self._wake, self._ended = allocate_lock(), allocate_lock(), Event()
        self._wake.acquire()

    def call(self, driver: Driver) -> None:
        self._driver, self.called = driver, True
        if not self._runs:
            self._is_closed = False
            self._nodes = nodes_from_here()
            start_new_thread(self._run, ())
        if self._sleeps:
            self._waken()

    def end(self) -> None:
        """Tell the thread to end; a thread that was started and does not run yet ends by itself."""
        self._is_closed = True
        if self._runs:
            self._driver = None
            self._waken()
            self._ended.wait()

    def _waken(self) -> None:
        try:  # noqa: SIM105 - a small step takes no longer than a call of `suppress`
            self._wake.release()
        except RuntimeError:  # another call has woken it, and it has not begun yet
            pass

    def _run(self) -> None:
        with self._begin:
            if self._runs:
                return
            self._ended.clear()
            self._runs = True
        if not self._is_closed:
            stay_on_node(self._number, self._threads, self._nodes)
            self._work()
        self._runs = False
        self._ended.set()

    def _work(self) -> None:
        while True:
            self._wake.acquire()
            if self._driver is None:
                return
            self._help()

    def _help(self) -> None:
        """Help once, and again as long as a driver has called meanwhile."""
        again = True
        while again and (driver := self._driver) is not None:
            self._sleeps = False
            driver.help(self._number)
            self._sleeps = True
            again = self.called or self._driver is not driver


_ALL: Final = WeakSet[Helpers]()


def _reset_all() -> None:
    for helpers in _ALL:
        helpers.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
