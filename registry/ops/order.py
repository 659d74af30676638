"""Sorting, positions in the sorted order, largest elements and counts; NaN counts as the largest.

Equal elements keep their order, in falling order too: the first of them comes first.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.ops.fill import full_like
from registry.ops.scatter import put_along_axis
from registry.traits import stops
from registry.value import Value


@op
def sort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the elements along `axis` in rising order, or in falling order if `descending`."""
    ...


@sort.gradient
def sort_gradient(x: Value, dy: Value, *, axis: int, descending: bool) -> Value:
    # Sorts again, because `sort` keeps no positions.
    positions = argsort(x, axis=axis, descending=descending)
    return put_along_axis(full_like(x, 0.0), positions, dy, axis=axis, reduction="set")


@op(differentiable=False)
def argsort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the positions along `axis` of the elements in the order of `sort`, int64."""
    ...


@op("y", "indices", no_gradient=("indices",))
def topk(x: Value, *, k: int, axis: int = -1, largest: bool = True) -> tuple[TensorType, TensorType]:
    """Return the k largest (or smallest) elements along `axis`, sorted, and their positions, int64.

    The order is that of ONNX: falling for the largest, rising for the smallest, the first of equal ones first.
    """
    ...


@topk.gradient
def topk_gradient(x: Value, indices: Value, dy: Value, *, axis: int) -> Value:
    return put_along_axis(full_like(x, 0.0), indices, dy, axis=axis, reduction="add")


@op(differentiable=False)
def count_unique(x: Value) -> TensorType:
    """Return the number of different elements, int64 of rank 0; all NaN are equal, and so are 0 and -0."""
    ...


@stops
@op(differentiable=False)
def bincount(indices: Value, *, depth: int) -> TensorType:
    """Return the count of each number from 0 to depth - 1, int64[depth]; a number outside stops the run."""
    ...
