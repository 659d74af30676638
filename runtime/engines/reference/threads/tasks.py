"""Combine dependent ops into tasks that are large enough for a thread.

1. An op that waits for two ops, of which one waits for the other, waits for the later one only.
2. Ops that can only run one after the other become one task. An op that takes next to no time joins its only
   predecessor or its only successor. So a chain is one task, which runs as fast as a loop.
3. If the longest path through the tasks takes nearly as long as all of them, they are one task.
4. The longer the path that begins with a task, the more urgent it is (Graham's list scheduling by Hu's levels).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

HANDOVER_SECONDS: Final = 50e-6
"""Seconds that it takes to give work to another thread and to learn that it is done."""

MAX_THREADED_SHARE: Final = 0.9
"""Share of the time on one thread; tasks that are expected to take longer run on one thread."""

DEPENDENCY_WINDOW: Final = (1 << 4096) - 1
"""Number of preceding ops, as a bit mask, for which indirect dependencies are known."""


@dataclass(frozen=True)
class Tasks:
    """Work for several threads; the more urgent a task, the lower its number.

    Attributes:
        ops: the positions of each task's ops, in order.
        waits: the number of tasks that each one waits for.
        after: the tasks that wait for each one.
    """

    ops: list[list[int]]
    waits: list[int]
    after: list[list[int]]


def tasks_of(
    before: Sequence[set[int]], seconds: Sequence[float], threads: int, *, tiny: float = HANDOVER_SECONDS
) -> Tasks | None:
    """Return the tasks of a step, or None if running them on several threads is not worth it.

    Args:
        before: for each op the earlier ops that must be done before it starts.
        seconds: time of each op.
        threads: number of threads that run tasks.
        tiny: seconds that are not worth another thread; with 0 every set of concurrent ops is worth it.
    """
    groups = _fused(before, seconds, tiny)
    levels = _levels(groups, tiny)
    total = sum(seconds)
    expected = max(max(levels, default=0.0), (total + len(groups) * tiny / 4) / threads)
    if len(groups) < 2 or (tiny and expected > MAX_THREADED_SHARE * total):
        return None
    urgent = sorted(range(len(groups)), key=lambda i: (-levels[i], groups[i].ops[0]))
    number = {i: rank for rank, i in enumerate(urgent)}
    return Tasks(
        [sorted(groups[i].ops) for i in urgent],
        [len(groups[i].before) for i in urgent],
        [sorted(number[j] for j in groups[i].after) for i in urgent],
    )


def max_concurrent(tasks: Tasks) -> int:
    """Return an upper bound on the tasks that can run at once: a number of chains that all of them are in."""
    followed = set[int]()
    for after in tasks.after:
        following = next((task for task in after if task not in followed), None)
        if following is not None:
            followed.add(following)
    return len(tasks.ops) - len(followed)


@dataclass
class _Group:
    """Ops that one thread runs, and the groups before and after it."""

    ops: list[int]
    seconds: float
    before: set[int]
    after: set[int]
    taken: float = 0.0  # seconds of tiny ops that joined it although others need not wait for them


def _fused(before: Sequence[set[int]], seconds: Sequence[float], tiny: float) -> list[_Group]:
    """Return the groups in an order in which they can run, fused until nothing changes."""
    groups = _linked([[i] for i in range(len(before))], before, seconds)
    while True:
        left = _fuse_once(groups, tiny)
        if len(left) == len(groups):
            return groups
        order = _in_order(groups, left)
        number = {i: rank for rank, i in enumerate(order)}
        before = [{number[j] for j in groups[i].before} for i in order]
        taken = [groups[i].taken for i in order]
        groups = _linked([groups[i].ops for i in order], before, seconds)
        for group, absorbed in zip(groups, taken, strict=True):
            group.taken = absorbed


def _linked(ops: Sequence[list[int]], before: Sequence[set[int]], seconds: Sequence[float]) -> list[_Group]:
    """Return the groups, each linked to those that it waits for directly."""
    groups = [
        _Group(members, sum(seconds[i] for i in members), needed, set())
        for members, needed in zip(ops, _direct(before), strict=True)
    ]
    for i, group in enumerate(groups):
        for j in group.before:
            groups[j].after.add(i)
    return groups


def _direct(before: Sequence[set[int]]) -> list[set[int]]:
    """Return the dependencies without those that follow from others."""
    earlier: list[int] = []  # bit k of number i: i waits for i - 1 - k
    result: list[set[int]] = []
    for i, needed in enumerate(before):
        known = through = 0
        direct: set[int] = set()
        for j in sorted(needed, reverse=True):
            if not through >> (i - 1 - j) & 1:
                direct.add(j)
            known |= 1 << (i - 1 - j)
            through |= earlier[j] << (i - j) & DEPENDENCY_WINDOW
        earlier.append((known | through) & DEPENDENCY_WINDOW)
        result.append(direct)
    return result


def _fuse_once(groups: list[_Group], tiny: float) -> list[int]:
    """Fuse in one walk over the groups; return the groups that are left."""
    gone: set[int] = set()
    for i, group in enumerate(groups):
        if len(group.before) == 1:
            [j] = group.before
            if len(groups[j].after) == 1 or _takes(groups[j], group, tiny):
                _merge(groups, j, i)
                gone.add(i)
                continue
        if len(group.after) == 1:
            [j] = group.after
            if _takes(groups[j], group, tiny):
                _merge(groups, j, i)
                gone.add(i)
    left = [i for i in range(len(groups)) if i not in gone]
    gone |= _gather(groups, [i for i in left if not groups[i].before], tiny)
    gone |= _gather(groups, [i for i in left if not groups[i].after and i not in gone], tiny)
    return [i for i in left if i not in gone]


def _takes(group: _Group, other: _Group, tiny: float) -> bool:
    """Return True if a group may absorb a tiny one, and note it."""
    if other.seconds >= tiny or group.taken + other.seconds > tiny:
        return False
    group.taken += other.seconds
    return True


def _gather(groups: list[_Group], ends: Iterable[int], tiny: float) -> set[int]:
    """Merge tiny groups without predecessors, or without successors, until they are tiny no longer."""
    gone: set[int] = set()
    into: int | None = None
    for i in (i for i in ends if groups[i].seconds < tiny):
        if into is None or groups[into].seconds >= tiny:
            into = i
            continue
        _merge(groups, into, i)
        gone.add(i)
    return gone


def _merge(groups: list[_Group], into: int, gone: int) -> None:
    one, other = groups[into], groups[gone]
    one.ops += other.ops
    one.seconds += other.seconds
    for j in other.before:
        groups[j].after.discard(gone)
        if j != into:
            groups[j].after.add(into)
            one.before.add(j)
    for j in other.after:
        groups[j].before.discard(gone)
        if j != into:
            groups[j].before.add(into)
            one.after.add(j)


def _in_order(groups: Sequence[_Group], left: Sequence[int]) -> list[int]:
    missing = {i: len(groups[i].before) for i in left}
    order = [i for i in left if not missing[i]]
    for i in order:  # grows while it is walked
        for j in sorted(groups[i].after):
            missing[j] -= 1
            if not missing[j]:
                order.append(j)
    return order


def _levels(groups: Sequence[_Group], tiny: float) -> list[float]:
    """Return the seconds of the longest path from each group, with the cost of passing from one group to the next."""
    levels = [0.0] * len(groups)
    for i in reversed(range(len(groups))):
        levels[i] = groups[i].seconds + max((tiny / 2 + levels[j] for j in groups[i].after), default=0.0)
    return levels
