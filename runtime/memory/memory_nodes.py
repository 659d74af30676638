"""First touch on machines with several memory nodes: each part of a tensor lies in the node of the thread that uses it.

The system places a page in the node of the thread that touches it first. Thread `t` of `T` of the native engine works
on the same part of every tensor, `t / T` to `(t + 1) / T`. So its helpers are kept on the nodes in order, the caller's
node first, and large memory is touched in the same order: of each tensor, each node touches its share. On machines with
one node, and on systems other than Linux, there is one node and nothing changes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from typing import Final

from runtime.dtypes import Array
from runtime.usable_cores import ROOT, allowed_cpus, cpus_in

MIN_TENSOR_BYTES: Final = 256 << 10
"""Least size in bytes of a tensor whose parts are placed on nodes one by one."""

PAGE_BYTES: Final = 4096

Node = frozenset[int]
"""The CPUs of a node that this process may use."""

Touch = Callable[[int, int], None]
"""Function that touches the bytes of a memory from a start to before a stop."""


def memory_nodes(root: Path = ROOT) -> list[Node]:
    """Return the nodes with CPUs that this process may use; one if the system does not tell."""
    allowed = allowed_cpus()
    folder = root / "sys/devices/system/node"
    numbers = sorted(int(path.name[4:]) for path in folder.glob("node*") if path.name[4:].isdecimal())
    found = [frozenset(cpus_in(folder / f"node{number}/cpulist") & allowed) for number in numbers]
    return [node for node in found if node] or [frozenset(allowed)]


def nodes_from_here() -> list[Node]:
    """Return the nodes in order, that of the calling thread first."""
    nodes = _nodes(frozenset(allowed_cpus()))
    if len(nodes) < 2:
        return list(nodes)
    here = _cpu()
    first = next((i for i, node in enumerate(nodes) if here in node), 0)
    return [*nodes[first:], *nodes[:first]]


def node_of(number: int, threads: int, nodes: Sequence[Node]) -> Node:
    """Return the node of a thread: as large a share of the threads as its share of the CPUs."""
    ends = _ends(nodes)
    return next(node for node, end in zip(nodes, ends, strict=True) if (number + 0.5) / threads < end)


def touch_by_nodes(
    nodes: Sequence[Node], nbytes: int, tensors: Sequence[tuple[int, int]], touch: Touch, *, pins: bool = True
) -> None:
    """Touch `nbytes` bytes by a thread on each node, the large tensors first and then what is between them.

    `tensors` are offsets and sizes; the first thread that touches a page places it.
    """
    large = sorted((part for part in tensors if part[1] >= MIN_TENSOR_BYTES), key=lambda part: -part[1])
    ends, barrier = _ends(nodes), Barrier(len(nodes))

    def run(number: int) -> None:
        if pins:
            _restrict(nodes[number])
        begin = ends[number - 1] if number else 0.0
        for offset, size in [*large, (0, nbytes)]:
            try:
                barrier.wait()  # no later tensor takes pages of this one
            except BrokenBarrierError:
                return
            start, stop = (_page(offset + size * share) for share in (begin, ends[number]))
            touch(start, nbytes if number == len(nodes) - 1 and (offset, size) == (0, nbytes) else stop)

    threads = [Thread(target=run, args=(number,)) for number in range(len(nodes))]
    started: list[Thread] = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    except RuntimeError:  # the process has no more threads: the first user of a page places it
        barrier.abort()
    for thread in started:
        thread.join()


def place(memory: Array, tensors: Sequence[tuple[int, int]] = ()) -> bool:
    """Touch zeroed memory by the nodes of the machine, and return True; return False if there is one node."""
    nodes = nodes_from_here()
    if len(nodes) < 2:
        return False

    def touch(start: int, stop: int) -> None:
        memory[start:stop:PAGE_BYTES] = 0

    touch_by_nodes(nodes, memory.nbytes, tensors, touch)
    return True


def stay_on_node(number: int, threads: int, nodes: Sequence[Node]) -> None:
    """Keep the calling thread on the node of a numbered thread, if there are several nodes."""
    if len(nodes) > 1:
        _restrict(node_of(number, threads, nodes))


def _restrict(cpus: Node) -> None:
    """Keep the calling thread on these CPUs, unless the system does not allow it any longer."""
    with suppress(OSError):
        os.sched_setaffinity(0, cpus)


def _ends(nodes: Sequence[Node]) -> list[float]:
    counts = [len(node) for node in nodes]
    return [sum(counts[: i + 1]) / sum(counts) for i in range(len(nodes))]


def _page(offset: float) -> int:
    return int(offset) // PAGE_BYTES * PAGE_BYTES


@cache
def _nodes(allowed: Node) -> tuple[Node, ...]:
    del allowed  # the nodes depend on it
    return tuple(memory_nodes()) if sys.platform == "linux" else (frozenset(),)


def _cpu() -> int:
    return int(ctypes.CDLL(None).sched_getcpu())
