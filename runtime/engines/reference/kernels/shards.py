"""Results that the shards of a batch have in common: a step of one shard has them already."""

from __future__ import annotations

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.kernel import Array, Types, kernel, require, types


def over_shards_rule(x: TensorType, weight: TensorType | None = None, *, shards: int, mean: bool) -> Types:
    require(shards >= 1 and (not mean or x.dtype in FLOATS), f"x is {x}, the shards are {shards}")
    require(weight is None or weight.shape == (), f"the weight is {weight}, not a scalar")
    return types(x)


@kernel(over_shards_rule)
def over_shards(x: Array, weight: Array | None = None, *, shards: int, mean: bool, out: Array) -> None:
    np.copyto(out, x)
