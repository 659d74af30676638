"""Sorted elements and their places, the largest of them, and how many are different; NaN counts as the largest.

Equal elements keep their order, in falling order too: the first of them comes first.
"""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from registry.errors import require
from registry.op import op
from registry.ops.fill import full_like
from registry.ops.scatter import put_along_axis, take_along_axis
from registry.shapes import normal_axis, require_dtype, size_known
from registry.value import Value

NUMERIC = dtypes.FLOATS | dtypes.INTEGERS
LONGEST = 1 << 21
"""Of an int64 axis whose places are asked for: place and value share the digits of two float64."""


@op
def sort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the elements along `axis` from small to large, or from large to small if `descending`."""
    _orderable(x, axis)
    return x.type


@sort.gradient
def sort_gradient(x: Value, dy: Value, *, axis: int, descending: bool) -> Value:
    # Sorts again, twice: `sort` keeps no places. That is over ten times what PyTorch takes, which does.
    ranks = argsort(argsort(x, axis=axis, descending=descending), axis=axis)
    return take_along_axis(dy, ranks, axis=axis)


@op(differentiable=False)
def argsort(x: Value, *, axis: int = -1, descending: bool = False) -> TensorType:
    """Return the places along `axis` of the elements that `sort` gives, int64."""
    _orderable(x, axis)
    return TensorType("int64", x.shape)


@op("y", "indices", no_gradient=("indices",))
def topk(x: Value, *, k: int, axis: int = -1, largest: bool = True) -> tuple[TensorType, TensorType]:
    """Return the k largest elements along `axis`, or the k smallest, in the order of `sort`; and their places, int64.

    As in ONNX: falling order for the largest, rising for the smallest, the first of equal ones first.
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
    """How many different elements there are, int64 of rank 0; all NaN count as one, 0 and -0 too."""
    require_dtype(x, NUMERIC)
    return TensorType("int64", ())


@op(differentiable=False)
def bincount(indices: Value, *, depth: int) -> TensorType:
    """How often each number from 0 to depth - 1 occurs, int64[depth]; a number outside stops the run."""
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
