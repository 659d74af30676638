"""Indexing by tensors: embeddings, gathers, and positions along several axes."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    aligned,
    arranged,
    expanded,
    permuted,
    plain,
    pointwise,
    single,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import factored
from compiler.frontends.torch.constants import Constant
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of, cast_to, on_plain, without_products
from prograd_proto.dtypes import INTEGERS
from registry import ops


def _embedding(call: Call, table: Arranged, indices: Arranged, padding: int = -1, *rest: Any) -> Arranged:
    number = None if padding < 0 else padding
    return expanded(
        Arranged(
            (y := ops.embedding(plain(table), indices.value, padding_index=number)),
            (*indices.axes, (y.rank - 1,)),
            call.shape,
        ),
        call.shape,
    )


def _positive(indices: Arranged, x: Arranged, axis: int) -> Arranged:
    """Return indices that may count from the end as indices that count from the front."""
    size = x.shape[axis].number
    return pointwise(lambda v: ops.where(v < 0, v + size, v), indices)


def _checked(call: Call, index: Arranged | Constant, x: Arranged, axis: int) -> Arranged:
    if isinstance(index, Constant):
        return index.counted_from_front(x.shape[axis].number).tensor(call.block)
    if index.dtype not in INTEGERS:
        raise CompileError("an index of truth values makes a tensor whose size depends on data")
    return index if x.shape[axis].symbols else _positive(index, x, axis)


def _index(call: Call, x: Arranged, indices: Sequence[Arranged | Constant | None]) -> Arranged:
    """Return x[..., indices, ...] with NumPy's rule: adjacent indices stay in their place."""
    used = [axis for axis, index in enumerate(indices) if index is not None]
    given = [_checked(call, index, x, axis) for axis, index in enumerate(indices) if index is not None]
    if len(used) == 1:
        x, [place] = single(x, used)
        values = plain(given[0])
        y = ops.gather(x.value, values, axis=place)
        axes = _after_gather(x, used[0], place, values.rank)
        return Arranged(y, axes, call.shape)
    if any(index.dtype not in INTEGERS for index in given):
        raise CompileError("an index of truth values makes a tensor whose size depends on data")
    rest = [i for i in range(x.rank) if i not in used]
    value = plain(permuted(x, (*used, *rest)))
    values, rebuilt = aligned(given)
    whole = [plain(expanded(rebuilt(v), _broadcast_shape(given))) for v in values]
    rows = ops.concat(*(ops.unsqueeze(ops.cast(v, dtype="int64"), axis=(-1,)) for v in whole), axis=-1)
    y = arranged(ops.gather_nd(value, rows))
    count = whole[0].rank
    adjacent = used == list(range(used[0], used[0] + len(used)))
    if not adjacent or used[0] == 0:
        return y
    before = used[0]
    order = [*range(count, count + before), *range(count), *range(count + before, y.rank)]
    return permuted(y, order)


def _broadcast_shape(tensors: Sequence[Arranged]) -> tuple[Any, ...]:
    rank = max(x.rank for x in tensors)
    padded = [(*((None,) * (rank - x.rank)), *x.shape) for x in tensors]
    return tuple(
        next((e for e in extents if e is not None and e != (1, ())), (next(e for e in extents if e is not None)))
        for extents in zip(*padded, strict=True)
    )


def _after_gather(x: Arranged, axis: int, place: int, rank: int) -> tuple[tuple[int, ...], ...]:
    """Return the axes of a gather along an axis, which is replaced by those of the indices."""

    def moved(number: int) -> int:
        return number if number < place else number + rank - 1

    made: list[tuple[int, ...]] = []
    for i, own in enumerate(x.axes):
        if i == axis:
            made.extend((place + k,) for k in range(rank))
        else:
            made.append(tuple(moved(number) for number in own))
    return tuple(made)


def _index_select(call: Call, x: Arranged, dim: int, index: Arranged | Constant) -> Arranged:
    return _index(call, x, [None] * axis_of(dim, x.rank) + [index])


def _gather(call: Call, x: Arranged, dim: int, indices: Arranged, **more: Any) -> Arranged:
    axis = axis_of(dim, x.rank)
    cut = (
        expanded(x, tuple(a if i == axis else b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True))))
        if _fits(x, indices, axis)
        else x
    )
    if (
        cut is x
        and x.shape != indices.shape
        and any(a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis)
    ):
        from compiler.frontends.torch.operators.shape import sliced

        for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
            if i != axis and a != b:
                cut = sliced(cut, i, 0, b.number)
    factors = factored(indices.shape)
    if all(len(own) == 1 for own in factors) or len(factors[axis]) > 1:
        return arranged(ops.take_along_axis(plain(cut), plain(indices), axis=axis))
    fine = [without_products(each) for each in (cut, indices)]
    place = sum(len(own) for own in factors[:axis])
    return viewed(arranged(ops.take_along_axis(plain(fine[0]), plain(fine[1]), axis=place)), indices.shape)


def _fits(x: Arranged, indices: Arranged, axis: int) -> bool:
    return all(i == axis or x.held(i) == (1, ()) for i in range(x.rank))


def _one_hot(call: Call, indices: Arranged, depth: int = -1) -> Arranged:
    return arranged(ops.one_hot(plain(indices), depth=depth, dtype="int64"))


def _scatter(reduction: str) -> Mapping:
    def mapped(call: Call, x: Arranged, dim: int, indices: Arranged, source: Arranged | float, **more: Any) -> Arranged:
        axis = axis_of(dim, x.rank)
        if isinstance(source, Arranged):
            values = plain(source)
        else:
            values = ops.full.on(call.block)(
                shape=tuple(e.plain() for e in indices.shape), value=source, dtype=x.value.dtype
            )
        return arranged(ops.put_along_axis(plain(x), plain(indices), values, axis=axis, reduction=reduction))  # pyright: ignore[reportArgumentType]: one of its words

    return mapped


def _index_put(call: Call, x: Arranged, indices: Sequence[Any], values: Arranged, accumulate: bool = False) -> Arranged:
    """Return x with the rows at the indices replaced; a mask of the whole chooses elements."""
    if len(indices) == 1 and isinstance(indices[0], Arranged) and indices[0].dtype == "bool":
        mask = indices[0]
        for _ in range(x.rank - mask.rank):
            mask = unsqueezed(mask, mask.rank)
        if values.rank == 0:
            return pointwise(ops.where, mask, cast_to(values, x.dtype), x)
    used = [index for index in indices if index is not None]
    if len(used) != len(indices):
        raise CompileError("index_put with axes left out is not imported")
    given = [_checked(call, index, x, axis) for axis, index in enumerate(used)]
    whole = [plain(expanded(index, _broadcast_shape(given))) for index in given]
    rows = ops.concat(*(ops.unsqueeze(ops.cast(v, dtype="int64"), axis=(-1,)) for v in whole), axis=-1)
    shape = (*_broadcast_shape(given), *x.shape[len(used) :])
    updates = plain(expanded(cast_to(values, x.dtype), shape))
    return arranged(ops.scatter_nd(plain(x), rows, updates, reduction="add" if accumulate else "set"))


SEES_CONSTANTS: Final = {"aten.index.Tensor", "aten.index_select.default", "aten._unsafe_index.Tensor"}
"""Operators whose mappings look at the elements of constants."""

OPERATORS: Final[dict[str, Mapping]] = {
    "aten.embedding.default": _embedding,
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.take_along_dim.default": lambda call, x, indices, dim: _gather(call, x, dim, indices),
    "aten.one_hot.default": _one_hot,
    "aten.scatter.src": _scatter("set"),
    "aten.scatter.value": _scatter("set"),
    "aten.scatter_add.default": _scatter("add"),
    "aten.index_put.default": _index_put,
    "aten.bucketize.Tensor": on_plain(lambda call, x, edges, **more: _bucketized(x, edges, **more)),
}


def _bucketized(x: Any, edges: Any, right: bool = False, out_int32: bool = False) -> Any:
    """Return the number of edges below each element."""
    compare = ops.greater_equal if right else ops.greater
    return ops.sum(compare(ops.unsqueeze(x, axis=(-1,)), edges), axis=(-1,))
