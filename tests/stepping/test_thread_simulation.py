"""The simulation of many threads behind `benchmarks/many_threads.py`: schedules that are found by hand."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

PATH = Path(__file__).parents[2] / "benchmarks" / "cases" / "thread_simulation.py"
SPEC = importlib.util.spec_from_file_location("thread_simulation", PATH)
assert SPEC is not None
assert SPEC.loader is not None
simulation = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(simulation)


@pytest.fixture
def without_costs(monkeypatch):
    """Let claims and barriers take no time."""
    for name in ("CLAIM", "CLAIM_OF_OTHERS"):
        monkeypatch.setattr(simulation, name, 0.0)
    monkeypatch.setattr(simulation, "barrier_time", lambda threads: 0.0)


def test_one_thread_computes_one_chunk_after_the_other():
    assert simulation.phase_time([3.0, 2.0, 4.0], 1) == 9.0
    assert simulation.phase_time([7.0], 8) == 7.0
    assert simulation.step_time([[3.0, 2.0], [], [1.0]], 1) == 6.0


def test_threads_take_chunks_of_their_own_range_first(without_costs):
    assert simulation.phase_time([3.0, 1.0, 1.0, 3.0], 2) == 4.0  # 6 if the second thread took a chunk of the first


def test_a_thread_without_chunks_takes_those_of_the_next_threads(without_costs):
    # Four threads have two chunks each; the first one is late, so the others compute its second chunk.
    assert simulation.phase_time([9.0, 5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 4) == 9.0


def test_a_phase_takes_as_long_as_its_longest_chunk(without_costs):
    assert simulation.phase_time([5.0, 1.0], 32) == 5.0


def test_claims_and_barriers_are_counted():
    assert simulation.phase_time([1.0, 1.0], 2) == pytest.approx(1 + simulation.CLAIM + simulation.barrier_time(2))
    alone = 2 + simulation.CLAIM + simulation.CLAIM_OF_OTHERS  # three threads: the third has no chunk of its own
    assert simulation.phase_time([2.0, 1.0, 1.0, 0.5], 3) <= alone + simulation.barrier_time(3)


def test_barriers_take_longer_with_every_thread_and_none_where_one_thread_computes():
    assert [round(simulation.barrier_time(threads), 2) for threads in (2, 16, 64)] == [0.44, 1.21, 1.87]
    phases = [[1.0, 1.0], [3.0], [1.0, 1.0]]
    assert simulation.share_of_barriers(phases, 1) == 0
    share = simulation.share_of_barriers(phases, 2)
    assert share == pytest.approx(2 * simulation.barrier_time(2) / simulation.step_time(phases, 2))
    assert 0 < share < simulation.share_of_barriers(phases, 64) < 1


@pytest.mark.parametrize(("count", "threads"), [(1, 4), (2, 32), (7, 3), (64, 32), (100, 7)])
def test_ranges_hold_every_chunk_once_and_the_caller_has_the_first(count, threads):
    ranges = simulation.own_ranges(count, threads)
    assert [chunk for first, stop in ranges for chunk in range(first, stop)] == list(range(count))
    assert len(ranges) == threads
    assert ranges[0][0] == 0 < ranges[0][1]
    assert max(stop - first for first, stop in ranges) <= -(-count // threads)


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=60), st.integers(2, 32))
def test_a_phase_is_between_its_bounds(chunks, threads):
    found = simulation.phase_time(chunks, threads)
    longest, work = max(chunks), sum(chunks)
    assert found >= max(longest, work / threads)
    overhead = simulation.barrier_time(threads) + len(chunks) * simulation.CLAIM_OF_OTHERS
    assert found <= work / threads + longest + overhead  # Graham's bound on list scheduling


def test_an_even_split_has_no_parts_below_the_least_time():
    assert simulation.even_time([[8.0]], 4, 2.0) == pytest.approx(2 + simulation.barrier_time(4))
    assert simulation.even_time([[1.0, 0.5]], 4, 2.0) == 1.5
