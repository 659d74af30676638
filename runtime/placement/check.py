"""The check that a placement is safe: a sweep over time, by offset."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from prograd_proto import ProgramError
from runtime.placement.buffer import Buffer


def check_placement(
    buffers: Sequence[Buffer],
    offsets: Sequence[int],
    arena_bytes: int,
    *,
    alignment: int = 64,
    what: str = "an arena",
) -> None:
    """Raise ProgramError unless every buffer is aligned, inside the arena, and disjoint from all alive with it."""
    events: list[tuple[int, int, int]] = []
    for i, (buffer, offset) in enumerate(zip(buffers, offsets, strict=True)):
        if offset < 0 or offset % alignment or offset + buffer.nbytes > arena_bytes:
            raise ProgramError(
                f"a placement puts %{buffer.name} ({buffer.nbytes} bytes) at offset {offset} of {what} of "
                f"{arena_bytes} bytes; it must lie inside, at a multiple of {alignment}"
            )
        if buffer.nbytes and buffer.start < buffer.stop:
            events += [(buffer.start, 1, i), (buffer.stop, 0, i)]
    alive: list[tuple[int, int]] = []
    for _, begins, i in sorted(events):
        entry = (offsets[i], i)
        position = bisect_left(alive, entry)
        if not begins:
            del alive[position]
            continue
        for neighbour in alive[max(position - 1, 0) : position + 1]:
            _require_disjoint(buffers, offsets, i, neighbour[1])
        insort(alive, entry)


def _require_disjoint(buffers: Sequence[Buffer], offsets: Sequence[int], a: int, b: int) -> None:
    low, high = (a, b) if (offsets[a], a) < (offsets[b], b) else (b, a)
    if offsets[low] + buffers[low].nbytes > offsets[high]:
        raise ProgramError(
            f"a placement puts %{buffers[low].name} and %{buffers[high].name} in the same bytes while both are needed"
        )
