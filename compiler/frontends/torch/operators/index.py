"""Indexing by tensors: embeddings, gathers, and positions along several axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    expanded,
    permuted,
    plain,
    pointwise,
    single,
    transposed,
    unsqueezed,
    viewed,
    with_broadcast,
)
from compiler.frontends.elements import cast_to, without_products
from compiler.frontends.extents import ONE, Extent, factored, product
from compiler.frontends.pieces import after_gather, from_front, sliced
from compiler.frontends.torch.constants import Constant
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of
from compiler.frontends.torch.operators.shape import cat
from prograd_proto.dtypes import INTEGERS
from registry import Value, ops


def _embedding(
    call: Call, table: Arranged, indices: Arranged, padding: int = -1, by_frequency: bool = False, *rest: Any
) -> Arranged:
    _require_no_frequencies(by_frequency)
    number = None if padding < 0 else padding
    return expanded(
        Arranged(
            (y := ops.embedding(plain(table), indices.value, padding_index=number)),
            (*indices.axes, (y.rank - 1,)),
            call.shape,
        ),
        call.shape,
    )


def _require_no_frequencies(by_frequency: bool) -> None:
    if by_frequency:
        raise CompileError("scale_grad_by_freq=True divides gradients by counts of codes, which no operator does")


def _checked(call: Call, index: Arranged | Constant, x: Arranged, axis: int) -> Arranged:
    extent = x.shape[axis]
    if isinstance(index, Constant):
        if extent.symbols and index.is_negative:
            return from_front(index.tensor(call.block), extent)
        return index.counted_from_front(extent).tensor(call.block)
    if index.dtype not in INTEGERS:
        raise CompileError(
            "a mask of data behind other axes picks rows whose number no shape states; use torch.where(mask, x, 0)"
        )
    return from_front(index, extent)


def _index(call: Call, x: Arranged | Constant, indices: Sequence[Arranged | Constant | None]) -> Arranged:
    """Return x[..., indices, ...] with NumPy's rule: adjacent indices stay in their place."""
    x = call.tensor(x)
    used = [axis for axis, index in enumerate(indices) if index is not None]
    if (whole := _all_positions(call, x, indices)) is not None:
        return whole
    given = [_checked(call, index, x, axis) for axis, index in enumerate(indices) if index is not None]
    if len(used) == 1:
        x, [place] = single(x, used)
        fine = without_products(given[0])
        values = plain(fine)
        y = ops.gather(x.value, values, axis=place)
        axes = after_gather(x, used[0], place, values.rank)
        shape = (*x.shape[: used[0]], *fine.shape, *x.shape[used[0] + 1 :])
        return viewed(Arranged(y, axes, shape), call.shape)
    rest = [i for i in range(x.rank) if i not in used]
    value = plain(permuted(x, (*used, *rest)))
    rows, shape = _rows(given)
    y = arranged(ops.gather_nd(value, rows))
    count, before = len(shape), _axes_before(used)
    order = [*range(count, count + before), *range(count), *range(count + before, y.rank)]
    return permuted(y, order)


def _all_positions(call: Call, x: Arranged, indices: Sequence[Arranged | Constant | None]) -> Arranged | None:
    """Return a tensor whose elements are asked for one after the other along axes of their own; None otherwise.

    Masks are written so: x[arange(rows)[:, None], arange(columns)] is x.
    """
    wide = [_counted_axis(index, extent) for index, extent in zip(indices, x.shape, strict=False)]
    found = [axis for axis in wide if axis is not None]
    if len(found) < x.rank or len({*found}) < len(found):
        return None
    rank = len(call.shape)
    order = [found.index(axis - rank) if axis - rank in found else None for axis in range(rank)]
    made = permuted(x, [axis for axis in order if axis is not None])
    for axis, own in enumerate(order):
        made = made if own is not None else unsqueezed(made, axis)
    return expanded(made, call.shape)


def _counted_axis(index: Arranged | Constant | None, extent: Extent) -> int | None:
    """Return the axis, from the end, along which an index counts all positions of an extent; None if it does not."""
    if not isinstance(index, Constant):
        return None
    wide = [axis for axis, own in enumerate(index.shape) if own != ONE]
    if [index.shape[axis] for axis in wide] != [extent]:
        return None
    counted = all(bool((trial.reshape(-1).diff() == 1).all()) and not trial.reshape(-1)[0] for trial in index.trials)
    return wide[0] - index.rank if counted else None


def _rows(indices: Sequence[Arranged]) -> tuple[Value, tuple[Any, ...]]:
    """Return indices for several axes as rows of positions along a last axis, and the shape before that."""
    shape = _broadcast_shape(indices)
    whole = (ops.cast(plain(expanded(v, shape)), dtype="int64") for v in indices)
    return ops.concat(*(ops.unsqueeze(v, axis=(-1,)) for v in whole), axis=-1), shape


def _broadcast_shape(tensors: Sequence[Arranged]) -> tuple[Any, ...]:
    rank = max(x.rank for x in tensors)
    padded = [(*((None,) * (rank - x.rank)), *x.shape) for x in tensors]
    return tuple(
        next((e for e in extents if e is not None and e != (1, ())), (next(e for e in extents if e is not None)))
        for extents in zip(*padded, strict=True)
    )


def _gather(call: Call, x: Arranged, dim: int, indices: Arranged, **more: Any) -> Arranged:
    axis = axis_of(dim, x.rank)
    pairs = list(enumerate(zip(x.shape, indices.shape, strict=True)))
    if all(i == axis or x.held(i) == (1, ()) for i in range(x.rank)):
        cut = expanded(x, tuple(a if i == axis else b for i, (a, b) in pairs))
    else:
        cut = x
        for i, (a, b) in pairs:
            if i != axis and a != b:
                cut = sliced(cut, i, 0, b.known())
    return _along_axis(
        lambda place, *values: ops.take_along_axis(*values, axis=place), indices.shape, axis, cut, indices
    )


def _take_along(call: Call, x: Arranged, indices: Arranged, dim: int | None = None) -> Arranged:
    """Return a gather whose operands broadcast along the other axes; without an axis, one of all elements."""
    if dim is None:
        x, indices, dim = viewed(x, (product(x.shape),)), viewed(indices, (product(indices.shape),)), 0
    axis = axis_of(dim, x.rank)
    x = expanded(
        x, tuple(own if i == axis else wide for i, (own, wide) in enumerate(zip(x.shape, call.shape, strict=True)))
    )
    return _gather(call, x, axis, expanded(indices, call.shape))


def _along_axis(function: Callable[..., Value], shape: Sequence[Extent], axis: int, *operands: Arranged) -> Arranged:
    """Return a function along an axis of equally ranked tensors; an axis of 2 * batch elements, say, becomes two.

    The function gets the number of the axis and the tensors.
    """
    factors = factored(operands[0].shape)
    if all(len(own) == 1 for own in factors) or len(factors[axis]) > 1:
        return arranged(function(axis, *map(plain, operands)))
    place = sum(len(own) for own in factors[:axis])
    return viewed(arranged(function(place, *(plain(without_products(x)) for x in operands))), shape)


def _one_hot(call: Call, indices: Arranged, depth: int = -1) -> Arranged:
    y = ops.one_hot(plain(without_products(indices)), depth=depth, dtype="int64")
    return viewed(arranged(y), call.shape)


def _masked_select(call: Call, *operands: Any) -> Arranged:
    """Stand for the walk, which takes the elements for those of x[mask]."""
    raise CompileError("selects by a mask in a way that is not imported")


def _scatter(reduction: str) -> Mapping:
    def mapped(call: Call, x: Arranged, dim: int, indices: Arranged, source: Arranged | float, **more: Any) -> Arranged:
        axis = axis_of(dim, x.rank)
        if not isinstance(source, Arranged):
            number = ops.full.on(call.block)(shape=(1,) * x.rank, value=source, dtype=x.value.dtype)
            source = expanded(arranged(number), indices.shape)
        return _scattered(call, x, axis, indices, source, reduction)

    return mapped


def _scattered(call: Call, x: Arranged, axis: int, indices: Arranged, source: Arranged, reduction: str) -> Arranged:
    """Return x with elements put along an axis; indices may be shorter than x elsewhere, and than the source."""
    for i, extent in enumerate(indices.shape):
        source = source if source.shape[i] == extent else sliced(source, i, 0, extent.known())
    part, short = x, [i for i, extent in enumerate(indices.shape) if i != axis and extent != x.shape[i]]
    for i in short:
        part = sliced(part, i, 0, indices.shape[i].known())

    def put(place: int, *values: Value) -> Value:
        return ops.put_along_axis(*values, axis=place, reduction=reduction)  # pyright: ignore[reportArgumentType]: one of its words

    made = _along_axis(put, part.shape, axis, part, indices, cast_to(source, x.dtype))
    for count, i in enumerate(short):
        rest = sliced(x, i, indices.shape[i].known(), x.shape[i].known())
        for other in short[count + 1 :]:
            rest = sliced(rest, other, 0, indices.shape[other].known())
        made = cat(call, [made, rest], i)
    return made


def _scatter_reduce(
    call: Call, x: Arranged, dim: int, indices: Arranged, source: Arranged, how: str, include_self: bool = True
) -> Arranged:
    """Return x with elements combined along an axis; without itself, x begins there at the neutral element."""
    axis = axis_of(dim, x.rank)
    name, neutral = _reducer(how)
    if not include_self:
        start = arranged(ops.full.on(call.block)(shape=(), value=neutral, dtype=x.value.dtype))
        x = _scattered(call, x, axis, indices, expanded(start, indices.shape), "set")
    made = _scattered(call, x, axis, indices, source, name)
    if how != "mean":
        return made
    zero, one = (arranged(ops.full.on(call.block)(shape=(), value=n, dtype=x.value.dtype)) for n in (0.0, 1.0))
    base = expanded(one if include_self else zero, x.shape)
    counts = _scattered(call, with_broadcast(base, range(x.rank)), axis, indices, expanded(one, indices.shape), "add")
    return pointwise(lambda total, count: total / ops.maximum(count, 1.0), made, counts)


def _index_reduce(
    call: Call, x: Arranged, dim: int, index: Arranged, source: Arranged, how: str, include_self: bool = True
) -> Arranged:
    axis = axis_of(dim, x.rank)
    along = viewed(index, [*[Extent(1)] * axis, *index.shape, *[Extent(1)] * (x.rank - axis - 1)])
    return _scatter_reduce(call, x, axis, expanded(along, source.shape), source, how, include_self)


def _index_add(call: Call, x: Arranged, dim: int, index: Arranged, source: Arranged, alpha: float = 1) -> Arranged:
    scaled = source if alpha == 1 else pointwise(lambda v: v * alpha, source)
    return _index_put(call, x, [None] * axis_of(dim, x.rank) + [index], scaled, accumulate=True)


def _reducer(how: str) -> tuple[str, float]:
    """Return the reduction of put_along_axis for one of PyTorch, and its neutral element."""
    if how in ("amax", "amin"):
        return how[1:], -math.inf if how == "amax" else math.inf
    return ("mul", 1.0) if how == "prod" else ("add", 0.0)


def _index_put(call: Call, x: Arranged, indices: Sequence[Any], values: Arranged, accumulate: bool = False) -> Arranged:
    """Return x with the rows at the indices replaced; a mask of the whole chooses elements."""
    if len(indices) == 1 and isinstance(indices[0], Arranged) and indices[0].dtype == "bool":
        mask = indices[0]
        for _ in range(x.rank - mask.rank):
            mask = unsqueezed(mask, mask.rank)
        if values.rank == 0:
            return pointwise(ops.where, mask, cast_to(values, x.dtype), x)
    used = [axis for axis, index in enumerate(indices) if index is not None]
    rest = [axis for axis in range(x.rank) if axis not in used]
    given = [_checked(call, indices[axis], x, axis) for axis in used]
    rows, shape = _rows(given)
    order = [*used, *rest]
    updates = _updates(expanded(cast_to(values, x.dtype), _indexed_shape(x, used, shape)), used, len(shape))
    how = "add" if accumulate else "set"
    y = ops.scatter_nd(plain(permuted(x, order)), rows, updates, reduction=how)
    return transposed(y, [order.index(axis) for axis in range(x.rank)])


def _axes_before(used: Sequence[int]) -> int:
    """Return the number of axes before those of the indices, which come first unless they are for adjacent axes."""
    return used[0] if list(used) == list(range(used[0], used[0] + len(used))) else 0


def _indexed_shape(x: Arranged, used: Sequence[int], shape: Sequence[Extent]) -> tuple[Extent, ...]:
    rest = [x.shape[axis] for axis in range(x.rank) if axis not in used]
    before = _axes_before(used)
    return (*rest[:before], *shape, *rest[before:])


def _updates(values: Arranged, used: Sequence[int], count: int) -> Value:
    """Return values of x[indices] with the axes of the indices first."""
    before = _axes_before(used)
    order = [*range(before, before + count), *range(before), *range(before + count, values.rank)]
    return plain(permuted(values, order))


def _embedding_bag(
    call: Call,
    table: Arranged | Constant,
    indices: Arranged | Constant,
    offsets: Arranged | Constant,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Arranged | Constant | None = None,
    includes_last: bool = False,
    padding: int = -1,
) -> tuple[Arranged, None, None, None]:
    """Return sums, means or maxima of bags of equal lengths, as rows of two axes have them."""
    _require_no_frequencies(by_frequency)
    table, indices = map(call.tensor, (table, indices))
    size = _bag_size(offsets, includes_last)
    bags = None if size is None else indices.shape[0].over(Extent(size))
    if bags is None or size is None:
        raise CompileError("bags of unequal lengths are not imported; give the codes as rows of two axes")
    codes = plain(viewed(indices, (bags, Extent(size))))
    rows = ops.embedding(plain(table), codes, padding_index=None if padding < 0 else padding)
    if weights is not None:
        rows = rows * ops.unsqueeze(plain(viewed(call.tensor(weights), (bags, Extent(size)))), axis=(-1,))
    if padding >= 0 and mode:
        raise CompileError("bags with padding_idx are imported for mode='sum'")
    return arranged((ops.sum, ops.mean, ops.max)[mode](rows, axis=(1,))), None, None, None


def _bag_size(offsets: Arranged | Constant, includes_last: bool) -> int | None:
    """Return the length of all bags; None if they differ or are known only when the module runs."""
    if not isinstance(offsets, Constant) or includes_last:
        return None
    steps = {int(step) for trial in offsets.trials for step in trial.diff()}
    begins = all(not trial[0] for trial in offsets.trials if len(trial))
    return steps.pop() if len(steps) == 1 and begins else None


SEES_CONSTANTS: Final = {"aten.index.Tensor", "aten.index_select.default", "aten._unsafe_index.Tensor",
                         "aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"}  # fmt: skip
"""Operators whose mappings look at the elements of constants."""

OPERATORS: Final[dict[str, Mapping]] = {
    "aten.embedding.default": _embedding,
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.index_select.default": lambda call, x, dim, index: _index(call, x, [None] * axis_of(dim, x.rank) + [index]),
    "aten.masked_select.default": _masked_select,
    "aten.gather.default": _gather,
    "aten.take_along_dim.default": _take_along,
    "aten.one_hot.default": _one_hot,
    "aten.scatter.src": _scatter("set"),
    "aten.scatter.value": _scatter("set"),
    "aten.scatter_add.default": _scatter("add"),
    "aten.scatter_reduce.two": _scatter_reduce,
    "aten.index_put.default": _index_put,
    "aten._unsafe_index_put.default": _index_put,
    "aten.index_copy.default": lambda call, x, dim, index, source: _index_put(
        call, x, [None] * axis_of(dim, x.rank) + [index], source
    ),
    "aten.index_reduce.default": _index_reduce,
    "aten.index_add.default": _index_add,
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag,
}
