"""Elements by numbers that are data: gather, scatter, embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler import Value, ops
from peers.spelling import peer, unless

SCALAR = "a scalar has no axis to name"


@peer("index_select", "gather")
def index_select(x: Value, dim: int, index: Value) -> Value:
    unless(x.rank == 0, SCALAR)
    return ops.gather(x, index, axis=dim)


@peer("index_add", "scatter_add", "scatter")
def index_add(x: Value, dim: int, index: Value, source: Value, *, alpha: float = 1) -> Value:
    unless(x.rank == 0, SCALAR)
    both = [ops.scatter_add(x, index, source * alpha, axis=dim)]
    both.append(ops.scatter(x, index, source * alpha, axis=dim, reduction="add"))
    return (both[0] + both[1]) * 0.5


@peer("index_copy", "scatter")
def index_copy(x: Value, dim: int, index: Value, source: Value) -> Value:
    unless(x.rank == 0, SCALAR)
    return ops.scatter(x, index, source, axis=dim)


def _elements(x: Value, dim: int, index: Value) -> tuple[Value, Value]:
    """The part of x that has the index's extents beside the axis: PyTorch lets the index be smaller."""
    unless(x.rank == 0, SCALAR)
    axis = dim % x.rank
    part = tuple(slice(None) if i == axis else slice(0, int(n)) for i, n in enumerate(index.shape))
    return x[part], index


@peer("gather", "take_along_axis", "gather_nd")
def gather(x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    x, index = _elements(x, dim, index)
    return ops.take_along_axis(x, index, axis=dim)


@peer("take_along_dim", "take_along_axis")
def take_along_dim(x: Value, indices: Value, dim: int | None = None) -> Value:
    if dim is None:
        return ops.take_along_axis(ops.reshape(x, shape=(-1,)), ops.reshape(indices, shape=(-1,)), axis=0)
    wide = tuple(n if i != dim % x.rank else 1 for i, n in enumerate(indices.shape))
    if wide != tuple(1 if i == dim % x.rank else n for i, n in enumerate(x.shape)):
        pairs = enumerate(zip(x.shape, wide, strict=True))
        shape = tuple(m if i == dim % x.rank else max(int(m), int(n)) for i, (m, n) in pairs)
        x = ops.broadcast_to(x, shape=shape)
    return ops.take_along_axis(x, indices, axis=dim)


def _put(x: Value, dim: int, index: Value, source: Any, reduction: str) -> Value:
    """Into the part of x with the index's extents; the rest is put back around it."""
    unless(x.rank == 0, SCALAR)
    axis = dim % x.rank
    part, index = _elements(x, dim, index)
    if not isinstance(source, Value):
        source = ops.full.on(x.block)(shape=index.shape, value=float(source), dtype=x.dtype)
    source = source[tuple(slice(0, int(n)) for n in index.shape)]
    y = ops.put_along_axis(part, index, source, axis=axis, reduction=reduction)  # type: ignore[arg-type]
    for i in range(x.rank):
        if y.shape[i] != x.shape[i]:
            rest = tuple(slice(int(y.shape[i]), None) if j == i else slice(0, int(y.shape[j])) for j in range(x.rank))
            y = ops.concat(y, x[rest], axis=i)
    return y


@peer("scatter", "put_along_axis", "scatter_nd")
def scatter(
    x: Value, dim: int, index: Value, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Value:
    unless(reduce is not None, f"reduce={reduce!r}, which PyTorch does not differentiate")
    return _put(x, dim, index, value if src is None else src, "set")


@peer("scatter_add", "put_along_axis", "scatter_nd")
def scatter_add(x: Value, dim: int, index: Value, src: Value) -> Value:
    return _put(x, dim, index, src, "add")


REDUCTIONS = {"sum": "add", "amax": "max", "amin": "min"}

for variant in REDUCTIONS:

    @peer("scatter_reduce", "put_along_axis", "scatter_nd", variant=variant)
    def scatter_reduce(
        x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
    ) -> Value:
        unless(not include_self, "reductions without the tensor's own element")
        return _put(x, dim, index, src, REDUCTIONS[reduce])


@peer("index_put", "scatter_nd")
def index_put(x: Value, indices: Sequence[Value], values: Value, accumulate: bool = False) -> Value:
    unless(any(i.dtype == "bool" for i in indices), "a mask, whose number of elements is data")
    rows = ops.stack(*indices, axis=-1)
    wide = (*rows.shape[:-1], *x.shape[len(indices) :])
    values = ops.broadcast_to(values, shape=wide)
    return ops.scatter_nd(x, rows, values, reduction="add" if accumulate else "set")


@peer("nn.functional.embedding", "embedding")
def embedding(
    indices: Value,
    table: Value,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    unless(max_norm is not None, "max_norm, which changes the table")
    unless(scale_grad_by_freq, "a gradient that is not the derivative (scale_grad_by_freq)")
    if table.dtype != "float64":
        indices, table = table, indices  # the samples have the table first
    return ops.embedding(
        table, indices, padding_index=None if padding_idx is None else padding_idx % int(table.shape[0])
    )


@peer(
    "nn.functional.embedding_bag", "sparse_matmul", "sparse_outer_sum",
    orders=1, note="PyTorch has no second derivative by the values",
)  # fmt: skip
def embedding_bag(
    indices: Value,
    table: Value,
    offsets: Value | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Value:
    if table.dtype != "float64":
        indices, table = table, indices  # the samples have the table first
    unless(max_norm is not None, "max_norm, which changes the table")
    unless(scale_grad_by_freq, "a gradient that is not the derivative (scale_grad_by_freq)")
    unless(offsets is not None or indices.rank != 2, "rows of unequal length by offsets; sparse_matmul pads them")
    unless(mode != "sum", "means and maxima; sparse_matmul adds")
    unless(padding_idx is not None, "a row that is left out; sparse_matmul leaves out values of 0")
    values = ops.full(indices.shape, 1.0, dtype="float64") if per_sample_weights is None else per_sample_weights
    return ops.sparse_matmul(indices, values, table)
