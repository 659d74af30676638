"""Pass: give plans a larger arena if threads can then run more ops at the same time.

An arena for the least memory makes independent ops wait for each other: an op may overwrite bytes only after another
one has read them. So a run on several threads puts ops into phases by what they read alone, and places their buffers by
these phases (`runtime.step.phases`), if the plan has the bytes for it. This pass gives a plan those bytes, if threads
then do more at once.

A block with recomputed ops gets none: in phases they would run as early as possible, which would defeat their purpose.
A block with transfers has no phases.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.planning.touched_bytes import touched_bytes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.step import Places, dependencies, places_of, places_within
from runtime.step.arithmetic import operations_of
from runtime.step.phases import longest_way, phases_of, shared_phases, waits_of
from runtime.target import TARGET

MAX_ARENA_RATIO: Final = 1.5
"""Upper bound on an arena with space for threads, as a multiple of the tight arena, without a budget."""

NEAR: Final = 0.98
"""Fraction of the greatest speed-up that counts as equally good."""


@dataclass(frozen=True)
class Room:
    """A plan for threads, and its estimated speed-up.

    Attributes:
        plan: plan of the block as it is now.
        threads: number of threads.
        gain: estimated speed-up over one thread, by operations.
        tight: the plan without additional space.
        tight_gain: estimated speed-up with that plan.
        free_gain: estimated speed-up if only data dependencies ordered the ops.
    """

    plan: pb.MemoryPlan
    threads: int
    gain: float
    tight: pb.MemoryPlan
    tight_gain: float
    free_gain: float


def give_room(program: BlockAnalyses, *, threads: int = 1, budget: int | None = None) -> dict[int, Room]:
    """Give the plans the bytes with which several threads wait less; no effect for one thread.

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
            rooms[binding.block] = room_of(program[binding.block], binding.plan, threads, budget)
            binding.plan.CopyFrom(rooms[binding.block].plan)
    return rooms


def room_of(block: BlockAnalysis, tight: pb.MemoryPlan, threads: int, limit: int | None = None) -> Room:
    """Return a plan of a bound block with space for threads.

    Args:
        block: with static types.
        tight: its plan for the least memory, which is always allowed.
        threads: number of threads that run ops.
        limit: upper bound on the arena in bytes; by default `MAX_ARENA_RATIO` times the tight arena.
    """
    limit = int(MAX_ARENA_RATIO * tight.arena_bytes) if limit is None else limit
    tight, plan = pb.MemoryPlan.FromString(tight.SerializeToString()), pb.MemoryPlan()
    plan.CopyFrom(tight)
    free_gain = _times_faster(waits_of(block), operations_of(block), threads)
    ways = phases_of(block, threads, large=0)
    tight_gain = gain = _gain(block, places_within(block, TARGET, tight, ways=ways), threads)
    if free_gain * NEAR > tight_gain and not any(op.recompute_of for op in block.ops):
        placed = [places_of(block, TARGET, phases=phases) for phases in ways]
        found = [(each.arena_bytes, _gain(block, each, threads)) for each in placed if each.arena_bytes <= limit]
        fastest = max((faster for _, faster in found), default=tight_gain)
        if fastest * NEAR > tight_gain:
            plan.arena_bytes = min(arena for arena, faster in found if faster >= NEAR * fastest)
            plan.optimal = False
            gain = _gain(block, places_within(block, TARGET, plan, ways=ways), threads)
    return Room(plan, threads, gain, tight, tight_gain, max(free_gain, gain))


def _gain(block: BlockAnalysis, places: Places, threads: int) -> float:
    """Return the estimated speed-up of threads, if ops wait for the bytes that they share in these places."""
    operations = operations_of(block)
    before = dependencies(touched_bytes(block, places))
    return _times_faster(before, [operations[i] for i in places.order], threads)


def _times_faster(before: Sequence[Collection[int]], operations: Sequence[int], threads: int) -> float:
    phases = shared_phases(before, operations, threads, large=0)
    return 1.0 if phases is None else sum(operations) / max(longest_way(phases, operations), 1)
