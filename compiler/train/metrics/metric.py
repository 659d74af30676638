"""A metric: totals over the rows of an epoch, and the value that follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prograd_proto import TensorType
from prograd_proto.better import Best
from registry import OpError, Value, ops


@dataclass(frozen=True)
class Total:
    """What a metric remembers of the rows so far: a state that begins as zeros at the start of each epoch.

    Attributes:
        suffix: of the state's name; the metric `f1` keeps its total `counts` in the state `f1.counts`.
        type: static; int64 for counts and float64 for sums, so that the order of batches rounds nothing visible.
    """

    suffix: str
    type: TensorType


@dataclass(frozen=True)
class Metric:
    """A value of all rows of an epoch or an evaluation, whatever the sizes of the steps that took them.

    Attributes:
        totals: what is remembered between steps.
        add: from the totals so far, in their order, to those with this step's rows; it appends ops.
        result: from the new totals to the value that is reported, a tensor of any shape.
        best: "max" if a higher value is better, "min" if a lower one is; None if `run(best=…)` has to say it.
    """

    totals: tuple[Total, ...]
    add: Callable[..., tuple[Value, ...]]
    result: Callable[..., Value]
    best: Best | None = None


def summed(contributions: Mapping[str, Value], result: Callable[..., Value], best: Best | None = None) -> Metric:
    """Return the metric whose totals are sums over steps.

    Args:
        contributions: by suffix, what the rows of this step add; of static shape, int64 or float64.
        result: from the sums, in the order of the contributions, to the value that is reported.
        best: whether a lower or a higher value is better, if `keep_best` may ask for it.
    """
    for suffix, value in contributions.items():
        if value.dtype not in ("int64", "float64") or any(isinstance(extent, str) for extent in value.shape):
            raise OpError(
                f"summed: the contribution {suffix!r} is {value.type}; it is int64 or float64, of a shape of numbers"
            )
    totals = tuple(Total(suffix, value.type) for suffix, value in contributions.items())

    def add(*so_far: Value) -> tuple[Value, ...]:
        return tuple(old + more for old, more in zip(so_far, contributions.values(), strict=True))

    return Metric(totals, add, result, best)


def quotient(total: Value, weight: Value) -> Value:
    """Return one float64 total over another, 0 where that is 0: nothing counts there."""
    return total / ops.where(ops.equal(weight, 0.0), 1.0, weight)


def require_metric(name: str, metric: Metric, totals: tuple[Value, ...], block: object) -> None:
    """Raise OpError unless the new totals of a metric are of its totals' types and of that block."""
    declared = [total.type for total in metric.totals]
    if not isinstance(totals, tuple) or [value.type for value in totals] != declared:  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        shown = ", ".join(map(str, declared))
        raise OpError(
            f"the metric {name!r} adds to the totals {shown} and gives {totals!r}; give a tuple of these types"
        )
    if any(value.block is not block for value in totals):
        raise OpError(f"the metric {name!r} is of tensors of another program")
