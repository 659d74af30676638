"""Indexing by tensors: gather, scatter_add, one_hot."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import DTypeName
from registry.op import op
from registry.ops.copy import cast
from registry.ops.fill import gradient_like
from registry.traits import stops
from registry.value import Value


@stops
@op
def gather(x: Value, indices: Value, *, axis: int = 0) -> TensorType:
    """Return the slices of x along `axis` at `indices`, whose axes replace that axis.

    Indices are uint8, int32 or int64 and count from 0; a negative or too large index stops the run.
    """
    ...


@gather.gradient
def gather_gradient(x: Value, indices: Value, dy: Value, *, axis: int) -> tuple[Value, None]:
    indices = cast(indices, dtype="int32") if indices.dtype == "uint8" else indices
    return scatter_add(gradient_like(x, 0.0), indices, dy, axis=axis), None


@stops
@op
def scatter_add(x: Value, indices: Value, updates: Value, *, axis: int = 0) -> TensorType:
    """Return x with `updates` added to the slices along `axis` at `indices`.

    `updates` has the type of gather(x, indices). A slice that several indices name gets the sum, added in the order of
    the indices.
    """
    ...


@scatter_add.gradient
def scatter_add_gradient(indices: Value, dy: Value, *, axis: int) -> tuple[Value, None, Value]:
    return dy, None, gather(dy, indices, axis=axis)


@stops
@op(differentiable=False)
def one_hot(indices: Value, *, depth: int, dtype: DTypeName = "float32") -> TensorType:
    """Return for each index a new last axis of `depth` zeros with a one at the index; one outside stops the run."""
    ...
