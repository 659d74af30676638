"""Elements taken from, and written to, places that are data."""

from __future__ import annotations

from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES, DTypeName
from prograd_proto.errors import require
from prograd_proto.result_types.rule import rule, rule_with_halves
from prograd_proto.result_types.shapes import normal_axis, require_dtype, require_equal_dtypes, show_shape, size_known
from prograd_proto.tensor_types import Shape, TensorType

REDUCTIONS = ("set", "add", "max", "min", "mul")


@rule_with_halves
def gather(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    return TensorType(x.dtype, _gathered(x, indices, axis, "uint8"))


@rule
def scatter_add(x: TensorType, indices: TensorType, updates: TensorType, *, axis: int) -> TensorType:
    require_dtype(x, FLOATS | INTEGERS)
    require_equal_dtypes(x, updates)
    shape = _gathered(x, indices, axis)
    require(updates.shape == shape, f"updates has the shape {show_shape(updates.shape)}, not {show_shape(shape)}")
    return x


@rule
def one_hot(indices: TensorType, *, depth: int, dtype: DTypeName) -> TensorType:
    _require_indices(indices)
    require(depth > 0, f"the depth {depth} is not positive")
    require(dtype in ITEM_BYTES, f"{dtype!r} is not a dtype")
    return TensorType(dtype, (*indices.shape, depth))


@rule
def gather_nd(x: TensorType, indices: TensorType, *, batch_axes: int) -> TensorType:
    return TensorType(x.dtype, _parts(x.shape, indices, batch_axes))


@rule
def scatter_nd(
    x: TensorType, indices: TensorType, updates: TensorType, *, batch_axes: int, reduction: str
) -> TensorType:
    require(reduction in REDUCTIONS, f"reduction={reduction!r} is not one of {', '.join(REDUCTIONS)}")
    require(reduction == "set" or x.dtype != "bool", f"bool is set only, {reduction!r} needs numbers")
    require_equal_dtypes(x, updates)
    shape = _parts(x.shape, indices, batch_axes)
    require(updates.shape == shape, f"updates has the shape {show_shape(updates.shape)}, not {show_shape(shape)}")
    return x


@rule
def is_last_index(indices: TensorType, *, shape: Shape, batch_axes: int) -> TensorType:
    _parts(shape, indices, batch_axes)
    return TensorType("bool", indices.shape[:-1])


def _gathered(x: TensorType, indices: TensorType, axis: int, *more: str) -> Shape:
    _require_indices(indices, *more)
    axis = normal_axis(axis, x.rank)
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _require_indices(indices: TensorType, *more: str) -> None:
    dtypes = (*more, "int32", "int64")
    require(indices.dtype in dtypes, f"indices are {', '.join(dtypes[:-1])} or {dtypes[-1]}, not {indices.dtype}")


def _parts(x: Shape, indices: TensorType, batch_axes: int) -> Shape:
    """Return the shape of the parts that the rows of `indices` name."""
    require(indices.dtype in ("int32", "int64"), f"indices are int32 or int64, not {indices.dtype}")
    require(0 <= batch_axes < indices.rank, f"batch_axes={batch_axes} leaves no axis of indices {indices}")
    depth = size_known(indices.shape[-1], "the number of indices in a row")
    after = batch_axes + depth
    require(
        depth > 0 and after <= len(x), f"rows of {depth} indices after {batch_axes} axes do not fit {show_shape(x)}"
    )
    same = x[:batch_axes] == indices.shape[:batch_axes]
    require(same, f"the first {batch_axes} axes of {show_shape(x)} and {show_shape(indices.shape)} differ")
    return (*indices.shape[:-1], *x[after:])
