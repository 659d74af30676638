"""Pass: lay out memory so that independent ops can run on several threads at once.

A plan that reuses memory tightly makes independent ops wait for each other: an op may overwrite bytes only after
another one has read them. The algorithm is:

1. Runs on one, two, four and so on up to the requested number of threads are simulated; a free thread takes the first
   ready op of the list. The order in which ops start becomes the order of the list, and a buffer lasts until no op
   that runs at the same time can need it. One thread leaves the list as it is.
2. Buffers last zero, one, two, four, eight and so on ops longer, up to a limit of bytes. A placement of buffers that
   last longer is valid for the block's own buffers, so the runtime needs no new check.
3. Each plan is rated by its speed-up: all operations divided by those of the critical path on the threads, given the
   bytes that its ops share. Among the plans that are close to the best, and no worse than the tight one, the one with
   the smallest arena is chosen.

A block with recomputed ops, spills or reloads keeps its order: a free thread would run them as early as possible, which
would defeat their purpose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.analyses.costs import operations_of
from compiler.analyses.step_graph import step_graph
from compiler.passes.order_ops import reorder
from compiler.passes.plan_memory import block_buffers, plan_from
from compiler.passes.share_memory import share_in_block
from compiler.planning.planned_bytes import buffers_of_ops, touched_by_plan
from compiler.planning.simulated_threads import run_on, times_faster
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.placement import THOROUGH, Buffer, place
from runtime.step import dependencies, spills

MIN_SPEEDUP_FRACTION: Final = 0.98
"""Fraction of the best estimated speed-up that a plan with a smaller arena must reach."""

MAX_ARENA_RATIO: Final = 1.5
"""Upper bound on an arena with space for threads, as a multiple of the tight arena, without a budget."""


@dataclass(frozen=True)
class Room:
    """A plan for threads, and its estimated speed-up.

    Attributes:
        plan: plan of the block as it is now.
        threads: number of threads.
        gain: estimated speed-up over one thread, by operations.
        of_order: number of simulated threads whose order of starts is the order of the list; 1 is the original order.
        longer: number of ops by which buffers last longer.
        tight: the plan without additional space.
        tight_gain: estimated speed-up with that plan.
        free_gain: estimated speed-up if only data dependencies ordered the ops.
    """

    plan: pb.MemoryPlan
    threads: int
    gain: float
    of_order: int
    longer: int
    tight: pb.MemoryPlan
    tight_gain: float
    free_gain: float


def give_room(program: BlockAnalyses, *, threads: int = 1, budget: int | None = None) -> dict[int, Room]:
    """Give several threads an order and a placement in which they wait less; no effect for one thread.

    Args:
        program: its bindings are planned.
        threads: number of threads that run ops.
        budget: bytes that no arena may exceed; by default each may take half as much again.

    Returns the plans with their estimated speed-up, by the number of the block.
    """
    rooms: dict[int, Room] = {}
    if threads == 1:
        return rooms
    for entry in program.desc.entries:
        for binding in entry.bindings:
            tight = pb.MemoryPlan()
            tight.CopyFrom(binding.plan)  # gets a new order
            room = make_room(program[binding.block], tight, threads, budget)
            binding.plan.CopyFrom(room.plan)
            rooms[binding.block] = room
    return rooms


def make_room(block: BlockAnalysis, tight: pb.MemoryPlan, threads: int, limit: int | None = None) -> Room:
    """Return a plan of a bound block with space for threads; the order of its ops may change.

    Args:
        block: with static types.
        tight: its plan for the least memory, which is always allowed.
        threads: number of threads that run ops.
        limit: upper bound on the arena in bytes; by default `MAX_ARENA_RATIO` times the tight arena.
    """
    limit = int(MAX_ARENA_RATIO * tight.arena_bytes) if limit is None else limit
    free = times_faster(step_graph(block).before, operations_of(block), threads)
    ways = [_Way(block, tight, _gain(block, tight, threads), 1, 0)]
    if free * MIN_SPEEDUP_FRACTION > ways[0].gain:
        for count in _counts(block, threads):
            ways.extend(_ways(block, count, threads, limit, free))
    least = max(ways[0].gain, MIN_SPEEDUP_FRACTION * max(way.gain for way in ways))
    best = min((way for way in ways if way.gain >= least), key=lambda way: way.plan.arena_bytes)
    block.become(best.block)
    return Room(best.plan, threads, best.gain, best.of_order, best.longer, tight, ways[0].gain, max(free, best.gain))


@dataclass(frozen=True)
class _Way:
    """A block in some order with a plan."""

    block: BlockAnalysis
    plan: pb.MemoryPlan
    gain: float
    of_order: int
    longer: int


def _counts(block: BlockAnalysis, threads: int) -> Iterator[int]:
    """Yield 1, 2, 4 and so on, and `threads`; more threads than ops start all ops at once."""
    most = min(threads, len(block.ops))
    if any(op.recompute_of for op in block.ops) or any(map(spills, block.op_types)):
        most = 1
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


def _ways(block: BlockAnalysis, count: int, threads: int, limit: int, free: float) -> Iterator[_Way]:
    """Yield the plans within the limit for the order of starts on `count` threads; none follow one without waits."""
    block, until = _started_by(block, count)
    buffers = block_buffers(block)
    bound = place(buffers).lower_bound
    gain, longer = 0.0, 0
    while longer <= len(block.ops) and gain < free:
        placed = place(_lasting(buffers, until, longer, len(block.ops)), THOROUGH)
        if placed.lower_bound > limit:
            return
        if placed.arena_bytes <= limit:
            plan = plan_from(block, buffers, placed)
            plan.lower_bound, plan.optimal = bound, plan.arena_bytes == bound
            gain = _gain(block, plan, threads)
            yield _Way(block, plan, gain, count, longer)
        longer = 2 * longer or 1


def _started_by(block: BlockAnalysis, threads: int) -> tuple[BlockAnalysis, dict[str, int]]:
    """Return a block with its ops as threads start them, and the last op for which each buffer must last.

    That is the first op that starts when all ops that touch the buffer have ended.
    """
    graph, costs = step_graph(block), operations_of(block)
    run = run_on(threads, graph.before, costs)
    started = block.copied_to(pb.BlockDesc())
    if threads > 1:
        reorder(started, run.order)
        share_in_block(started)
    start = [run.start[i] for i in run.order]
    until: dict[str, int] = {}
    for i, names in zip(run.order, buffers_of_ops(started), strict=True):
        for name in names:
            until[name] = max(until.get(name, 0), bisect_left(start, run.stop[i]))
    return started, until


def _lasting(buffers: Sequence[Buffer], until: dict[str, int], longer: int, end: int) -> list[Buffer]:
    """Return buffers that last until those ops, and `longer` ops more."""
    return [b._replace(stop=max(b.stop, 2 * min(until.get(b.name, 0) + longer, end))) for b in buffers]


def _gain(block: BlockAnalysis, plan: pb.MemoryPlan, threads: int) -> float:
    """Return the estimated speed-up of threads, if ops wait for the bytes that they share by the plan."""
    return times_faster(dependencies(touched_by_plan(block, plan)), operations_of(block), threads)
