"""Indexing by tensors: gather, scatter_add, one_hot."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS, DTypeName
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.ops.fill import gradient_like
from registry.shapes import normal_axis, require_dtype, require_equal_dtypes, show_shape
from registry.traits import stops
from registry.value import Value


@stops
@op(halves=True)
def gather(x: Value, indices: Value, *, axis: int = 0) -> TensorType:
    """Return the slices of x along `axis` at `indices`, whose axes replace that axis.

    Indices are int32 or int64 and count from 0; a negative or too large index stops the run.
    """
    return TensorType(x.dtype, _gathered(x, indices, axis))


@gather.gradient
def gather_gradient(x: Value, indices: Value, dy: Value, *, axis: int) -> tuple[Value, None]:
    return scatter_add(gradient_like(x, 0.0), indices, dy, axis=axis), None


@stops
@op
def scatter_add(x: Value, indices: Value, updates: Value, *, axis: int = 0) -> TensorType:
    """Return x with `updates` added to the slices along `axis` at `indices`.

    `updates` has the type of gather(x, indices). A slice that several indices name gets the sum, added in the order of
    the indices.
    """
    require_dtype(x, FLOATS | INTEGERS)
    require_equal_dtypes(x.type, updates.type)
    shape = _gathered(x, indices, axis)
    require(updates.shape == shape, f"updates has the shape {show_shape(updates.shape)}, not {show_shape(shape)}")
    return x.type


@scatter_add.gradient
def scatter_add_gradient(indices: Value, dy: Value, *, axis: int) -> tuple[Value, None, Value]:
    return dy, None, gather(dy, indices, axis=axis)


@stops
@op(differentiable=False)
def one_hot(indices: Value, *, depth: int, dtype: DTypeName = "float32") -> TensorType:
    """Return for each index a new last axis of `depth` zeros with a one at the index; one outside stops the run."""
    _require_indices(indices)
    require(depth > 0, f"the depth {depth} is not positive")
    return TensorType(dtype, (*indices.shape, depth))


def _gathered(x: Value, indices: Value, axis: int) -> Shape:
    _require_indices(indices)
    axis = normal_axis(axis, x.rank)
    return (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _require_indices(indices: Value) -> None:
    require(indices.dtype in ("int32", "int64"), f"indices are int32 or int64, not {indices.dtype}")
