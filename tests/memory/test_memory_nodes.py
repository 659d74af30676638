"""First touch by nodes: which thread touches which bytes first, by fake /sys; no machine with two nodes is needed."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from runtime.memory import aligned, memory_nodes
from runtime.memory.memory_nodes import node_of, touch_by_nodes

A, B, C = frozenset({0, 1, 2}), frozenset({3, 4, 5}), frozenset({6, 7})
PAGE = memory_nodes.PAGE_BYTES
MIB = 1 << 20


def put(root: Path, *lists: str) -> Path:
    for number, text in enumerate(lists):
        folder = root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("lists", "allowed", "wanted"),
    [
        ([], {0, 1}, [{0, 1}]),
        (["0-1"], {0, 1}, [{0, 1}]),
        (["0-1", "2-3"], {0, 1, 2, 3}, [{0, 1}, {2, 3}]),
        (["0-1", "2-3"], {2, 3}, [{2, 3}]),
        (["0,2", "1,3", ""], {0, 1, 2}, [{0, 2}, {1}]),
        (["nonsense"], {0}, [{0}]),
    ],
)
def test_nodes_are_those_with_cpus_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: list[str], allowed: set[int], wanted: list[set[int]]
):
    monkeypatch.setattr(memory_nodes, "allowed_cpus", lambda: allowed)
    assert memory_nodes.memory_nodes(put(tmp_path, *lists)) == wanted


def test_threads_are_on_the_nodes_in_order():
    assert [node_of(number, 8, [A, B, C]) for number in range(8)] == [A] * 3 + [B] * 3 + [C] * 2
    assert [node_of(number, 2, [A, B]) for number in range(2)] == [A, B]
    assert [node_of(number, 3, [A]) for number in range(3)] == [A] * 3


def test_the_node_of_the_caller_is_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_nodes, "_nodes", lambda _: (A, B, C))
    monkeypatch.setattr(memory_nodes, "_cpu", lambda: 4)
    assert memory_nodes.nodes_from_here() == [B, C, A]


def first_touches(nbytes: int, tensors: list[tuple[int, int]], nodes: list[frozenset[int]]) -> np.ndarray:
    """Return for each page the order of threads that touched it first, numbered as they first come."""
    pages, lock = np.full(-(-nbytes // PAGE), -1), threading.Lock()
    numbers: dict[int, int] = {}
    starts: dict[int, int] = {}

    def touch(start: int, stop: int) -> None:
        with lock:
            me = threading.get_ident()
            starts.setdefault(me, start)
            numbers.setdefault(me, len(numbers))
            part = pages[start // PAGE : -(-stop // PAGE)]
            part[part < 0] = numbers[me]

    touch_by_nodes(nodes, nbytes, tensors, touch, pins=False)
    ranks = {numbers[me]: rank for rank, me in enumerate(sorted(starts, key=lambda me: starts[me]))}
    return np.array([ranks.get(page, -1) for page in pages.tolist()])


def test_each_node_touches_its_share_of_each_large_tensor_and_of_the_rest():
    found = first_touches(8 * MIB, [(0, 4 * MIB), (4 * MIB, 2 * MIB), (3 * MIB, 2 * MIB), (64, 128)], [A, B])
    pages = MIB // PAGE
    assert (found >= 0).all()
    parts = [found[i * pages : (i + 1) * pages] for i in range(8)]
    assert [set(part.tolist()) for part in parts] == [{0}, {0}, {1}, {1}, {0}, {1}, {1}, {1}]  # the last: of the whole


def test_shares_are_those_of_the_cpus_and_every_page_is_touched():
    nbytes = 8 * MIB + 100
    found = first_touches(nbytes, [], [A, B, C])
    assert (found >= 0).all()
    counts = [int((found == rank).sum()) for rank in range(3)]
    assert [round(8 * count / sum(counts)) for count in counts] == [3, 3, 2]


def test_memory_is_zeroed_and_threads_run_on_their_nodes(monkeypatch: pytest.MonkeyPatch):
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("threads have no affinity here")
    here = frozenset(os.sched_getaffinity(0))
    pinned: list[frozenset[int]] = []
    monkeypatch.setattr(memory_nodes, "nodes_from_here", lambda: [here, here])
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: pinned.append(frozenset(cpus)))
    memory = aligned.aligned_bytes(aligned.LARGE_BYTES, [(0, MIB)])
    assert memory.nbytes == aligned.LARGE_BYTES
    assert not memory.any()
    assert pinned == [here, here]


def test_memory_is_there_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch):
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    touch_by_nodes([A, B], MIB, [], lambda *_: pytest.fail("nothing is touched"), pins=False)
    started[0].join(10)
    assert not started[0].is_alive()


def test_one_node_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_nodes, "nodes_from_here", lambda: [A])
    assert not memory_nodes.place(np.zeros(PAGE, np.uint8))
