"""A table of the runs with equal settings: the mean and the standard deviation of each metric over their seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import mean, stdev

from prograd_proto import program_pb2 as pb
from runtime.commands.sweeps.runs import Outcome
from runtime.commands.sweeps.table import aligned, judged_by, metrics_of

Key = tuple[tuple[str, float], ...]
"""Settings by name."""

Group = list[dict[str, float]]
"""The metrics of the runs that have equal settings and did not fail."""


def seed_table(program: pb.ProgramDesc, done: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the table, the best mean first; none if no settings have two runs that did not fail."""
    groups = groups_of(program, done)
    if all(len(group) < 2 for group in groups.values()):
        return
    name, _ = judged_by(program, done)
    has_folds = any(outcome.trial.fold for outcome in done)
    names = dict.fromkeys([name] if name else [])
    names |= dict.fromkeys(metric for group in groups.values() for metrics in group for metric in metrics)
    rows = [[*(setting for setting, _ in next(iter(groups))), "runs" if has_folds else "seeds", *names]]
    for settings, group in groups.items():
        cells = (f"{middle:.4g} ± {deviation:.2g}" for middle, deviation in (spread(group, metric) for metric in names))
        rows.append([*(repr(number) for _, number in settings), str(len(group)), *cells])
    yield "mean ± standard deviation"
    yield from aligned(rows)


def groups_of(program: pb.ProgramDesc, done: Sequence[Outcome]) -> dict[Key, Group]:
    """Return the runs that did not fail by their settings, the best mean first."""
    groups: dict[Key, Group] = {}
    for outcome in sorted(done, key=lambda outcome: outcome.trial.number):
        if outcome.code == 0:
            groups.setdefault(tuple(outcome.trial.settings.items()), []).append(metrics_of(outcome))
    name, more_is_better = judged_by(program, done)

    def key(settings: Key) -> tuple[bool, float]:
        middle, _ = spread(groups[settings], name)
        return math.isnan(middle), 0.0 if math.isnan(middle) else -middle if more_is_better else middle

    return {settings: groups[settings] for settings in sorted(groups, key=key)}


def spread(group: Group, name: str) -> tuple[float, float]:
    """Return the mean and the sample standard deviation of a metric; NaN where a run or a second run lacks it."""
    values = [metrics.get(name, math.nan) for metrics in group]
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    return mean(values), stdev(values) if len(values) > 1 else math.nan
