"""Pass: let no arena be larger than a budget.

1. The plan of the unchanged block is used if its arena is small enough.
2. Otherwise values are recomputed, or spilled to a file if that is allowed (`rematerialise`), until the peak is no
   higher than the budget. The arena may be larger than the peak; then the peak is lowered by the excess, and the block
   is placed again.
3. Reloads start early if there is space (`prefetch`), and otherwise as late as possible.
4. The block is changed only if the budget is met. A time limit ends the search; the best result by then is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from compiler.analyses.step_graph import step_graph
from compiler.errors import LimitError
from compiler.passes.plan_memory import plan_of
from compiler.planning.prefetch import prefetch
from compiler.planning.rematerialise import lower
from compiler.planning.time_limit import TimeLimit
from compiler.planning.timeline import Timeline, timeline_of
from compiler.planning.units import forward_ops
from compiler.planning.write_timeline import write_timeline
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.wording import as_asked
from runtime.placement import THOROUGH
from runtime.step.arithmetic import operations_of

DEFAULT_LIMIT_SECONDS: Final = 60.0
"""Default time limit in seconds of the search for a way to keep a budget."""


def keep_budget(
    program: BlockAnalyses,
    *,
    budget: int | None = None,
    spill: bool = False,
    seconds: float | None = DEFAULT_LIMIT_SECONDS,
) -> None:
    """Recompute or spill values until every arena keeps the budget; no effect without a budget.

    Each attempt is placed; the excess of the arena is the saving of the next attempt.

    Args:
        program: its bindings are planned.
        budget: bytes that no arena may exceed.
        spill: True if values may be spilled to a file.
        seconds: time limit of the search; None for no limit.

    Raises LimitError, with the best result, if the budget cannot be met, or not within the time limit.
    """
    if budget is None:
        return
    limit = TimeLimit(seconds)
    for entry in program.desc.entries:
        for binding in entry.bindings:
            block = program[binding.block]
            try:
                plan = plan_within(block, binding.plan, budget, spilling=spill, limit=limit)
            except LimitError as error:
                raise LimitError(f"entry {entry.name!r}: {error}") from None
            binding.plan.CopyFrom(plan)


def plan_within(
    block: BlockAnalysis,
    plan: pb.MemoryPlan,
    budget: int,
    *,
    spilling: bool,
    limit: TimeLimit | None = None,
) -> pb.MemoryPlan:
    """Return the plan of a bound block within a budget, with recomputed or spilled values if needed.

    It is the given plan of the unchanged block if that suffices. Raises LimitError if the budget cannot be met, or not
    within the time limit.
    """
    limit = limit or TimeLimit()
    if plan.arena_bytes <= budget:
        return plan
    if not block.ops:
        raise LimitError(f"what is fed takes {plan.arena_bytes} bytes by itself, more than the budget of {budget}")
    forward = forward_ops(block)
    search = _Search(block, timeline_of(step_graph(block)), operations_of(block), budget, spilling, limit)
    found = search.plan(forward) or search.plan(set())
    if found is None:
        raise LimitError(_why_not(block, search.last, search.smallest, budget, spilling))
    return found


@dataclass
class _Search:
    """The search for a plan of a block within a budget.

    Attributes:
        last: the timeline in which the search ended.
        smallest: the bytes of the smallest arena found.
    """

    block: BlockAnalysis
    start: Timeline
    costs: Sequence[int]
    budget: int
    spilling: bool
    limit: TimeLimit
    last: Timeline = field(init=False)
    smallest: float = inf

    def plan(self, forward: Collection[int]) -> pb.MemoryPlan | None:
        """Return a plan within the budget, whose block it becomes; None if there is none with units of these ops."""
        self.last, goal = self.start, self.budget
        while True:
            self.last = lower(self.last, self.costs, goal, forward=forward, spilling=self.spilling, limit=self.limit)
            arena = inf
            for way in self._ways(goal):
                plan = _placed(self.block, way, self.budget)
                arena = plan.arena_bytes
                self.smallest = min(self.smallest, arena)
                if arena <= self.budget:
                    return plan
            if self.limit.is_over:
                raise LimitError(_how_far(self.block, self.last, self.budget, self.limit))
            if self.last.peak > goal:
                return None
            goal = self.last.peak - (int(arena) - self.budget)

    def _ways(self, goal: int) -> list[Timeline]:
        """Return the timelines to place: with reloads that start early, too, if values wait in a file."""
        if self.last.peak > goal and self.limit.is_over:
            return []
        early = [prefetch(self.last, self.costs, goal, self.limit)] if self.last.spilled else []
        return [*early, self.last]


def _placed(block: BlockAnalysis, timeline: Timeline, budget: int) -> pb.MemoryPlan:
    """Return the plan of a timeline; the block becomes it if the plan is within the budget."""
    trial = block.copied_to(pb.BlockDesc())
    write_timeline(trial, timeline)
    plan = plan_of(trial, THOROUGH)
    if plan.arena_bytes <= budget:
        block.become(trial)
    return plan


def _how_far(block: BlockAnalysis, timeline: Timeline, budget: int, limit: TimeLimit) -> str:
    start, repeated = timeline_of(step_graph(block)).peak, len(timeline.order) - len(block.ops)
    more = as_asked("--max-time", "seconds=")
    return (
        f"{limit.seconds:g} seconds were not enough: with {repeated} more ops in the step, of which "
        f"{len(timeline.spilled)} move values to a file, what it needs at once fell from {start} to {timeline.peak} "
        f"bytes, and the budget is {budget}; give it more time, by {more}, or a larger budget"
    )


def _why_not(block: BlockAnalysis, timeline: Timeline, smallest: float, budget: int, spilling: bool) -> str:
    at = timeline.live.index(timeline.peak)
    op, own = block.ops[timeline.ops[timeline.order[at]]], timeline.graph.working_set(timeline.order, at)
    how = as_asked("--spill", "spill=True")
    hint = f"; values may also wait in a file: {how}" if own <= budget and not spilling else ""
    return (
        f"the smallest arena found has {smallest} bytes, more than the budget of {budget}; "
        f"op {op.id} ({op.type}), where the peak is, works on {own} by itself{hint}"
    )
