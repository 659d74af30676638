"""Tests of tasks: the ops that one thread runs without a pause, and the least work for several threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engines.reference.threads.tasks import HANDOVER_SECONDS, Tasks, max_concurrent, tasks_of

LARGE, SMALL = 1e-3, 1e-6


def groups(before: list[set[int]], seconds: list[float], threads: int = 2) -> list[list[int]] | None:
    tasks = tasks_of(before, seconds, threads)
    return None if tasks is None else sorted(tasks.ops)


def chain(count: int) -> list[set[int]]:
    return [{i - 1} if i else set() for i in range(count)]


@pytest.mark.parametrize("seconds", [SMALL, LARGE])
def test_a_chain_is_for_one_thread(seconds: float):
    assert tasks_of(chain(50), [seconds] * 50, 2) is None


def test_hazards_that_follow_from_others_do_not_split_a_chain():
    assert tasks_of([set(range(i)) for i in range(50)], [LARGE] * 50, 2, tiny=0) is None


def test_two_towers_are_two_tasks_and_what_joins_them():
    before: list[set[int]] = [set(), {0}, {1}, set(), {3}, {4}, {2, 5}, {6}]
    assert groups(before, [LARGE] * 8) == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize(("before", "width"), [
    ([set(), {0}, {1}, set(), {3}, {4}, {2, 5}, {6}], 2),
    ([set(), *({0} for _ in range(5)), {1, 2, 3, 4, 5}], 5),
    ([set() for _ in range(7)], 7),
    ([set(), set(), {0}, {0, 1}, {1}, {2, 3, 4}], 3),
])  # fmt: skip
def test_no_more_threads_are_started_than_tasks_can_run_at_once(before: list[set[int]], width: int):
    tasks = tasks_of(before, [LARGE] * len(before), 16, tiny=0)
    assert tasks is not None
    assert max_concurrent(tasks) == width


def test_towers_of_small_ops_are_for_one_thread():
    before: list[set[int]] = [set(), {0}, {1}, set(), {3}, {4}, {2, 5}, {6}]
    assert groups(before, [SMALL] * 8) is None


def test_small_ops_go_with_what_they_wait_for_or_what_waits_for_them():
    before: list[set[int]] = [set(), {0}, {0}, {1, 2}, {1}, {3}, set()]
    seconds = [SMALL, LARGE, LARGE, SMALL, SMALL, LARGE, SMALL]
    found = groups(before, seconds)
    assert found is not None
    assert len(found) == 4
    assert [4 in ops for ops in found] == [1 in ops for ops in found], "4 follows 1 alone"
    assert [3 in ops for ops in found] == [5 in ops for ops in found], "5 follows 3 alone"


def test_no_op_takes_in_more_small_ones_than_are_small_together():
    before: list[set[int]] = [set(), *({0} for _ in range(1000)), set(range(1, 1001))]
    tasks = tasks_of(before, [0.9 * HANDOVER_SECONDS] * 1002, 2)
    assert tasks is not None
    assert len(tasks.ops) > 900
    assert tasks_of(before, [HANDOVER_SECONDS / 10] * 1002, 2) is None, "the lock would take longer than they do"


def test_one_large_op_beside_small_ones_is_not_worth_a_thread():
    assert groups([set(), set(), set()], [LARGE, SMALL, SMALL]) is None


def test_the_longest_way_to_the_end_goes_first():
    before: list[set[int]] = [set(), set(), {1}, set(), {2, 3}]
    tasks = tasks_of(before, [LARGE, LARGE, 5 * LARGE, 2 * LARGE, LARGE], 2)
    assert tasks is not None
    assert tasks.ops == [[1, 2], [3], [0], [4]] or tasks.ops == [[1, 2], [3], [4], [0]]


@st.composite
def graphs(draw: st.DrawFn) -> list[set[int]]:
    count = draw(st.integers(0, 25))
    return [draw(st.sets(st.integers(0, i - 1), max_size=4)) if i else set() for i in range(count)]


@pytest.mark.thorough
@given(graphs(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, HANDOVER_SECONDS]))
@settings(max_examples=400)
def test_tasks_have_every_op_once_and_wait_for_just_what_their_ops_wait_for(before: list[set[int]], seed: int, tiny):
    rng = np.random.default_rng(seed)
    seconds = [float(10.0 ** rng.uniform(-6, -3)) for _ in before]
    tasks = tasks_of(before, seconds, 3, tiny=tiny)
    if tasks is None:
        return
    assert sorted(i for ops in tasks.ops for i in ops) == list(range(len(before)))
    assert all(ops == sorted(ops) for ops in tasks.ops)
    home = {i: task for task, ops in enumerate(tasks.ops) for i in ops}
    earlier = reached(tasks)
    for i, needed in enumerate(before):
        assert all(home[j] == home[i] or home[j] in earlier[home[i]] for j in needed)
    links = {(home[j], home[i]) for i, needed in enumerate(before) for j in needed if home[j] != home[i]}
    assert {(j, i) for j, after in enumerate(tasks.after) for i in after} <= links, "nothing waits without a reason"


def reached(tasks: Tasks) -> list[set[int]]:
    """Return the tasks that each one waits for, also indirectly, by running them. Fail if they wait for each other."""
    missing = list(tasks.waits)
    earlier: list[set[int]] = [set() for _ in tasks.ops]
    ready = [i for i, count in enumerate(missing) if not count]
    for i in ready:
        for j in tasks.after[i]:
            earlier[j] |= earlier[i] | {i}
            missing[j] -= 1
            if not missing[j]:
                ready.append(j)
    assert len(ready) == len(tasks.ops)
    return earlier
