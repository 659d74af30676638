"""Marks of the results that the shards of a batch have in common, and the sums of their values."""

from __future__ import annotations

from prograd_proto.dtypes import FLOATS, INTEGERS
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule
from prograd_proto.result_types.shapes import require_dtype, require_float
from prograd_proto.tensor_types import TensorType


@rule
def over_shards(x: TensorType, weight: TensorType | None = None, *, shards: int, mean: bool) -> TensorType:
    require(shards >= 1, f"shards={shards}; it starts at 1")
    if mean:
        require_float(x)
    if weight is not None:
        require(weight.shape == (), f"the weight is {weight}, not a scalar")
    return x


@rule
def join_shards(left: TensorType, right: TensorType, *, first: int, middle: int, stop: int) -> TensorType:
    require(0 <= first < middle < stop, f"the shards {first} to {middle} and {middle} to {stop} are no two ranges")
    require(right == left, f"right is {right}, left is {left}")
    require_dtype(left, FLOATS | INTEGERS)
    return left
