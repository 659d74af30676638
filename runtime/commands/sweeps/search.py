"""The settings that a sweep tries: every combination, random ones, or those that a search proposes.

1. A domain is the numbers that a setting may have: a list of them, or a range, linear or logarithmic.
2. `combinations` and `samples` know all settings in advance. Samples follow from the seed alone, so a sweep repeats.
3. `Bayes` proposes the next settings from the results so far, by the tree-structured Parzen estimator of Bergstra et
   al., 2011, in the package optuna. With one run at a time it repeats, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

from runtime.errors import UsageError
from runtime.extras import extra

Number = int | float
Settings = dict[str, Number]


class Range(NamedTuple):
    """The numbers from `low` to `high`; `log` is True if their logarithms are equally likely."""

    low: Number
    high: Number
    log: bool
    whole: bool = False  # of a setting of integers

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' if self.log else ''}"

    def at(self, part: float) -> Number:
        """Return the number at a fraction of the range; the fraction is below 1."""
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        if self.log:
            found = math.exp(math.log(low) + part * (math.log(high) - math.log(low)))
        else:
            found = low + part * (high - low)
        return min(math.floor(found), int(self.high)) if self.whole else self.rounded(found)

    def rounded(self, number: Number) -> Number:
        """Return a number of the range with few digits, which a person reads and writes."""
        return number if self.whole else min(max(float(f"{number:.5g}"), self.low), self.high)


Domain = list[Number] | Range


def combinations(domains: Mapping[str, Domain]) -> list[Settings]:
    """Return every combination, the last setting changing first; raise UsageError for a range."""
    lists: list[list[Number]] = []
    for name, domain in domains.items():
        if isinstance(domain, Range):
            raise UsageError(
                f"--set {name}={domain} is a range; --random N draws numbers from it, and --bayes N searches it"
            )
        lists.append(domain)
    return [dict(zip(domains, values, strict=True)) for values in product(*lists)]


def samples(domains: Mapping[str, Domain], count: int, seed: int) -> list[Settings]:
    """Return random settings, which follow from the seed."""
    random = Random(seed)
    return [{name: _drawn(domain, random.random()) for name, domain in domains.items()} for _ in range(count)]


def _drawn(domain: Domain, part: float) -> Number:
    return domain.at(part) if isinstance(domain, Range) else domain[int(part * len(domain))]


class Bayes:
    """A search that proposes settings by the results so far.

    Iterate over it for the settings, and tell the value of each in the meantime.
    """

    def __init__(self, domains: Mapping[str, Domain], count: int, seed: int) -> None:
        """Prepare `count` proposals; raise UsageError without optuna."""
        optuna = extra("optuna", "search", "--bayes")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % (1 << 32)))
        self._ranges = {name: domain for name, domain in domains.items() if isinstance(domain, Range)}
        self._domains = {name: self._distribution(domain) for name, domain in domains.items()}
        self._count = count
        self._asked: list[tuple[Settings, Any]] = []

    def __iter__(self) -> Iterator[Settings]:
        for _ in range(self._count):
            trial = self._study.ask(self._domains)
            ranges = self._ranges
            found = {name: ranges[name].rounded(n) if name in ranges else n for name, n in trial.params.items()}
            self._asked.append((found, trial))
            yield self._asked[-1][0]

    def tell(self, settings: Settings, value: float) -> None:
        """Take the value of settings that were proposed, where lower is better; NaN if their runs failed."""
        for i, (asked, trial) in enumerate(self._asked):
            if asked is settings:
                del self._asked[i]
                failed = self._optuna.trial.TrialState.FAIL
                if math.isfinite(value):
                    self._study.tell(trial, value)
                else:
                    self._study.tell(trial, state=failed)
                return

    def _distribution(self, domain: Domain) -> Any:
        kinds = self._optuna.distributions
        if not isinstance(domain, Range):
            return kinds.CategoricalDistribution(domain)
        kind = kinds.IntDistribution if domain.whole else kinds.FloatDistribution
        return kind(domain.low, domain.high, log=domain.log)


def domain_of(values: Sequence[Number] | Range, name: str, *, whole: bool) -> Domain:
    """Return the domain for checked values of a setting; raise UsageError for a range without numbers."""
    if not isinstance(values, Range):
        return list(dict.fromkeys(values))
    if not values.low < values.high:
        raise UsageError(f"--set {name}={values}: a range begins below its end")
    if values.log and values.low <= 0:
        raise UsageError(f"--set {name}={values}: a logarithmic range begins above 0")
    return values._replace(whole=whole)
