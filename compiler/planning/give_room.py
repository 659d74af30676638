"""Pass: an order and a placement with which threads share more.

A plan that reuses memory tightly makes independent ops wait for each other: an op may overwrite bytes only after
another one has read them. So the ops are put into phases by what they read alone (`runtime.step.phases`), and a buffer
lasts from the beginning of the phase that makes it to the end of the phase that reads it last.

1. Ops that need neither rows nor results of such, as masks of dropout, go into the phase before their first reader.
2. A plan is rated by its speed-up: all operations divided by those of the longest way through its phases, given the
   bytes that ops share. Among the plans within the limit that are close to the fastest, the smallest is taken.

A block with recomputed ops, spills or reloads keeps its order: in phases they would run as early as possible, which
would defeat their purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from compiler.analyses.step_graph import step_graph
from compiler.passes.order_ops import reorder
from compiler.passes.plan_memory import block_buffers, plan_from
from compiler.passes.share_memory import share_in_block
from compiler.planning.planned_bytes import touched_by_plan
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.placement import THOROUGH, Buffer, place
from runtime.step import dependencies, spills, views_of
from runtime.step.arithmetic import operations_of
from runtime.step.phases import levels, longest_way, shared_phases

MAX_ARENA_RATIO: Final = 1.5
"""Upper bound on an arena with space for threads, as a multiple of the tight arena, without a budget."""

NEAR: Final = 0.98
"""Part of the greatest speed-up that is as good as it."""


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
    free = _times_faster(step_graph(block).before, operations_of(block), threads)
    tight_gain = _gain(block, tight, threads)
    ways = [_Way(block, tight, tight_gain)]
    if (
        free * NEAR > tight_gain
        and not any(op.recompute_of for op in block.ops)
        and not any(map(spills, block.op_types))
    ):
        ways += (way for way in _in_phases(block, threads) if way.plan.arena_bytes <= limit and way.gain > tight_gain)
    enough = NEAR * max(way.gain for way in ways)
    best = min((way for way in ways if way.gain >= enough), key=lambda way: way.plan.arena_bytes)
    block.become(best.block)
    return Room(best.plan, threads, best.gain, tight, tight_gain, max(free, best.gain))


class _Way(NamedTuple):
    """A block in some order with a plan, and the speed-up of threads."""

    block: BlockAnalysis
    plan: pb.MemoryPlan
    gain: float


def _in_phases(block: BlockAnalysis, threads: int) -> Iterator[_Way]:
    """Yield the block with its ops in phases, one after the other: with updates anywhere, or before other ops.

    The first plan of each order lets ops of a phase wait for none of it, the second one has the least memory.
    """
    for updates_first in (False, True):
        phase_of = _phases(block, updates_first=updates_first)
        order = sorted(range(len(block.ops)), key=lambda i: (phase_of[i], i))
        phased = block.copied_to(pb.BlockDesc())
        reorder(phased, order)
        share_in_block(phased)
        phases = [phase_of[i] for i in order]
        _write_elsewhere(phased, phases)
        buffers = block_buffers(phased)
        bound = place(buffers).lower_bound
        for lasting in (_by_phase(buffers, phases), buffers):
            plan = plan_from(phased, buffers, place(lasting, THOROUGH))
            plan.lower_bound, plan.optimal = bound, plan.arena_bytes == bound
            yield _Way(phased, plan, _gain(phased, plan, threads))


def _write_elsewhere(block: BlockAnalysis, phases: Sequence[int]) -> None:
    """Remove the in-place pairs over operands that another op of the phase reads, and so would have to read first."""
    graph, views = step_graph(block), set(views_of(block))

    def is_read_beside(i: int, name: str) -> bool:
        return any(phases[j] == phases[i] for j in graph.readers[graph.value_of[name]] if j != i)

    for i, pairs in enumerate(block.in_place):
        if pairs and i not in views:
            block.mark(i, [pair for pair in pairs if not is_read_beside(i, block.inputs[i][pair[1]])])


def _phases(block: BlockAnalysis, *, updates_first: bool) -> list[int]:
    """Return the phase of each op: as early as possible for what needs rows, as late as possible for the rest.

    If updates come before the other ops that could be in their phase, gradients die before others are made.
    """
    graph = step_graph(block)
    found = levels(graph.before)
    fed = {graph.value_of[name] for name in block.parameter_names if name not in block.state_of}
    is_early: list[bool] = []
    for i, (reads, before) in enumerate(zip(graph.reads, graph.before, strict=True)):
        is_early.append(i in graph.once or not fed.isdisjoint(reads) or any(is_early[j] for j in before))
    for i in reversed(range(len(found))):
        if not is_early[i] and graph.after[i]:
            found[i] = min(found[j] for j in graph.after[i]) - 1
    return [
        2 * phase + (updates_first and op.stage != pb.STAGE_UPDATE) for phase, op in zip(found, block.ops, strict=True)
    ]


def _by_phase(buffers: Sequence[Buffer], phases: Sequence[int]) -> list[Buffer]:
    """Return buffers that last as long as the phases of the ops that touch them; `phases` are those of the ops."""
    first = {phase: 2 * i for i, phase in reversed([*enumerate(phases)])}
    last = {phase: 2 * i + 2 for i, phase in enumerate(phases)}
    end = 2 * len(phases)
    return [
        b._replace(
            start=first[phases[b.start // 2]] if b.start else 0,
            stop=b.stop if b.stop > end else max(b.stop, last[phases[(b.stop - 1) // 2]]),
        )
        for b in buffers
    ]


def _gain(block: BlockAnalysis, plan: pb.MemoryPlan, threads: int) -> float:
    """Return the estimated speed-up of threads, if ops wait for the bytes that they share by the plan."""
    return _times_faster(dependencies(touched_by_plan(block, plan)), operations_of(block), threads)


def _times_faster(before: Sequence[Collection[int]], operations: Sequence[int], threads: int) -> float:
    phases = shared_phases(before, operations, threads, large=0)
    return 1.0 if phases is None else sum(operations) / max(longest_way(phases, operations), 1)
