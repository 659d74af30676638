"""A metric: totals over the rows of an epoch, and the value computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prograd_proto import TensorType
from prograd_proto.better import Best
from registry import OpError, Value, ops


@dataclass(frozen=True)
class Total:
    """A total over the rows so far: a state that is zero at the start of each epoch.

    Attributes:
        suffix: suffix of the state's name; the metric `f1` keeps its total `counts` in the state `f1.counts`.
        type: static; int64 for counts and float64 for sums, so that the order of batches rounds nothing visible.
    """

    suffix: str
    type: TensorType


@dataclass(frozen=True)
class Metric:
    """A value over all rows of an epoch or an evaluation, for any sizes of its steps.

    Attributes:
        totals: totals that are kept between steps.
        add: appends ops that add this step's rows to the totals, in their order.
        result: computes the reported value, a tensor of any shape, from the new totals.
        best: "max" if a higher value is better, "min" if a lower one is; None if `run(best=…)` must state it.
    """

    totals: tuple[Total, ...]
    add: Callable[..., tuple[Value, ...]]
    result: Callable[..., Value]
    best: Best | None = None


def summed(contributions: Mapping[str, Value], result: Callable[..., Value], best: Best | None = None) -> Metric:
    """Return the metric whose totals are sums over steps.

    Args:
        contributions: terms of this step's rows by suffix; of static shape, int64 or float64.
        result: computes the reported value from the sums, in the order of the contributions.
        best: "min" or "max", the better direction for `keep_best`.
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
    """Return one float64 total divided by another, 0 where the divisor is 0."""
    return total / ops.where(ops.equal(weight, 0.0), 1.0, weight)


def require_metric(name: str, metric: Metric, totals: tuple[Value, ...], block: object) -> None:
    """Raise OpError unless the new totals of a metric have its totals' types and are of that block."""
    declared = [total.type for total in metric.totals]
    if not isinstance(totals, tuple) or [value.type for value in totals] != declared:  # pyright: ignore[reportUnnecessaryIsInstance]: users may not check types
        shown = ", ".join(map(str, declared))
        raise OpError(
            f"the metric {name!r} adds to the totals {shown} and gives {totals!r}; give a tuple of these types"
        )
    if any(value.block is not block for value in totals):
        raise OpError(f"the metric {name!r} is of tensors of another program")
