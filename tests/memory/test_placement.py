"""Placing buffers: optimal where that can be known, the same everywhere, and in as much work as was allowed."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.memory import Placed, is_safe
from oracles.placement import Span, least_height
from subjects.commands import told

from prograd_proto import ProgramError
from runtime.placement import QUICK, THOROUGH, Buffer, Effort, Placement, check_placement, place
from runtime.placement.attempts import attempt
from runtime.placement.gaps import first_fit
from runtime.placement.peak import rounds_from_peaks
from runtime.placement.rankings import RANKINGS, ranking_of
from runtime.placement.search import Outcome, Search
from runtime.placement.sections import Part, parts_of
from runtime.placement.skyline import lowest_offsets

PLACEMENTS = Path(__file__).parents[1] / "placements"
ABOVE_THEIR_BOUND = (
    [(0, 4, 3), (0, 2, 2), (4, 5, 2), (2, 5, 1), (4, 6, 1), (2, 6, 1), (6, 8, 2), (5, 8, 3)],
    [(7, 8, 3), (2, 7, 1), (5, 7, 2), (3, 8, 1), (2, 3, 2), (3, 5, 1), (0, 5, 1), (0, 2, 3)],
    [(5, 8, 3), (2, 4, 1), (0, 2, 3), (4, 8, 2), (3, 4, 1), (3, 5, 1), (0, 3, 2), (2, 5, 2)],
)
"""Buffers that no placement fits into the bytes of their busiest tick."""
EFFORTS = st.sampled_from([QUICK, THOROUGH, Effort(steps=0, visits=50)])


@st.composite
def spans(draw: st.DrawFn, most: int = 40, ticks: int = 20, largest: int = 12) -> list[Span]:
    result: list[Span] = []
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, ticks))
        result.append((start, start + draw(st.integers(1, ticks // 2)), draw(st.integers(1, largest))))
    return result


def buffers_of(spans: Sequence[Span]) -> list[Buffer]:
    return [Buffer(f"b{i}", size, start, stop) for i, (start, stop, size) in enumerate(spans)]


def is_good(spans: Sequence[Span], offsets: Sequence[int], height: int) -> bool:
    """The oracle counts in multiples of 64 bytes."""
    placed = [Placed(64 * size, a, b, 64 * offset) for (a, b, size), offset in zip(spans, offsets, strict=True)]
    return is_safe(placed, 64 * height)


def part_of(spans: Sequence[Span]) -> Part:
    (part,) = parts_of([(-1, 1000, 1), *spans])
    return part


def instance(name: str) -> list[Buffer]:
    with (PLACEMENTS / name).open(newline="") as file:
        return [
            Buffer(row["id"], int(row["size"]), int(row["lower"]), int(row["upper"])) for row in csv.DictReader(file)
        ]


# Sections and parts


@given(spans())
def test_the_lower_bound_is_the_busiest_tick(spans: list[Span]):
    busiest = max((sum(size for a, b, size in spans if a <= tick < b) for tick in range(40)), default=0)
    assert max((part.lower_bound for part in parts_of(spans)), default=0) == busiest


@given(spans())
def test_two_buffers_share_a_section_exactly_if_they_share_a_tick(spans: list[Span]):
    found = {
        i: (n, item) for n, part in enumerate(parts_of(spans)) for i, item in zip(part.buffers, part.items, strict=True)
    }
    for i, (a, b, _) in enumerate(spans):
        for j, (c, d, _) in enumerate(spans[:i]):
            (m, x), (n, y) = found[i], found[j]
            assert (a < d and c < b) == (m == n and x.first < y.last and y.first < x.last)


def test_what_never_touches_is_placed_apart():
    parts = parts_of([(0, 2, 5), (2, 4, 7), (3, 5, 1), (9, 9, 3), (5, 6, 0)])
    assert [(part.buffers, part.lower_bound) for part in parts] == [([1, 2], 8), ([0], 5)]


# Every way to place


@given(spans(), st.sampled_from(RANKINGS))
@settings(max_examples=200)
def test_a_skyline_places_safely_and_leaves_no_gap_that_is_open_above_and_below(spans: list[Span], by: tuple[str, ...]):
    part = part_of(spans)
    offsets, steps = lowest_offsets(part, ranking_of(part, by), steps=10**6)
    assert offsets is not None
    assert steps >= 0
    items = [(item.first, item.last, item.size) for item in part.items]
    assert is_good(items, offsets, max(o + s for o, (_, _, s) in zip(offsets, items, strict=True)))
    for (a, b, _), offset in zip(items, offsets, strict=True):
        tops = {o + s for o, (c, d, s) in zip(offsets, items, strict=True) if c < b and a < d}
        assert offset == 0 or offset in tops, "every buffer stands on another or on the ground"


def test_a_skyline_gives_up_after_its_steps():
    part = part_of([(i, 60 - i, 1 + i % 7) for i in range(25)] + [(i, i + 3, 5) for i in range(55)])
    ranking = ranking_of(part, ("life", "size"))
    assert lowest_offsets(part, ranking, steps=1)[0] is None
    assert lowest_offsets(part, ranking, steps=10_000)[0] is not None


@given(spans(), st.sampled_from(RANKINGS))
def test_gaps_are_filled_safely_from_the_ground_up(spans: list[Span], by: tuple[str, ...]):
    part = part_of(spans)
    offsets = first_fit(part, ranking_of(part, by))
    items = [(item.first, item.last, item.size) for item in part.items]
    assert is_good(items, offsets, max(o + s for o, (_, _, s) in zip(offsets, items, strict=True)))


def test_a_gap_below_the_first_buffer_is_found():
    part = part_of([(0, 9, 4), (0, 3, 6), (2, 9, 5), (4, 7, 5)])
    offsets = first_fit(part, [1, 2, 3, 0, 4])
    assert dict(zip(part.buffers, offsets, strict=True))[4] < 6


# From the peak outwards


@pytest.mark.thorough
@given(spans(), st.integers(0, 9))
@settings(max_examples=200)
def test_what_is_placed_from_its_peak_is_safe_and_the_peak_no_higher_than_its_window(spans: list[Span], most: int):
    part = part_of(spans)
    rooms, heights = [part.lower_bound], [0]

    def place_window(core: Part, room: int) -> list[int]:
        assert len(core.items) <= most
        rooms.append(room)
        offsets = first_fit(core, ranking_of(core, ("life", "size")))
        heights.append(max(offset + item.size for offset, item in zip(offsets, core.items, strict=True)))
        return offsets

    offsets = next(rounds_from_peaks(part, part.lower_bound, place_window, most), None)
    if offsets is None:
        assert sum(1 for item in part.items if item.last - item.first < part.sections) <= most
        return
    items = [(item.first, item.last, item.size) for item in part.items]
    tops = [offset + size for offset, (_, _, size) in zip(offsets, items, strict=True)]
    assert is_good(items, offsets, max(tops))
    busiest = part.load.index(part.lower_bound)
    at_peak = max(top for top, (first, last, _) in zip(tops, items, strict=True) if first <= busiest < last)
    bottom = part.lower_bound - rooms[-1] if heights[1:] else part.lower_bound
    assert at_peak <= bottom + max(heights)


@given(st.integers(0, 2**32), st.integers(6, 30))
@settings(max_examples=60, deadline=None)
def test_a_peak_without_holes_stays_so_when_the_rest_is_placed_around_it(seed: int, pieces: int):
    peak, height = cut(seed, pieces)
    before = [(tick, tick + 2, height // 3) for tick in range(-40, -1)]
    after = [(64 + tick, 67 + tick, height // 4) for tick in range(40)]
    through = [(-9, 70, 5), (-3, 64, 7), (0, 90, 3)]
    part = part_of([*before, *peak, *through, *after])

    def place_window(core: Part, room: int) -> list[int]:
        tried = attempt(core, room, visits=10**6)
        assert tried.outcome is Outcome.FOUND
        return tried.offsets

    offsets = next(rounds_from_peaks(part, part.lower_bound, place_window, most=pieces), None)
    assert offsets is not None
    items = [(item.first, item.last, item.size) for item in part.items]
    assert is_good(items, offsets, part.lower_bound)


def training_step(layers: int) -> list[Span]:
    """Return buffers saved for the backward pass, and temporary buffers of both passes."""
    result: list[Span] = []
    for i in range(layers):
        up, down = 4 * i, 8 * layers - 4 * i
        result += [(up, down, 2), (up + 1, down - 1, 1), (up, up + 2, 6), (up + 1, up + 4, 7)]
        result += [(down - 4, down - 2, 6), (down - 3, down, 7), (down - 2, down + 1, 7)]
    return result


def test_more_buffers_than_can_be_searched_are_placed_from_their_peak_at_the_bound_that_no_skyline_reaches():
    buffers = buffers_of(training_step(370))
    quick = place(buffers, QUICK, alignment=1)
    assert (quick.arena_bytes, quick.lower_bound, quick.optimal) == (1_127, 1_124, False)
    placement = place(buffers, THOROUGH, alignment=1)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=1)
    assert placement == Placement(placement.offsets, 1_124, 1_124, True, "peak first")


def gradient_accumulation(layers: int, micro_batches: int) -> list[Span]:
    """A training step for each micro-batch, one after the other, and sums of gradients that live through all."""
    ticks = 8 * layers + 1
    steps = [
        (start + batch * ticks, stop + batch * ticks, size)
        for batch in range(micro_batches)
        for start, stop, size in training_step(layers)
    ]
    return [*steps, (0, micro_batches * ticks, 5), (0, micro_batches * ticks, 3)]


def test_each_of_several_equal_peaks_gets_a_window_so_that_the_bound_is_reached():
    buffers = buffers_of(gradient_accumulation(130, 3))
    placement = place(buffers, Effort(steps=5, visits=4_000_000), alignment=1)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=1)
    assert placement == Placement(placement.offsets, 412, 412, True, "peak first")


@pytest.mark.thorough
@given(spans(most=60), st.integers(0, 9), st.integers(1, 5))
@settings(max_examples=200)
def test_each_round_of_windows_is_safe_and_the_bound_ends_them(spans: list[Span], most: int, most_rounds: int):
    part = part_of(spans)

    def place_window(core: Part, room: int) -> list[int]:
        return first_fit(core, ranking_of(core, ("life", "size")))

    items = [(item.first, item.last, item.size) for item in part.items]
    rounds = list(rounds_from_peaks(part, part.lower_bound, place_window, most, most_rounds))
    assert len(rounds) <= most_rounds
    heights = [max(offset + size for offset, (_, _, size) in zip(offsets, items, strict=True)) for offsets in rounds]
    for offsets, height in zip(rounds, heights, strict=True):
        assert is_good(items, offsets, height)
    assert all(height > part.lower_bound for height in heights[:-1])


def test_what_fits_into_the_window_is_left_to_the_search():
    part = part_of(training_step(30))
    assert not [*rounds_from_peaks(part, part.lower_bound, lambda core, room: [0] * len(core.items))]


# The exact search


@given(spans(most=6, ticks=8, largest=9))
@settings(max_examples=300)
def test_the_search_finds_a_placement_exactly_if_there_is_one(spans: list[Span]):
    for part in parts_of(spans):
        items = [(item.first, item.last, item.size) for item in part.items]
        least = least_height(items)
        order = ranking_of(part, ("size", "life"))
        search = Search(part, order, least, nodes=10**5, blame=[1.0] * part.sections)
        assert search.run() is Outcome.FOUND
        assert is_good(items, search.offsets, least)
        below = Search(part, order, least - 1, nodes=10**5, blame=[1.0] * part.sections)
        assert below.run() is Outcome.IMPOSSIBLE


@pytest.mark.thorough
@pytest.mark.parametrize("spans", ABOVE_THEIR_BOUND)
def test_the_search_proves_that_a_lower_bound_is_out_of_reach(spans: list[Span]):
    (part,) = parts_of(spans)
    assert least_height(spans) == part.lower_bound + 1
    assert attempt(part, part.lower_bound, visits=10**5).outcome is Outcome.IMPOSSIBLE
    placement = place(buffers_of(spans), THOROUGH, alignment=1)
    assert (placement.arena_bytes, placement.optimal) == (part.lower_bound + 1, True)


@given(st.integers(0, 2**32), st.integers(6, 30))
@settings(max_examples=60, deadline=None)
def test_the_search_solves_what_was_cut_from_a_full_rectangle(seed: int, pieces: int):
    spans, height = cut(seed, pieces)
    for part in parts_of(spans):
        tried = attempt(part, height, visits=10**6)
        assert tried.outcome is Outcome.FOUND
        assert is_good([(i.first, i.last, i.size) for i in part.items], tried.offsets, height)


def cut(seed: int, pieces: int) -> tuple[list[Span], int]:
    """A rectangle of time by bytes, cut again and again; its height is then the lower bound."""
    random = Random(seed)
    whole = [(0, 64, 0, 256)]
    while len(whole) < pieces:
        a, b, low, high = whole.pop(random.randrange(len(whole)))
        if random.random() < 0.5 and b - a > 1:
            middle = random.randrange(a + 1, b)
            whole += [(a, middle, low, high), (middle, b, low, high)]
        elif high - low > 1:
            middle = random.randrange(low + 1, high)
            whole += [(a, b, low, middle), (a, b, middle, high)]
        else:
            whole.append((a, b, low, high))
    return [(a, b, high - low) for a, b, low, high in random.sample(whole, len(whole))], 256


def test_the_search_ends_with_its_nodes_and_when_it_is_told_to():
    part = parts_of([(b.start, b.stop, b.nbytes // 1024) for b in instance("C.1048576.csv")])[0]
    order = ranking_of(part, ("life", "area"))
    search = Search(part, order, part.lower_bound, nodes=300, blame=[1.0] * part.sections)
    assert (search.run(), search.used) == (Outcome.STOPPED, 300)


# All together


@given(spans(most=6, ticks=8, largest=9))
@example([(0, 2, 3), (1, 3, 2), (2, 4, 3), (0, 1, 2), (3, 4, 2)])
@settings(max_examples=200)
def test_thorough_placements_are_optimal_and_say_so(spans: list[Span]):
    placement = place(buffers_of(spans), THOROUGH, alignment=1)
    assert placement.arena_bytes == least_height(spans)
    assert placement.optimal
    assert is_good(spans, placement.offsets, placement.arena_bytes)


@given(spans(), EFFORTS)
@settings(max_examples=200)
def test_every_placement_is_safe_and_never_claims_too_much(spans: list[Span], effort: Effort):
    buffers = buffers_of(spans)
    placement = place(buffers, effort)
    check_placement(buffers, placement.offsets, placement.arena_bytes)
    ends = [offset + 64 * -(-size // 64) for offset, (_, _, size) in zip(placement.offsets, spans, strict=True)]
    assert placement.arena_bytes == max(ends, default=0)
    assert placement.lower_bound <= placement.arena_bytes
    assert placement.optimal or placement.arena_bytes > placement.lower_bound


def test_an_instance_that_no_greedy_order_solves_is_placed_at_its_lower_bound():
    """Buffers of a benchmark of MiniMalloc with a limit of 1,048,576 bytes."""
    buffers = instance("C.1048576.csv")
    placement = place(buffers, THOROUGH, alignment=1)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=1)
    assert placement == Placement(placement.offsets, 1_039_360, 1_039_360, True, "search")
    assert place(buffers, QUICK, alignment=1).arena_bytes > 1_200_000


@pytest.mark.thorough
def test_many_buffers_are_placed_nearly_as_low_as_the_bound_when_that_is_asked():
    """The first ranking of these is taken, though others may do better."""
    buffers = [Buffer(f"b{i}", 64 * (1 + i * i % 23), i, i + 2 + i % 61) for i in range(3_000)]
    near = place(buffers, Effort(steps=5, visits=0, near=1_000_000))
    assert near.method == "skyline by size and life"
    assert near.lower_bound < near.arena_bytes <= 2 * near.lower_bound
    assert not near.optimal
    best = place(buffers, Effort(steps=5, visits=0))
    assert best.lower_bound == near.lower_bound
    assert best.arena_bytes <= near.arena_bytes


@pytest.mark.thorough
def test_more_than_four_gibibytes_and_more_than_65536_buffers_are_placed():
    many = [Buffer(f"b{i}", 3 << 30, 2 * i, 2 * i + 3) for i in range(66_000)]
    placement = place(many)
    assert (placement.arena_bytes, placement.optimal) == (6 << 30, True)
    check_placement(many, placement.offsets, placement.arena_bytes)


def test_a_placement_is_the_same_in_every_process():
    script = (
        "from runtime.placement import THOROUGH, Buffer, Effort, place\n"
        "spans = [(64 + i * i % 97 * 64, i * 7 % 50, i * 7 % 50 + 1 + i * 5 % 23) for i in range(90)]\n"
        "buffers = [Buffer(f'b{i}', *span) for i, span in enumerate(spans)]\n"
        "print(place(buffers, Effort(steps=5, visits=60_000)))\n"
        f"many = [Buffer('b', size, start, stop) for start, stop, size in {training_step(370)}]\n"
        "print(place(many, THOROUGH, alignment=1))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "4242")
    ]
    assert [run.stderr for run in runs] == ["", "", ""]
    assert len({run.stdout for run in runs}) == 1
    assert runs[0].stdout.count("arena_bytes=") == 2
    assert "peak first" in runs[0].stdout


def test_an_order_of_the_buffers_is_part_of_the_question_but_not_of_the_bound():
    buffers = buffers_of(cut(7, 40)[0])
    turned = place(buffers[::-1], THOROUGH, alignment=1)
    assert turned.arena_bytes == place(buffers, THOROUGH, alignment=1).arena_bytes == 256


# Checking


def test_the_check_takes_another_alignment_and_names_it():
    check_placement([Buffer("a", 4, 0, 2), Buffer("b", 4, 1, 3)], [0, 4], 8, alignment=4)
    assert told(ProgramError, lambda: check_placement([Buffer("a", 4, 0, 2)], [2], 8, alignment=4)) == (
        "a placement puts %a (4 bytes) at offset 2 of an arena of 8 bytes; it must lie inside, at a multiple of 4"
    )


def test_the_check_is_quick_where_many_are_alive_at_once():
    """Twenty thousand at once: a check of all pairs would look at two hundred million."""
    n = 20_000
    tower = [Buffer(f"b{i}", 64, i, 2 * n - i) for i in range(n)]
    offsets = [64 * i for i in range(n)]
    check_placement(tower, offsets, 64 * n)
    with pytest.raises(ProgramError, match="%b9999 and %b10000 in the same bytes"):
        check_placement(tower, [*offsets[:10_000], *offsets[9_999:-1]], 64 * n)
