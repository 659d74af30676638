"""Metrics of predicted numbers. Differences are computed and summed in float64, over all elements equally."""

from __future__ import annotations

from dataclasses import replace

from compiler.train.metrics.classes import share
from compiler.train.metrics.metric import Metric, Total, quotient, summed
from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from registry import Value, ops
from registry.errors import require
from registry.ops.fill import size
from registry.spelled import described


@described
def mean(values: Value, weights: Value | None = None) -> Metric:
    """Return the mean of all elements, of any dtype, optionally weighted by `weights`; 0 if nothing counts."""
    wide = ops.cast(values, dtype="float64")
    if weights is not None:
        require(weights.shape == values.shape, f"the weights are {weights.type}, the values {values.type}")
        by = ops.cast(weights, dtype="float64")
        counted = ops.sum(ops.where(ops.equal(by, 0.0), 0.0, wide * by))
        return summed({"sum": counted, "weight": ops.sum(by)}, quotient)
    return summed({"sum": ops.sum(wide), "count": size.on(values.block)(shape=values.shape)}, share)


@described
def mean_absolute_error(predictions: Value, targets: Value) -> Metric:
    """Return the mean of |prediction - target|."""
    return replace(mean(ops.abs(_difference(predictions, targets))), best="min")


@described
def mean_squared_error(predictions: Value, targets: Value) -> Metric:
    """Return the mean of (prediction - target)^2."""
    return replace(mean(ops.square(_difference(predictions, targets))), best="min")


@described
def root_mean_squared_error(predictions: Value, targets: Value) -> Metric:
    """Return the square root of mean_squared_error."""

    def result(total: Value, count: Value) -> Value:
        return ops.sqrt(share(total, count))

    return replace(mean_squared_error(predictions, targets), result=result)


@described
def r2(predictions: Value, targets: Value) -> Metric:
    """Return the coefficient of determination, 1 - squared errors / squared deviations of the targets.

    If all targets are equal, it is 1 for exact predictions, else 0. The squares about the mean are merged step by step
    as by Chan, Golub and LeVeque, 1983, so that targets far from 0 lose no digits.
    """
    error = ops.sum(ops.square(_difference(predictions, targets)))
    wide = ops.cast(targets, dtype="float64")
    rows, mean_here = size.on(targets.block)(shape=targets.shape), ops.mean(wide)
    spread_here = ops.sum(ops.square(wide - mean_here))

    def add(count: Value, centre: Value, spread: Value, errors: Value) -> tuple[Value, ...]:
        gap, weight = mean_here - centre, share(rows, count + rows)
        between = ops.square(gap) * ops.cast(count, dtype="float64") * weight
        return count + rows, centre + gap * weight, spread + spread_here + between, errors + error

    def result(count: Value, centre: Value, spread: Value, errors: Value) -> Value:
        is_flat = ops.equal(spread, 0.0)
        otherwise = ops.cast(ops.equal(errors, 0.0), dtype="float64")
        return ops.where(is_flat, otherwise, 1.0 - errors / ops.where(is_flat, 1.0, spread))

    sums = tuple(Total(suffix, TensorType("float64", ())) for suffix in ("mean", "spread", "errors"))
    return Metric((Total("count", TensorType("int64", ())), *sums), add, result, "max")


def _difference(predictions: Value, targets: Value) -> Value:
    require(predictions.dtype in FLOATS, f"predictions are float32 or float64, not {predictions.dtype}")
    require(predictions.type == targets.type, f"the targets are {targets.type}, not {predictions.type}")
    return ops.cast(predictions, dtype="float64") - ops.cast(targets, dtype="float64")
