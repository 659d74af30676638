"""Lowering a placement move by move: safe after any number of moves, never higher, the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.memory import Placed, is_safe

from runtime.placement import THOROUGH, Buffer, Effort, check_placement, place
from runtime.placement.ejection import lowered
from runtime.placement.gaps import birth_order, first_fit
from runtime.placement.sections import Part, parts_of

QUICK_WAYS = Effort(steps=0, visits=0)


def never() -> bool:
    return False


def any_sizes_at_any_time(count: int, seed: int) -> list[tuple[int, int, int]]:
    """(start, stop, size): no peak to begin at, and no two sizes alike."""
    random = Random(seed)
    starts = [random.randrange(2 * count) for _ in range(count)]
    return [
        (start, start + 1 + random.randrange(1 + random.randrange(1 + count // 5)), random.randrange(1, 2_000))
        for start in starts
    ]


def buffers_of(spans: list[tuple[int, int, int]]) -> list[Buffer]:
    return [Buffer(f"b{i}", size, start, stop) for i, (start, stop, size) in enumerate(spans)]


def height_of(part: Part, offsets: list[int]) -> int:
    return max(offset + item.size for offset, item in zip(offsets, part.items, strict=True))


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_after_any_number_of_moves_the_placement_is_safe_and_no_higher(seed: int, count: int, moves: int):
    for part in parts_of(any_sizes_at_any_time(count, seed)):
        before = first_fit(part, birth_order(part))
        after, made = lowered(part, before, part.lower_bound, moves, never)
        assert made <= moves
        assert part.lower_bound <= height_of(part, after) <= height_of(part, before)
        # the oracle counts in multiples of 64 bytes
        placed = [
            Placed(64 * item.size, item.first, item.last, 64 * o) for item, o in zip(part.items, after, strict=True)
        ]
        assert is_safe(placed, 64 * height_of(part, after))


@given(st.integers(0, 2**32), st.lists(st.integers(0, 5_000), min_size=2, max_size=4))
@settings(max_examples=15, deadline=None)
def test_more_moves_never_give_a_higher_placement(seed: int, moves: list[int]):
    part = parts_of(any_sizes_at_any_time(150, seed))[0]
    before = first_fit(part, birth_order(part))
    heights = [height_of(part, lowered(part, before, part.lower_bound, n, never)[0]) for n in sorted(moves)]
    assert heights == sorted(heights, reverse=True)


def test_what_stopped_above_the_bound_gets_nearer_with_more_moves():
    buffers = buffers_of(any_sizes_at_any_time(2_600, seed=1))
    arenas: list[int] = []
    for moves in (0, 1_000, 6_000):
        placement = place(buffers, replace(QUICK_WAYS, moves=moves), alignment=1)
        check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=1)
        arenas.append(placement.arena_bytes)
    assert (arenas, placement.lower_bound) == ([105_682, 104_946, 101_939], 100_135)


def test_the_goal_ends_the_moves():
    part = parts_of(any_sizes_at_any_time(400, seed=2))[0]
    before = first_fit(part, birth_order(part))
    goal = (part.lower_bound + height_of(part, before)) // 2
    after, made = lowered(part, before, goal, 10**6, never)
    assert part.lower_bound < height_of(part, after) <= goal
    assert made < 10**5
    assert lowered(part, after, goal, 10**6, never) == (after, 0)


def test_the_clock_ends_the_moves_with_what_there_is():
    part = parts_of(any_sizes_at_any_time(400, seed=2))[0]
    before = first_fit(part, birth_order(part))
    assert lowered(part, before, part.lower_bound, 10**6, lambda: True) == (before, 0)
    answers = iter([False] * 20 + [True] * 10)
    after, made = lowered(part, before, part.lower_bound, 10**6, lambda: next(answers))
    assert 0 < made < 10**4
    assert height_of(part, after) < height_of(part, before)
    placement = place(buffers_of(any_sizes_at_any_time(2_600, seed=1)), THOROUGH, seconds=0.0)
    assert placement.stopped
