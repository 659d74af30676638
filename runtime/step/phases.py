"""Phases of ops: those of one phase wait for none of each other, so several threads may share them.

1. The phase of an op follows those of the ops that it waits for.
2. The large ops of a phase are dealt, the largest first, each to the thread with the least to do. The caller makes the
   small ones.
3. Phases with fewer than two large ops are for the caller alone, and are joined to one list.
4. If the longest way through the phases takes nearly as many operations as all ops, nothing is shared.

All decisions follow from the operations of ops (`runtime.step.arithmetic`), so a step is made the same way every time.
Two ops wait for each other if they touch the same bytes. Memory that values share would add such waits, so `phases_of`
finds the phases as if each value had memory of its own; their memory is then shared by phases (`runtime.step.places`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.step.aliases import views_of
from runtime.step.arithmetic import operations_of
from runtime.step.effects import effects_of, is_transfer
from runtime.step.hazards import Touched, dependencies
from runtime.step.in_place import begins_of

LARGE: Final = 1_000_000
"""Operations from which an op is worth another thread, which takes some 50 µs to wake."""

MAX_SHARE_OF_ALL: Final = 0.9
"""Share of the operations of a step that one thread may keep, if several are to be worth it."""

Shares = list[list[int]]
"""Positions of ops by thread, the caller's first; each thread calls its own in order."""


def shared_phases(
    before: Sequence[Collection[int]], operations: Sequence[int], threads: int, *, large: int = LARGE
) -> list[Shares] | None:
    """Return the phases of a step, or None if sharing them is not worth it.

    Args:
        before: for each op the earlier ops that must be done before it starts.
        operations: the operations of each op.
        threads: number of threads that share a phase.
        large: operations from which an op is large; with 0 all ops are, and whatever can be shared is.
    """
    found: list[Shares] = []
    phases: dict[int, list[int]] = {}
    for i, level in enumerate(levels(before)):
        phases.setdefault(level, []).append(i)
    for _, ops in sorted(phases.items()):
        shares = _dealt(ops, operations, threads, large)
        if found and len(shares) == len(found[-1]) == 1:
            found[-1][0].extend(shares[0])
        else:
            found.append(shares)
    worth = not large or longest_way(found, operations) <= MAX_SHARE_OF_ALL * sum(operations)
    return found if worth and any(len(shares) > 1 for shares in found) else None


def phases_of(block: BlockAnalysis, threads: int, *, large: int = LARGE) -> list[list[int]]:
    """Return ways to put the ops of a static block into phases, the fastest first; none if sharing is not worth it.

    Each way has the number of the phase of each op. In the second one updates come before the other ops that could be
    in their phase, so that gradients die before others are made. The last two have the orders of the first two, with a
    phase for each op: they take the least memory, and ops wait for the bytes that they share. A block with transfers to
    the file has no way: a thread of their own makes them.

    Args are as of `shared_phases`.
    """
    if threads == 1 or any(map(is_transfer, set(block.op_types))):
        return []
    before = waits_of(block)
    if shared_phases(before, operations_of(block), threads, large=large) is None:
        return []
    fed = {name for name in block.parameter_names if name not in block.state_of}
    found = _late(levels(before), before, [not fed.isdisjoint(inputs) for inputs in block.inputs])
    ways = [found, [2 * at + (stage != pb.STAGE_UPDATE) for at, stage in zip(found, block.stages, strict=True)]]
    return [*ways, *map(_one_by_one, ways)]


def waits_of(block: BlockAnalysis) -> list[set[int]]:
    """Return for each op the earlier ops that it waits for if each value has memory of its own."""
    begins, views = begins_of(block), set(views_of(block))
    numbers: dict[str, int] = {}

    def touched(names: Sequence[str]) -> list[tuple[int, int]]:
        values = [begins.get(name, name) for name in names if name]
        return [(at, at + 1) for at in dict.fromkeys(numbers.setdefault(value, len(numbers)) for value in values)]

    columns = zip(block.op_types, block.inputs, block.outputs, strict=True)
    return dependencies(
        [
            Touched(touched(inputs), [] if i in views else touched(outputs), effects_of(op_type))
            for i, (op_type, inputs, outputs) in enumerate(columns)
        ]
    )


def _one_by_one(phases: Sequence[int]) -> list[int]:
    """Return phases of one op each, in the order of these."""
    order = sorted(range(len(phases)), key=phases.__getitem__)
    places = dict(zip(order, range(len(order)), strict=True))
    return [places[i] for i in range(len(phases))]


def _late(phases: list[int], before: Sequence[Collection[int]], reads_rows: Sequence[bool]) -> list[int]:
    """Return phases in which ops that need neither rows nor results of such, as masks, come right before a reader."""
    after: list[list[int]] = [[] for _ in before]
    needs_rows: list[bool] = []
    for i, earlier in enumerate(before):
        for j in earlier:
            after[j].append(i)
        needs_rows.append(reads_rows[i] or any(needs_rows[j] for j in earlier))
    for i in reversed(range(len(phases))):
        if not needs_rows[i] and after[i]:
            phases[i] = min(phases[j] for j in after[i]) - 1
    return phases


def longest_way(phases: Sequence[Shares], operations: Sequence[int]) -> int:
    """Return the operations of the longest way through phases, whose largest shares follow each other."""
    return sum(max(sum(operations[i] for i in share) for share in shares) for shares in phases)


def levels(before: Sequence[Collection[int]]) -> list[int]:
    """Return the number of the phase of each op, from 0; it may wait for earlier ops only."""
    found: list[int] = []
    for needed in before:
        found.append(1 + max((found[j] for j in needed), default=-1))
    return found


def _dealt(ops: Sequence[int], operations: Sequence[int], threads: int, large: int) -> Shares:
    """Return the shares of a phase; one if less than two of its ops are large."""
    dealt = [i for i in ops if operations[i] >= large]
    if len(dealt) < 2:
        return [list(ops)]
    shares: Shares = [[i for i in ops if operations[i] < large], *([] for _ in range(min(threads, len(dealt)) - 1))]
    work = [sum(operations[i] for i in share) for share in shares]
    for i in sorted(dealt, key=lambda i: -operations[i]):
        least = min(range(len(shares)), key=lambda thread: (work[thread], len(shares[thread])))
        shares[least].append(i)
        work[least] += operations[i]
    return [sorted(share) for share in shares]
