"""The check that a plan belongs to these buffers, and that a placement is safe: a sweep over time, by offset."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from runtime.placement.buffer import Buffer


def planned_offsets(
    placements: Iterable[pb.Placement],
    buffers: Iterable[Buffer],
    is_optional: Callable[[str], bool] = lambda name: False,
) -> dict[str, int]:
    """Return a plan's offsets by name; raise ProgramError unless they belong to these buffers or optional ones."""
    planned = {placement.tensor: placement.offset for placement in placements}
    names = {buffer.name for buffer in buffers}
    wrong = (names - planned.keys()) | {name for name in planned.keys() - names if not is_optional(name)}
    if wrong:
        raise ProgramError(f"the plan and the block differ in %{min(wrong)}; compile again")
    return planned


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
                f"the plan puts %{buffer.name} ({buffer.nbytes} bytes) at offset {offset} of {what} of {arena_bytes} "
                f"bytes; it must lie inside, at a multiple of {alignment}"
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
            f"the plan puts %{buffers[low].name} and %{buffers[high].name} in the same bytes while both are needed"
        )
