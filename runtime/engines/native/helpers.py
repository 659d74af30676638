"""Threads that help to run steps: asleep between steps, except for a moment after each.

A step does not need them: a late helper claims the remaining chunks, if there are any. Therefore they are woken when a
step begins, and no thread waits for them. On a busy machine, the thread of the step computes the chunks that helpers do
not.
"""

from __future__ import annotations

from threading import Semaphore, Thread

from runtime.engines.native.driver import Driver


class Helpers:
    """A number of threads, which start when they are first needed."""

    def __init__(self, count: int) -> None:
        self._helpers = [_Helper(number + 1) for number in range(count)]
        self._driver: Driver | None = None

    def helping(self, driver: Driver) -> _Helping:
        """Return a context in which they help this driver."""
        return _Helping(self, driver)

    def begin(self, driver: Driver) -> None:
        """Wake them for a driver."""
        if driver is not self._driver:
            if self._driver is not None:
                self._driver.welcome(False)
            driver.welcome(True)
            self._driver = driver
        for helper in self._helpers:
            helper.call(driver)

    def end(self) -> None:
        """Let them sleep again."""
        for helper in self._helpers:
            helper.called = False

    def close(self) -> None:
        """End the threads."""
        if self._driver is not None:
            self._driver.welcome(False)
        for helper in self._helpers:
            helper.end()


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

    Attributes:
        called: True while a driver is at work.
    """

    def __init__(self, number: int) -> None:
        self.called = False
        self._sleeps = True
        self._number = number
        self._wake = Semaphore(0)
        self._driver: Driver | None = None
        self._thread: Thread | None = None

    def call(self, driver: Driver) -> None:
        self._driver, self.called = driver, True
        if self._thread is None:
            self._thread = Thread(target=self._work, name=f"prograd helper {self._number}", daemon=True)
            self._thread.start()
        if self._sleeps:
            self._sleeps = False
            self._wake.release()

    def end(self) -> None:
        if self._thread is not None:
            self._driver = None
            self._wake.release()
            self._thread.join()
            self._thread = None

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
            again = self.called
