"""Metrics: scalar fetches, and their combination over steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.entries import BoundEntry

Number = int | float
Metrics = dict[str, Number]


def scalar_fetches(bound: BoundEntry) -> list[pb.FetchDesc]:
    """Return the fetches with one element, whatever the number of rows."""
    return [
        fetch
        for fetch in bound.block.fetches
        if fetch.name not in bound.row_names and bound.types[fetch.tensor].has_one_element
    ]


class Totals:
    """Scalar fetches combined over steps: the last value, the mean weighted by rows, or the sum.

    Sums are Python's float64, in the order of the steps. `sums` and `rows` are the whole state.
    """

    def __init__(self, fetches: Iterable[pb.FetchDesc]) -> None:
        self._over = {fetch.name: fetch.over for fetch in fetches}
        self.sums: Metrics = {}
        self.rows = 0

    @property
    def names(self) -> list[str]:
        """The names of the fetches."""
        return list(self._over)

    def clear(self) -> None:
        """Begin again with no steps."""
        self.sums = {}
        self.rows = 0

    def of_step(self, fetched: Mapping[str, Array]) -> Metrics:
        """Return the scalar fetches of a step, as numbers."""
        return {name: fetched[name].item() for name in self._over}

    def of_steps(self, kept: Mapping[str, Array], count: int) -> list[Metrics]:
        """Return the scalar fetches of `count` steps, whose values lie along axis 0."""
        columns: list[list[Number]] = [kept[name].reshape(-1)[:count].tolist() for name in self._over]
        return [dict(zip(self._over, values, strict=True)) for values in zip(*columns, strict=True)] or [
            {} for _ in range(count)
        ]

    def add(self, steps: Sequence[Metrics], rows: int) -> None:
        """Add the numbers of steps of `rows` rows each."""
        self.rows += rows * len(steps)
        for name, over in self._over.items() if steps else ():
            if over not in (pb.OVER_MEAN, pb.OVER_SUM):
                self.sums[name] = steps[-1][name]
                continue
            times = rows if over == pb.OVER_MEAN else 1
            total = self.sums.get(name, 0.0 if over == pb.OVER_MEAN else 0)
            for values in steps:
                total += values[name] * times
            self.sums[name] = total

    def result(self) -> Metrics:
        """Return the combined values; empty before the first step."""
        means = {name for name, over in self._over.items() if over == pb.OVER_MEAN}
        return {name: value / self.rows if name in means else value for name, value in self.sums.items()}
