"""Sums over ranks in the order of the tree: a sum by hand judges them, and threads stand for ranks."""

import threading

import numpy as np
import pytest

from runtime.ranks.exchange import exchange, layout_of, scratch_elements
from runtime.ranks.tree import parts_of, shards_of


class ThreadGroup:
    """A group whose ranks are threads; it moves elements as MPI would."""

    def __init__(self, rank: int, size: int, slots: dict, barrier: threading.Barrier) -> None:
        self.rank, self.size, self._slots, self._barrier = rank, size, slots, barrier

    def all_gather(self, own, out, counts) -> None:
        ends = np.cumsum([0, *counts])
        mine = out[ends[self.rank] : ends[self.rank + 1]].copy() if own is None else own.reshape(-1).copy()
        for rank, found in enumerate(self._everyone(mine)):
            assert len(found) == counts[rank]
            out.reshape(-1)[ends[rank] : ends[rank + 1]] = found

    def send_and_receive(self, sent, received) -> None:
        everyone = self._everyone({rank: array.copy() for rank, array in sent})
        assert {rank for rank, found in enumerate(everyone) if self.rank in found} == {rank for rank, _ in received}
        for rank, array in received:
            assert array.size == everyone[rank][self.rank].size
            array.reshape(-1)[...] = everyone[rank][self.rank].reshape(-1)

    def _everyone(self, mine):
        self._slots[self.rank] = mine
        self._barrier.wait()
        found = [self._slots[rank] for rank in range(self.size)]
        self._barrier.wait()
        return found


def by_hand(leaves):
    """Add as a binary counter does: equal sums are joined as soon as there are two, the rest from the right."""
    sums = []
    for leaf in leaves:
        sums.append((1, leaf))
        while len(sums) > 1 and sums[-1][0] == sums[-2][0]:
            (m, right), (n, left) = sums.pop(), sums.pop()
            sums.append((n + m, left + right))
    while len(sums) > 1:
        (m, right), (n, left) = sums.pop(), sums.pop()
        sums.append((n + m, left + right))
    return sums[0][1]


@pytest.mark.parametrize("shapes", [[(7,)], [(130, 150)], [(), (3, 5), (40, 500), (1,)]], ids=["small", "one", "four"])
@pytest.mark.parametrize(("shards", "ranks"), [(8, 1), (8, 2), (8, 3), (8, 4), (8, 8), (7, 3), (12, 5), (3, 4), (1, 2)])
def test_any_number_of_ranks_adds_the_bits_of_the_tree(shards, ranks, shapes):
    rng = np.random.default_rng(shards)
    values = [[(rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6)).astype("float32") for shape in shapes]
              for _ in range(shards)]  # fmt: skip
    wanted = [by_hand([values[shard][i] for shard in range(shards)]) for i in range(len(shapes))]
    slots, barrier = {}, threading.Barrier(ranks, timeout=300)
    results = {}

    def run(rank: int) -> None:
        own = parts_of(shards, rank, ranks) or [(0, 1)]
        parts = [[by_hand([values[s][i] for s in range(*part)]) for part in own] for i in range(len(shapes))]
        before = [[part.copy() for part in tensor] for tensor in parts]
        layout = layout_of(shards, rank, ranks, sum(int(np.prod(shape)) for shape in shapes), 4)
        scratch = [np.full(size, np.nan, "float32") for size in scratch_elements(layout, len(shapes))]
        out = [np.full(shape, np.nan, "float32") for shape in shapes]
        exchange(ThreadGroup(rank, ranks, slots, barrier), layout, parts, out, scratch)
        results[rank] = out
        for tensor, old in zip(parts, before, strict=True):
            for part, copy in zip(tensor, old, strict=True):
                np.testing.assert_array_equal(part, copy, err_msg="an operand was written")

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(results) == list(range(ranks))
    for out in results.values():
        for found, right in zip(out, wanted, strict=True):
            assert found.tobytes() == np.asarray(right).tobytes()


@pytest.mark.parametrize("shards", range(1, 20))
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 19])
def test_parts_of_all_ranks_cover_the_shards_once_and_in_order(shards, ranks):
    parts = [part for rank in range(ranks) for part in parts_of(shards, rank, ranks)]
    assert [shard for part in parts for shard in range(*part)] == list(range(shards))
    for rank in range(ranks):
        first, stop = shards_of(shards, rank, ranks)
        assert all(first <= part[0] and part[1] <= stop for part in parts_of(shards, rank, ranks))


def test_a_rank_has_one_part_if_ranks_and_shards_are_powers_of_two():
    assert parts_of(8, 1, 4) == [(2, 4)]
    assert parts_of(8, 1, 3) == [(2, 4), (4, 5)]
    assert parts_of(16, 1, 3) == [(5, 6), (6, 8), (8, 10)]
    assert parts_of(3, 0, 4) == []
