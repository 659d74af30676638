"""Threads that help to make steps: asleep when there are none, awake for a moment after each.

A step needs none of them: whoever is late takes what is left, if anything is. So they are woken when a step begins, and
not waited for; and on a machine that is busy with something else, the thread that makes the step does what they do not.
"""

from __future__ import annotations

from threading import Semaphore, Thread

from runtime.engines.native.driver import Driver


class Helpers:
    """So many threads, which begin when they are first needed."""

    def __init__(self, count: int) -> None:
        self._helpers = [_Helper(number + 1) for number in range(count)]
        self._driver: Driver | None = None

    def called(self, driver: Driver) -> None:
        """Have them help with what this driver is about to make."""
        if driver is not self._driver:
            if self._driver is not None:
                self._driver.welcome(False)
            driver.welcome(True)
            self._driver = driver
        for helper in self._helpers:
            if helper.sleeps:
                helper.wake(driver)

    def close(self) -> None:
        """End the threads."""
        if self._driver is not None:
            self._driver.welcome(False)
        for helper in self._helpers:
            helper.end()


class _Helper:
    """One thread.

    Attributes:
        sleeps: whether it has to be woken; the thread sets it, who wakes it takes it back.
    """

    def __init__(self, number: int) -> None:
        self.sleeps = True
        self._number = number
        self._call = Semaphore(0)
        self._driver: Driver | None = None
        self._thread: Thread | None = None

    def wake(self, driver: Driver) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, name=f"prograd helper {self._number}", daemon=True)
            self._thread.start()
        self.sleeps, self._driver = False, driver
        self._call.release()

    def end(self) -> None:
        if self._thread is not None:
            self._driver = None
            self._call.release()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while True:
            self._call.acquire()
            driver = self._driver
            if driver is None:
                return
            driver.help(self._number)
            driver = None
            self.sleeps = True
