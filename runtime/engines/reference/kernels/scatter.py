"""Elements by multi-dimensional indices; an index out of range stops the run before it is used."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.index import check_range, count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.kernel import Array, kernel

COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}

Numbers = tuple[int, ...]


def place_scratch(indices: TensorType, batch_axes: int) -> list[TensorType]:
    """Return scratch for `find_places`: a flat index for each row, and the numbers of the batches."""
    counts = prod(indices.static_shape[:-1]), prod(indices.static_shape[:batch_axes])
    return [TensorType("int64", (count,)) for count in counts]


@kernel(scratch=place_scratch)
@small_buffers()
def gather_nd(x: Array, indices: Array, *, batch_axes: int, out: Array, scratch: list[Array]) -> None:
    places = find_places(x.shape, indices, batch_axes, scratch)
    if places.size:
        np.take(as_parts(x, indices, batch_axes), places, 0, out.reshape(places.size, -1), "clip")


def scatter_nd_scratch(indices: TensorType, updates: TensorType, batch_axes: int, reduction: str) -> list[TensorType]:
    after = prod(updates.static_shape[indices.rank - 1 :])
    elements = [TensorType("int64", (prod(indices.static_shape[:-1]), after)), TensorType("int64", (after,))]
    return [*place_scratch(indices, batch_axes), *(elements if reduction != "set" else [])]


@kernel(scratch=scatter_nd_scratch, in_place=[(0, 0)])
@small_buffers()
def scatter_nd(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    batch_axes: int,
    reduction: str,
    out: Array,
    scratch: list[Array],
) -> None:
    """Combine elements at flat indices, one by one in row-major order: NumPy is far slower at whole parts."""
    places = find_places(x.shape, indices, batch_axes, scratch)
    np.copyto(out, x)
    if not updates.size:
        return
    if reduction == "set":
        as_parts(out, indices, batch_axes)[places] = updates.reshape(places.size, -1)
        return
    flat, inner = scratch[2:]
    count_up(inner, 1)
    np.multiply(places.reshape(-1, 1), inner.size, flat)
    np.add(flat, inner, flat)
    COMBINE[reduction].at(out.reshape(-1), flat.reshape(-1), updates.reshape(-1))


def is_last_index_scratch(indices: TensorType, shape: Numbers, batch_axes: int) -> list[TensorType]:
    count = prod(indices.static_shape[:-1])
    owners = prod(shape[: batch_axes + indices.static_shape[-1]])
    return [*place_scratch(indices, batch_axes), *(TensorType("int64", (n,)) for n in (owners, count, count))]


@kernel(scratch=is_last_index_scratch)
@small_buffers()
def is_last_index(indices: Array, *, shape: tuple[int, ...], batch_axes: int, out: Array, scratch: list[Array]) -> None:
    places = find_places(shape, indices, batch_axes, scratch)
    owners, numbers, found = scratch[2:]
    if not places.size:
        return
    count_up(numbers, 1)
    owners[places] = numbers  # the last one stays
    np.take(owners, places, 0, found, "clip")
    np.equal(found, numbers, out.reshape(-1))


def find_places(shape: tuple[int, ...], indices: Array, batch_axes: int, scratch: list[Array]) -> Array:
    """Fill the first scratch array with the row-major number of the part that each row of indices selects."""
    places, batches = scratch[:2]
    if not places.size:
        return places
    count_up(batches, 1)
    table = places.reshape(batches.size, -1)
    np.copyto(table, batches.reshape(-1, 1))
    for i in range(indices.shape[-1]):
        numbers = indices[..., i]
        check_range(numbers, shape[batch_axes + i])
        np.multiply(table, shape[batch_axes + i], table)
        rows = places.reshape(numbers.shape)
        np.add(rows, numbers, rows)
    return places


def as_parts(x: Array, indices: Array, batch_axes: int) -> Array:
    """Return the view of x with a row for each part that indices can select."""
    after = batch_axes + indices.shape[-1]
    return x.reshape(prod(x.shape[:after]), prod(x.shape[after:]))
