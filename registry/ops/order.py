"""Sorting, positions in the sorted order, largest elements and counts; NaN counts as the largest.

Equal elements keep their order, in falling order too: the first of them comes first.
"""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from registry.errors import require
from registry.op import op
from registry.ops.fill import full_like
from registry.ops.scatter import put_along_axis, take_along_axis
from registry.shapes import normal_axis, require_dtype, size_known
from registry.traits import stops
from registry.value import Value

NUMERIC = dtypes.FLOATS | dtypes.INTEGERS
LONGEST = 1 << 21
"""Upper bound on the extent of an int64 axis for argsort: position and value share the digits of two float64."""


@op
def sort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the elements along `axis` in rising order, or in falling order if `descending`."""
    _orderable(x, axis)
    return x.type


@sort.gradient
def sort_gradient(x: Value, dy: Value, *, axis: int, descending: bool) -> Value:
    # Sorts twice, because `sort` keeps no positions; PyTorch keeps them and is over ten times faster.
    ranks = argsort(argsort(x, axis=axis, descending=descending), axis=axis)
    return take_along_axis(dy, ranks, axis=axis)


@op(differentiable=False)
def argsort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the positions along `axis` of the elements in the order of `sort`, int64."""
    _orderable(x, axis)
    return TensorType("int64", x.shape)


@op("y", "indices", no_gradient=("indices",))
def topk(x: Value, *, k: int, axis: int = -1, largest: bool = True) -> tuple[TensorType, TensorType]:
    """Return the k largest (or smallest) elements along `axis`, sorted, and their positions, int64.

    The order is that of ONNX: falling for the largest, rising for the smallest, the first of equal ones first.
    """
    axis = _orderable(x, axis)
    extent = size_known(x.shape[axis], "the extent of an axis to choose from")
    require(0 <= k <= extent, f"k is {k}, axis {axis} has {extent} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(x.dtype, shape), TensorType("int64", shape)


@topk.gradient
def topk_gradient(x: Value, indices: Value, dy: Value, *, axis: int) -> Value:
    return put_along_axis(full_like(x, 0.0), indices, dy, axis=axis, reduction="add")


@op(differentiable=False)
def count_unique(x: Value) -> TensorType:
    """Return the number of different elements, int64 of rank 0; all NaN are equal, and so are 0 and -0."""
    require_dtype(x, NUMERIC)
    return TensorType("int64", ())


@stops
@op(differentiable=False)
def bincount(indices: Value, *, depth: int) -> TensorType:
    """Return the count of each number from 0 to depth - 1, int64[depth]; a number outside stops the run."""
    require_dtype(indices, ("int32", "int64"))
    require(depth > 0, f"the depth {depth} is not positive")
    return TensorType("int64", (depth,))


def _orderable(x: Value, axis: int) -> int:
    require_dtype(x, NUMERIC)
    axis = normal_axis(axis, x.rank)
    extent = x.shape[axis]
    fits = x.dtype != "int64" or isinstance(extent, str) or extent <= LONGEST
    require(fits, f"axis {axis} has {extent} elements, of int64 at most {LONGEST}; cast to float64 if that is exact")
    return axis
