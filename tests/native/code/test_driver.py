"""The driver: every chunk is done once in its phase, whoever does it, and helpers come and go."""

import gc
import os
import signal
import sys
import time
from _thread import _count as count_threads
from collections.abc import Callable

import numpy as np
import pytest
from native.building import HERE

from runtime import usable_cores as of_machine
from runtime.codegen.board import SLEEPERS
from runtime.codegen.ir import INT64, Module, pointer
from runtime.codegen.machine import target
from runtime.engines.native import jit, system_calls
from runtime.engines.native.driver import Driver
from runtime.engines.native.helpers import Helpers

UNITS = 40


@pytest.fixture(params=["by a futex", "by a lock"])
def sleeping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way in which helpers sleep: that of Linux, and that of other systems."""
    if request.param == "by a lock":
        monkeypatch.setattr("runtime.engines.native.driver.system_call", lambda: 0)
    elif not system_calls.system_call():
        pytest.skip("this system has no futex")
    return request.param


def counting(threads: int, phases: list[list[tuple[int, int]]], *, chained: bool = False) -> tuple[Driver, np.ndarray]:
    """A driver of phases of chunks, each of which adds its number of phases so far to the words of its units.

    A word is read by the next phase at another place, so a phase that begins too early leaves wrong numbers. If they
    are chained, all but the first unit of a chunk are further records, one for each.
    """
    module = Module(target(HERE[0]))
    f = module.function("add", [pointer(INT64), INT64, INT64, INT64])
    table, start, stop, _ = f.arguments
    read, written = (f.address_at(table, i, INT64) for i in range(2))
    for unit in f.range(start, stop):
        f.store(f.load(read, UNITS - 1 - f.index(unit)) * 3 + unit, written, unit)
    f.end()
    code = jit.load(jit.compiled(module), module.target)
    words = np.zeros((2, UNITS), np.int64)
    tables = np.array([[words[i % 2].ctypes.data, words[1 - i % 2].ctypes.data] for i in range(len(phases))], np.int64)
    records, begins = [], []
    for i, chunks in enumerate(phases):
        begins.append((len(records), len(chunks)))
        records += [[code.address("add"), tables[i].ctypes.data, start, stop, 0] for start, stop in chunks]
    for place, record in enumerate(list(records) if chained else []):
        function, table, start, stop, _ = record
        record[3:] = start + 1, len(records) - place if stop > start + 1 else 0
        records += [[function, table, unit, unit + 1, int(unit + 1 < stop)] for unit in range(start + 1, stop)]
    arrays = np.array(begins, np.int64), np.array(records, np.int64)
    return Driver(module.target, threads, *arrays, np.zeros(1, np.int64), (code, words, tables)), words


def expected(phases: int) -> np.ndarray:
    words = np.zeros((2, UNITS), np.int64)
    for i in range(phases):
        words[1 - i % 2] = words[i % 2][::-1] * 3 + np.arange(UNITS)
    return words


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("sleeping")
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 5, 32])
def test_every_chunk_is_done_once_in_its_phase(threads: int, chained: bool):
    whole = [(0, UNITS)]
    halves = [(0, UNITS // 2), (UNITS // 2, UNITS)]
    single = [(i, i + 1) for i in range(UNITS)]
    phases = [single, halves, single, whole, single, halves, whole, single]
    driver, words = counting(threads, phases, chained=chained)
    helpers = Helpers(threads - 1)
    for turn in range(300 if threads < 8 else 60):
        words[...] = 0
        with helpers.helping(driver):
            driver.drive(0, len(phases))
        np.testing.assert_array_equal(words, expected(len(phases)))
        if turn % 50 == 49:
            time.sleep(0.01)  # long enough for helpers to fall asleep
    helpers.close()


def test_a_thread_takes_the_chunks_of_threads_that_are_not_there():
    driver, words = counting(32, [[(i, i + 1) for i in range(UNITS)]] * 3)
    for helpers in (Helpers(0), Helpers(2)):
        words[...] = 0
        with helpers.helping(driver):
            driver.drive(0, 3)
        np.testing.assert_array_equal(words, expected(3))
        helpers.close()


@pytest.mark.usefixtures("sleeping")
def test_only_as_many_helpers_are_called_as_a_driver_has_threads():
    before = settled_count()
    driver, words = counting(2, [[(i, i + 1) for i in range(UNITS)]])
    helpers = Helpers(5)
    with helpers.helping(driver):
        driver.drive(0, 1)
    np.testing.assert_array_equal(words, expected(1))
    assert soon(lambda: count_threads() == before + 1)
    helpers.close()
    assert soon(lambda: count_threads() == before)


@pytest.mark.usefixtures("sleeping")
def test_a_helper_stays_while_a_chunk_takes_longer_than_its_patience():
    """Two chunks wait for each other, after one that takes a while: without a helper the first would wait in vain."""
    module = Module(target(HERE[0]))
    f = module.function("while", [pointer(INT64), INT64, INT64, INT64])
    turns = f.local()
    f.store(f.index(0), turns)
    with f.forever() as waiting:
        f.store(f.load(turns) + 1, turns)
        f.pause()
        waiting.end_if(f.load(turns) > f.arguments[1])
    f.end()
    f = module.function("meet", [pointer(INT64), INT64, INT64, INT64])
    words, mine, _, _ = f.arguments
    f.store(f.index(0), turns := f.local())
    f.atomic_store(1, words + mine)
    with f.forever() as waiting:
        f.store(f.load(turns) + 1, turns)
        f.pause()
        waiting.end_if((f.atomic_load(words + (1 - mine)).not_equal(0)) | (f.load(turns) > 1 << 28))
        f.store(f.load(turns), words + (mine + 2))
    f.end()
    code = jit.load(jit.compiled(module), module.target)
    words = np.zeros(4, np.int64)
    records = [(code.address("while"), 0, 1 << 20, 0, 0)]
    records += [(code.address("meet"), words.ctypes.data, i, i + 1, 0) for i in range(2)]
    begins = np.array([(0, 1), (1, 2)], np.int64)
    driver = Driver(module.target, 2, begins, np.array(records, np.int64), np.zeros(1, np.int64), (code, words))
    helpers = Helpers(1)
    with helpers.helping(driver):
        driver.drive(0, 2)
    helpers.close()
    assert max(words[2:]) < 1 << 28, "nobody came to help"


@pytest.mark.usefixtures("sleeping")
def test_helpers_go_from_one_driver_to_another_and_none_is_left():
    before = settled_count()
    drivers = [counting(3 - n // 2, [[(i, i + 1) for i in range(UNITS)]] * (n + 1)) for n in range(3)]
    helpers = Helpers(2)
    for turn in range(60):
        driver, words = drivers[turn % 3]
        words[...] = 0
        with helpers.helping(driver):
            driver.drive(0, turn % 3 + 1)
        np.testing.assert_array_equal(words, expected(turn % 3 + 1))
    assert soon(lambda: count_threads() == before + 2)
    helpers.close()
    assert soon(lambda: count_threads() == before)


@pytest.mark.usefixtures("sleeping")
def test_a_helper_that_a_driver_does_not_call_sleeps():
    """Five helpers of a driver, of which the next driver calls one: the others take no processor time."""
    first, words = counting(6, [[(i, i + 1) for i in range(UNITS)]])
    second, _ = counting(2, [[(i, i + 1) for i in range(UNITS)]])
    helpers = Helpers(5)
    for driver in (first, second):
        with helpers.helping(driver):
            driver.drive(0, 1)
    np.testing.assert_array_equal(words, expected(1))
    time.sleep(0.1)
    start = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - start < 0.1
    helpers.close()


needs_futex = pytest.mark.skipif(not system_calls.system_call(), reason="this system has no futex")


@needs_futex
def test_sleeping_helpers_are_woken_by_each_drive():
    driver, words = counting(4, [[(i, i + 1) for i in range(UNITS)]])
    helpers = Helpers(3)
    for _ in range(20):
        words[...] = 0
        with helpers.helping(driver):
            driver.drive(0, 1)
        np.testing.assert_array_equal(words, expected(1))
        assert soon(lambda: driver._board[SLEEPERS] == 3)
    helpers.close()
    assert driver._board[SLEEPERS] == 0


@needs_futex
@pytest.mark.skipif(not system_calls.get_cpu(), reason="the system does not tell the CPU of a thread")
def test_a_helper_leaves_the_core_of_the_caller():
    allowed = os.sched_getaffinity(0)
    masks = system_calls.other_cores()
    if masks is None:
        pytest.skip("this process has one core")
    driver, words = counting(2, [[(i, i + 1) for i in range(UNITS)]])
    helpers, before = Helpers(1), set(os.listdir("/proc/self/task"))
    with helpers.helping(driver):
        driver.drive(0, 1)
    assert soon(lambda: len(set(os.listdir("/proc/self/task")) - before) == 1)
    [helper] = map(int, set(os.listdir("/proc/self/task")) - before)
    try:
        for cpu in sorted(allowed) * 2:
            os.sched_setaffinity(0, {cpu})
            os.sched_setaffinity(helper, {cpu})

            def has_left(cpu: int = cpu) -> bool:
                words[...] = 0
                with helpers.helping(driver):
                    driver.drive(0, 1)
                np.testing.assert_array_equal(words, expected(1))
                return os.sched_getaffinity(helper) == allowed - of_machine.siblings(cpu)

            assert soon(has_left)
    finally:
        os.sched_setaffinity(0, allowed)
        helpers.close()


def test_masks_of_other_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(system_calls, "siblings", lambda cpu: {cpu, cpu ^ 1})
    masks = system_calls._other_cores.__wrapped__(frozenset({0, 1, 2, 65, 70}))
    assert masks is not None
    found = {
        cpu: {bit for bit in range(1024) if int(masks[cpu + 1, bit // 64]) >> bit % 64 & 1}
        for cpu in range(int(masks[0, 0]))
    }
    assert found[0] == found[1] == {2, 65, 70}
    assert found[2] == {0, 1, 65, 70}
    assert found[65] == {0, 1, 2, 70}
    assert found[70] == {0, 1, 2, 65}
    assert not any(found[cpu] for cpu in range(71) if cpu not in {0, 1, 2, 65, 70})
    assert system_calls._other_cores.__wrapped__(frozenset({6, 7})) is None
    monkeypatch.setattr(system_calls, "memory_nodes", lambda: [frozenset({0, 1, 2, 3}), frozenset({8, 9})])
    masks = system_calls._other_cores.__wrapped__(frozenset({0, 1, 2, 3, 8, 9}))
    assert masks is not None
    assert [int(masks[cpu + 1, 0]) for cpu in (0, 2, 8)] == [0b1100, 0b0011, 0b1111]
    assert system_calls._other_cores.__wrapped__(frozenset({0, 5000})) is None


def soon(holds: Callable[[], bool]) -> bool:
    """Return True if a condition holds within some seconds: a thread counts a little after it began, or has ended."""
    for _ in range(1000):
        if holds():
            return True
        time.sleep(0.005)
    return False


def settled_count() -> int:
    """Return the number of threads once those of earlier tests have left."""
    seen: list[int] = []

    def is_settled() -> bool:
        seen.append(count_threads())
        return len(seen) > 20 and len({*seen[-20:]}) == 1

    assert soon(is_settled)
    return seen[-1]


class Alarm(Exception):
    """The exception of the signal handler."""


@pytest.mark.usefixtures("sleeping")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")
def test_an_alarm_at_any_moment_leaves_helpers_that_work(monkeypatch: pytest.MonkeyPatch):
    is_armed = False

    def ring(*_: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise Alarm

    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    monkeypatch.setattr("threading.excepthook", unraisable.append)
    before, rung = settled_count(), 0
    driver, words = counting(3, [[(i, i + 1) for i in range(UNITS)]])
    old = signal.signal(signal.SIGALRM, ring)
    gc.disable()  # an alarm in a callback of the collector, which Hypothesis has, would be reported as unraisable
    try:
        for turn in range(100):
            helpers = Helpers(2)
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + turn % 100))
                for _ in range(3):
                    helpers.begin(driver)
                is_armed = False
            except Alarm:
                rung += 1
            words[...] = 0
            with helpers.helping(driver):
                driver.drive(0, 1)
            np.testing.assert_array_equal(words, expected(1))
            helpers.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        gc.enable()
    assert rung > 5
    assert not unraisable
    assert soon(lambda: count_threads() == before)


@pytest.mark.usefixtures("sleeping")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_of_fork_starts_helpers_of_its_own_and_ends():
    driver, words = counting(3, [[(i, i + 1) for i in range(UNITS)]])
    helpers, count = Helpers(2), settled_count()
    with helpers.helping(driver):
        driver.drive(0, 1)
    assert soon(lambda: count_threads() == count + 2)
    assert not driver.keeps_helpers or soon(lambda: driver._board[SLEEPERS] == 2)
    child = os.fork()
    if not child:
        before = count_threads()
        if driver._board[SLEEPERS]:
            os._exit(1)
        words[...] = 0
        with helpers.helping(driver):
            driver.drive(0, 1)
        helps = soon(lambda: count_threads() == before + 2) and words.tolist() == expected(1).tolist()
        helpers.close()
        os._exit(0 if helps else 1)
    done = (0, 0)

    def is_over() -> bool:
        nonlocal done
        done = os.waitpid(child, os.WNOHANG)
        return done[0] == child

    if not soon(is_over):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    helpers.close()
    assert done == (child, 0)
