"""Marks of the results that the shards of a batch have in common."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.errors import require
from registry.op import op
from registry.shapes import require_float
from registry.traits import example
from registry.value import Value


@example((2, 2), (), shards=1, mean=False)
@op(differentiable=False)
def over_shards(x: Value, weight: Value | None = None, *, shards: int, mean: bool = True) -> TensorType:
    """Return x, and mark it as a mean, or as a sum, over the shards of a batch.

    A step of one shard computes x itself. The pass `split_batch` replaces the op by the sum of the shards' values, for
    a mean divided by their number of rows, or by the sum of the weights; then x of a shard counts `weight` times.
    A mean fits floats only.
    """
    require(shards >= 1, f"shards={shards}; it starts at 1")
    if mean:
        require_float(x)
    if weight is not None:
        require(weight.shape == (), f"the weight is {weight.type}, not a scalar")
    return x.type
