"""Results that the shards of a batch have in common, and the sums of two ranges of shards."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import pointwise


def over_shards_rule(x: TensorType, weight: TensorType | None = None, *, shards: int, mean: bool) -> Types:
    require(shards >= 1 and (not mean or x.dtype in FLOATS), f"x is {x}, the shards are {shards}")
    require(weight is None or weight.shape == (), f"the weight is {weight}, not a scalar")
    return types(x)


@kernel(over_shards_rule)
def over_shards(x: Array, weight: Array | None = None, *, shards: int, mean: bool, out: Array) -> None:
    np.copyto(out, x)


def join_shards_rule(left: TensorType, right: TensorType, *, first: int, middle: int, stop: int) -> Types:
    require(0 <= first < middle < stop, f"the shards {first} to {middle} and {middle} to {stop} are no two ranges")
    require(left == right and left.dtype in FLOATS | INTEGERS, f"left is {left}, right is {right}")
    return types(left)


@kernel(join_shards_rule, in_place=[(0, 0), (0, 1)], rows=pointwise)
def join_shards(left: Array, right: Array, *, first: int, middle: int, stop: int, out: Array) -> None:
    np.add(left, right, out)
