"""The pages of large memory: taken at once, large or small, with the same contents."""

import mmap
import resource
import sys

import numpy as np
import pytest

from runtime.memory import first_touch
from runtime.memory.aligned import aligned_bytes

SIZE = 12 << 20

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not first_touch._has_large_pages(), reason="the system has no large pages"
)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(first_touch, "_small", [])
    monkeypatch.setattr(first_touch, "_found_slow", [])


def faults_of(act):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    act()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_memory_is_there_before_it_is_written():
    untouched = np.frombuffer(mmap.mmap(-1, SIZE), np.uint8)  # NumPy might hand out memory that was freed
    assert faults_of(lambda: untouched.fill(1)) >= 3
    memory = aligned_bytes(SIZE)
    assert not memory.any()
    if first_touch._advise(*first_touch._whole_pages(memory), first_touch.TOUCHED):  # known since Linux 5.14
        first_touch.make_large()
        assert faults_of(lambda: memory.fill(1)) < SIZE // 4096 // 2


def test_memory_begins_small_where_large_pages_are_slow_and_gets_them_later(monkeypatch):
    asked = []

    def advise(start, end, advice):
        asked.append((advice, end - start))
        return True

    times = iter(np.arange(0, 100, first_touch.SLOW_SECONDS * 4))
    monkeypatch.setattr(first_touch, "_advise", advise)
    monkeypatch.setattr(first_touch, "perf_counter", lambda: next(times))
    memory = aligned_bytes(SIZE)
    large, whole = first_touch.LARGE_PAGE_BYTES, first_touch._whole_pages(memory)
    left = whole[1] - whole[0] - large
    assert asked == [
        (first_touch.TOUCHED, large),
        (first_touch.SMALL_PAGES, left),
        (first_touch.TOUCHED, left),
        (first_touch.LARGE_PAGES, left),
    ]
    assert first_touch.begins_small()
    asked.clear()
    aligned_bytes(SIZE)  # and is gone again
    assert asked[0][0] == first_touch.SMALL_PAGES, "what was slow is not tried again"
    asked.clear()
    first_touch.make_large()
    assert asked == [(first_touch.MADE_LARGE, left)]
    assert not first_touch.begins_small()


def test_nothing_is_changed_where_the_system_does_not_know_how(monkeypatch):
    asked = []
    monkeypatch.setattr(first_touch, "_advise", lambda start, end, advice: asked.append(advice))
    aligned_bytes(SIZE)
    assert asked == [first_touch.TOUCHED]
    assert not first_touch.begins_small()


def test_contents_stay_when_pages_become_large(monkeypatch):
    monkeypatch.setattr(first_touch, "_found_slow", [True])
    memory = aligned_bytes(SIZE)
    memory[:] = np.arange(SIZE) % 251
    first_touch.make_large()
    assert (memory == np.arange(SIZE) % 251).all()


def test_training_makes_pages_large_after_a_while(monkeypatch):
    from runtime.runs import stepper

    times = iter([1.0, 1.0, 2.0, 3.5])
    monkeypatch.setattr(first_touch, "_found_slow", [True])
    monkeypatch.setattr(stepper, "perf_counter", lambda: next(times))
    memory = aligned_bytes(SIZE)
    steps = stepper.Stepper()
    for still_small in (True, True, False):
        steps.call(lambda: None, trains=True)
        assert first_touch.begins_small() == still_small
    assert not memory.any()


def test_nobody_waits_for_large_pages_between_predictions(monkeypatch):
    from runtime.runs import stepper

    times = iter(range(0, 1000, 5))
    monkeypatch.setattr(first_touch, "_found_slow", [True])
    monkeypatch.setattr(stepper, "perf_counter", lambda: next(times))
    memory = aligned_bytes(SIZE)
    steps = stepper.Stepper()
    for _ in range(3):
        steps.call(lambda: None)
    assert first_touch.begins_small()
    assert not memory.any()
