"""Marks of the results that the shards of a batch have in common, and the sums of their values."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
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
    ...


@example((2, 2), (2, 2), first=0, middle=1, stop=2)
@op(differentiable=False)
def join_shards(left: Value, right: Value, *, first: int, middle: int, stop: int) -> TensorType:
    """Return left + right, the sums over the shards `first` to `middle` and `middle` to `stop`, without the ends.

    The pass `split_batch` adds the values of shards by such ops, in a balanced binary tree. A process that computes
    some of the shards derives from their numbers which sums it has, and which sums others have.
    """
    ...
