"""Lower the peak of a step by computing values again instead of keeping them, or by moving them to a file meanwhile.

1. The op at which the peak is reached is looked at. A value that is live across it, and no operand of it unless the op
   could write over it, need not be kept: the op that made it is repeated right before the value's next use, and that
   use and all later ones read the new value.
2. Operands of the repeated op whose live range ended before are kept live until then, or rematerialised too by
   repeating their ops; and where one of these is repeated again later on, the earlier repetition may serve both.
   If spilling is allowed, the value may go to the file once it is defined instead, and come back right before its next
   use. That also helps with what is fed, and with what the end of the step reads.
3. Each of these choices is tried on the graph, where the true peak is measured, with scratch and results in place.
   Only those count that lower the peak, or leave fewer ops at it: the peak never rises. The one of the highest worth is
   taken, and that is repeated until the budget is met or nothing helps.
4. The worth of a choice is first the bytes above the budget that it frees, summed over the step, for each operation
   that it adds, those for moving bytes included. Where the search with this measure ends above the budget or adds many
   operations, other measures are tried, and the result with the lowest cost is taken.

A choice builds on those before it: a repeated op reads its operands like any other op, so they can be rematerialised
for it in turn, and a chain of layers comes to be computed again as a whole.

The idea of trading operations for memory by the true peak is that of XLA's rematerialisation and of Kirisame et al.,
"Dynamic tensor rematerialization" (2021). A repeated op has the bits of the first: random numbers are counted, and
a state that it reads is written over only after it, or not in place. An op with effects is never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from compiler.planning.time_limit import TimeLimit
from compiler.planning.timeline import Choice, Timeline, repeat, spill

MOST_TRIED = 24
"""Values that are tried at one peak, the most bytes for an operation first."""

LONG = 1000
"""Ops of a step. A trial takes as long as the step has ops, and the choices are many: in a longer step the first one
of each kind that lowers the peak is weighed, without a look at what else would."""

CHEAP = 1.2
"""Times the operations of the step without repetitions: what costs no more is not compared with other ways."""


def lower(
    timeline: Timeline,
    costs: Sequence[int],
    budget: int,
    *,
    spilling: bool = False,
    limit: TimeLimit | None = None,
) -> Timeline:
    """Return a timeline that needs no more bytes than the budget, or else the lowest that was found.

    Args:
        timeline: the peak of what is returned is no higher.
        costs: the operations of each op of the block.
        budget: bytes.
        spilling: whether values may go to a file.
        limit: of time; what has been found when it is over is returned.
    """
    limit = limit or TimeLimit()
    best, cheap = None, CHEAP * timeline.cost(costs)
    for worth in WORTHS[:1] if len(timeline.order) > LONG else WORTHS:
        found = _lowered(timeline, costs, budget, worth, spilling, limit)
        if best is None or _rank(found, costs, budget) < _rank(best, costs, budget):
            best = found
        if limit.is_over or (best.peak <= budget and best.cost(costs) <= cheap):
            break
    return best or timeline


def _lowered(
    timeline: Timeline, costs: Sequence[int], budget: int, worth: Worth, spilling: bool, limit: TimeLimit
) -> Timeline:
    most = 1 if len(timeline.order) > LONG else None
    while timeline.peak > budget and not limit.is_over:
        lower = (trial for trial in _repeated(timeline, costs) if _height(trial) < _height(timeline))
        moved = (trial for trial in _spilled(timeline) if _height(trial) < _height(timeline)) if spilling else iter(())
        best, gain = None, 0.0
        for trial in chain(islice(lower, most), islice(moved, most)):
            gained = worth(timeline, trial, budget, max(1, trial.cost(costs) - timeline.cost(costs)))
            if best is None or gained > gain:
                best, gain = trial, gained
            if limit.is_over:
                break
        if best is None:
            break
        timeline = best
    return timeline


def by_step(timeline: Timeline, trial: Timeline, budget: int, cost: int) -> float:
    """Return the bytes above the budget that go, summed over the step, for an operation."""
    return by_bytes(timeline, trial, budget, cost) / cost


def by_peak(timeline: Timeline, trial: Timeline, budget: int, cost: int) -> float:
    """Return the bytes that go at the peak, for an operation."""
    running = timeline.order[timeline.live.index(timeline.peak)]
    left = trial.live[trial.position[running]] if running in trial.position else trial.peak
    return (timeline.peak - left) / cost


def by_bytes(timeline: Timeline, trial: Timeline, budget: int, cost: int) -> float:
    """Return the bytes above the budget that go, summed over the step, at any cost."""
    return _excess(timeline, budget) - _excess(trial, budget)


Worth = Callable[[Timeline, Timeline, int, int], float]
"""What a choice is worth: from the timeline, the timeline with it, the budget, and the operations that it adds."""

WORTHS: tuple[Worth, ...] = (by_step, by_peak, by_bytes)


def _rank(timeline: Timeline, costs: Sequence[int], budget: int) -> tuple[int, int]:
    return max(budget, timeline.peak), timeline.cost(costs)


def _height(timeline: Timeline) -> tuple[int, int]:
    return timeline.peak, timeline.live.count(timeline.peak)


def _excess(timeline: Timeline, budget: int) -> int:
    """Return the bytes above the budget, summed over the ops that are no repetitions."""
    above = ((i, nbytes - budget) for i, nbytes in zip(timeline.order, timeline.live, strict=True) if nbytes > budget)
    return sum(nbytes for i, nbytes in above if timeline.ops[i] == i)


def _repeated(timeline: Timeline, costs: Sequence[int]) -> Iterator[Timeline]:
    """What comes of making a value again."""
    seen: set[tuple[int, ...]] = set()
    made_again: list[tuple[float, Choice]] = []
    for kept, choice in _kept_across(timeline):
        if timeline.may_repeat(choice.value) and not timeline.graph.lasts[kept]:
            cost = costs[timeline.made_by[choice.value]]
            made_again.append((-timeline.graph.nbytes[choice.value] / max(1, cost), choice))
    for _, choice in sorted(made_again)[:MOST_TRIED]:
        for kept in (0.0, 0.5):
            for merge in (False, True):
                trial = repeat(timeline, choice._replace(kept=kept, merge=merge))
                alike = *(trial.ops[i] for i in trial.order), *map(len, trial.graph.readers)
                if alike not in seen:
                    seen.add(alike)
                    yield trial


def _spilled(timeline: Timeline) -> Iterator[Timeline]:
    """What comes of moving a value to the file and back."""
    nbytes = timeline.graph.nbytes
    choices = [choice for _, choice in _kept_across(timeline)]
    for choice in sorted(choices, key=lambda choice: -nbytes[choice.value])[:MOST_TRIED]:
        yield spill(timeline, choice)


def _kept_across(timeline: Timeline) -> Iterator[tuple[int, Choice]]:
    """Return the values that the peak keeps for later and does not use, and where they are next used."""
    if not timeline.order:
        return
    graph, position, now = timeline.graph, timeline.position, timeline.live.index(timeline.peak)
    running, end = timeline.order[now], len(timeline.order)
    used = {*graph.reads[running], *graph.writes[running]}
    used -= {read for _, read in graph.over[running]}  # if it goes, the op may write over it
    for value, maker in enumerate(timeline.made_by):
        if value in used or not graph.nbytes[value] or position.get(maker, now) >= now:
            continue
        later = [at for at in (position[i] for i in graph.readers[value]) if at > now]
        if later or graph.lasts[value]:
            yield value, Choice(timeline.values[value], min(later, default=end))
