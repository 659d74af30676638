"""Lower the peak of a step by recomputing values instead of keeping them, or by spilling them to a file.

1. The forward pass is recomputed in units first, such as its layers (`units`). In a long step, the search continues
   from there if the budget is not met. In other steps, the result is compared with that of a search from the start, as
   follows.
2. Consider the op at which the peak is reached. A value that is live across this op need not be kept, unless it is an
   operand that the op cannot overwrite. The op that computed the value is repeated right before the next use; this use
   and all later ones read the new value.
3. Operands of the repeated op whose live range ended earlier are kept live until then, or rematerialised too by
   repeating their ops. If one of these is needed again later, both uses may share the earlier repetition. If spilling
   is allowed, the value may instead be spilled to the file once it is defined, and reloaded right before its next use.
   That also works for feeds, and for values that the end of the step reads.
4. Each of these choices is tried on the graph, where the true peak is measured, with scratch and results in place.
   Only choices that lower the peak, or leave fewer ops at it, count: the peak never rises. The choice of the highest
   worth is applied, and the search continues until the budget is met or no choice helps.
5. The value of a choice is the bytes above the budget that it frees, summed over the step, divided by the operations
   that it adds, including those for moving bytes. If the search with this measure ends above the budget or adds many
   operations, other measures are tried, and the result with the lowest cost is chosen.

A choice builds on those before it: a repeated op reads its operands like any other op, so they can be rematerialised
for it in turn. A chain of layers is eventually recomputed as a whole.

The idea of trading operations for memory by the true peak is that of XLA's rematerialisation and of Kirisame et al.,
"Dynamic tensor rematerialization" (2021). A repeated op has the bits of the first: random numbers are counted, and
a state that it reads is written over only after it, or not in place. An op with effects is never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice

from compiler.planning.time_limit import TimeLimit
from compiler.planning.timeline import Choice, Timeline, repeat, spill
from compiler.planning.units import by_units

MOST_TRIED = 24
"""Upper bound on the values that are tried at one peak; those with the most bytes for an operation come first."""

LONG = 1000
"""Number of ops of a step above which the search is greedy.

A trial takes time in the ops of the step, and there are many choices. In a longer step, the first choice of each kind
that lowers the peak is used without comparing further ones.
"""

CHEAP = 1.2
"""Cost, as a multiple of the step without repetitions, below which no other measures are tried."""


def lower(
    timeline: Timeline,
    costs: Sequence[int],
    budget: int,
    *,
    forward: Collection[int] = (),
    spilling: bool = False,
    limit: TimeLimit | None = None,
) -> Timeline:
    """Return a timeline that needs no more bytes than the budget, or else the lowest that was found.

    Args:
        timeline: the start of the search; the peak of the result is no higher.
        costs: the operations of each op of the block.
        budget: bytes.
        forward: the forward ops, of which units may be recomputed (see `units`).
        spilling: True if values may be spilled to a file.
        limit: time limit; the best result by then is returned.
    """
    limit = limit or TimeLimit()
    best, cheap = None, CHEAP * timeline.cost(costs)
    if timeline.peak > budget and not timeline.has_repetitions:
        best = by_units(timeline, costs, budget, forward)
        if best is not None and len(timeline.order) > LONG and not spilling:
            return best if best.peak <= budget else _lowered(best, costs, budget, by_step, spilling, limit)
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
    """Return the freed bytes above the budget, summed over the step, per operation."""
    return by_bytes(timeline, trial, budget, cost) / cost


def by_peak(timeline: Timeline, trial: Timeline, budget: int, cost: int) -> float:
    """Return the freed bytes at the peak per operation."""
    running = timeline.order[timeline.live.index(timeline.peak)]
    left = trial.live[trial.position[running]] if running in trial.position else trial.peak
    return (timeline.peak - left) / cost


def by_bytes(timeline: Timeline, trial: Timeline, budget: int, cost: int) -> float:
    """Return the freed bytes above the budget, summed over the step, at any cost."""
    return _excess(timeline, budget) - _excess(trial, budget)


Worth = Callable[[Timeline, Timeline, int, int], float]
"""The value of a choice, given the timeline before and after it, the budget, and the operations that it adds."""

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
    """Yield the timelines with one more recomputed value."""
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
    """Yield the timelines with one more spilled value."""
    nbytes = timeline.graph.nbytes
    choices = [choice for _, choice in _kept_across(timeline)]
    for choice in sorted(choices, key=lambda choice: -nbytes[choice.value])[:MOST_TRIED]:
        yield spill(timeline, choice)


def _kept_across(timeline: Timeline) -> Iterator[tuple[int, Choice]]:
    """Yield the values that are live across the peak without being used there, and their next uses."""
    if not timeline.order:
        return
    graph, position, now = timeline.graph, timeline.position, timeline.live.index(timeline.peak)
    running, end = timeline.order[now], len(timeline.order)
    used = {*graph.reads[running], *graph.writes[running]}
    used -= {read for _, read in graph.over[running]}  # if it is not kept, the op may overwrite it
    for value, maker in enumerate(timeline.made_by):
        if value in used or not graph.nbytes[value] or position.get(maker, now) >= now:
            continue
        later = [at for at in (position[i] for i in graph.readers[value]) if at > now]
        if later or graph.lasts[value]:
            yield value, Choice(timeline.values[value], min(later, default=end))
