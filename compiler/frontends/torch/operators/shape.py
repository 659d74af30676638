"""Rearrangements: views, permutations, slices, pieces, padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    expanded,
    ordered,
    permuted,
    plain,
    pointwise,
    single,
    squeezed,
    transposed,
    unsqueezed,
    viewed,
)
from compiler.frontends.elements import cast_to, without_products
from compiler.frontends.extents import ONE, Extent, factored
from compiler.frontends.pieces import pad, repeated, sliced, sliced_to, split
from compiler.frontends.torch.operators.call import Call, Mapping, axis_of, on_plain, promoted
from compiler.frontends.torch.sizes import Unsized
from registry import ops


def _view(call: Call, x: Arranged, *rest: Any, **more: Any) -> Arranged:
    return viewed(x, call.shape)


def _transpose(call: Call, x: Arranged, a: int = 0, b: int = 1) -> Arranged:
    order = list(range(x.rank))
    if x.rank > 1:
        i, j = axis_of(a, x.rank), axis_of(b, x.rank)
        order[i], order[j] = order[j], order[i]
    return permuted(x, order)


def _squeeze(call: Call, x: Arranged, dims: int | Sequence[int] | None = None) -> Arranged:
    asked = range(x.rank) if dims is None else [dims] if isinstance(dims, int) else dims
    return squeezed(x, [axis_of(d, x.rank) for d in asked if x.shape[axis_of(d, x.rank)] == ONE])


def _expand(call: Call, x: Arranged, *rest: Any, **more: Any) -> Arranged:
    return expanded(x, call.shape)


def _slice(call: Call, x: Arranged, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Arranged:
    axis = axis_of(dim, x.rank)
    if call.shape == x.shape and step == 1:
        return x
    size = x.shape[axis]
    made = call.shape[axis]
    if isinstance(start, Unsized):
        raise CompileError(f"a slice that begins at {start.text}; begin at a number or at the end less a size")
    if made.symbols and step == 1 and (not isinstance(start, int) or start >= 0 or -start == made):
        return sliced_to(x, axis, made, start if isinstance(start, Extent) else Extent(start or 0))
    if size.symbols and not made.symbols:
        return sliced(x, axis, start or 0, (start or 0) + made.number * step, step)
    if size.symbols:
        raise CompileError(f"a slice of an axis with {size} elements needs a number; import without that symbol")
    first, last, _ = slice(start, end, step).indices(size.number)
    return sliced(x, axis, first, last, step)


def _select(call: Call, x: Arranged, dim: int, index: int) -> Arranged:
    axis = axis_of(dim, x.rank)
    size = x.shape[axis]
    at = index if size.symbols else index % size.number
    return squeezed(sliced(x, axis, at, at + 1), [axis])


def _split(call: Call, x: Arranged, sizes: Any = None, dim: int = 0, **more: Any) -> tuple[Arranged, ...]:
    axis = axis_of(dim, x.rank)
    return tuple(split(x, [result.shape[axis].plain() for result in call.results], axis))  # pyright: ignore[reportArgumentType]: numbers


def _unbind(call: Call, x: Arranged, dim: int = 0) -> tuple[Arranged, ...]:
    axis = axis_of(dim, x.rank)
    return tuple(squeezed(piece, [axis]) for piece in split(x, [1] * x.shape[axis].known(), axis))


def cat(call: Call, xs: Sequence[Arranged], dim: int = 0) -> Arranged:
    """Return tensors one after the other along an axis of the model."""
    xs = [x for x in xs if x.rank == len(call.shape) or x.shape != (Extent(0),)]
    axis = axis_of(dim, len(call.shape))
    xs = [x for x in promoted(xs, call.dtype) if isinstance(x, Arranged)]
    if len(xs) == 1:
        return xs[0]
    factors = factored(call.shape)
    if len(factors[axis]) == 1 and any(len(own) > 1 for own in factors):
        place = sum(len(own) for own in factors[:axis])
        return viewed(_concatenated([without_products(x) for x in xs], place), call.shape)
    return _concatenated(xs, axis)


def _concatenated(xs: Sequence[Arranged], axis: int) -> Arranged:
    lead = max(xs, key=lambda x: x.value.rank)
    order = sorted(range(lead.rank), key=lambda i: (min(lead.axes[i], default=-1), i))  # the slowest axis first
    inverse = [order.index(i) for i in range(len(order))]
    y = ops.concat(*(ordered(x, order) for x in xs), axis=inverse[axis])
    return transposed(y, inverse)


def _stack(call: Call, xs: Sequence[Arranged], dim: int = 0) -> Arranged:
    axis = axis_of(dim, len(call.shape))
    return cat(call, [unsqueezed(x, axis) for x in xs], axis)


def _widths(x: Arranged, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the widths of every axis from PyTorch's list, which begins with the last axis."""
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return [(0, 0)] * (x.rank - len(pairs)) + pairs[::-1]


def _pad(
    call: Call, x: Arranged, numbers: Sequence[int], mode: Any = "constant", value: float | None = None
) -> Arranged:
    if not isinstance(mode, str):
        mode, value = "constant", mode
    widths = _widths(x, numbers)
    if mode == "constant":
        return pad(x, widths, value or 0.0)
    function = {"reflect": ops.pad_reflect, "replicate": ops.pad_edge, "circular": ops.pad_wrap}[mode]
    x, places = single(x, range(x.rank))
    before, after = [0] * x.value.rank, [0] * x.value.rank
    for axis, place in enumerate(places):
        before[place], after[place] = widths[axis]
    y = function(x.value, before=tuple(before), after=tuple(after))
    return Arranged(y, x.axes, tuple(Extent.of(y.shape[place]) for place in places))


def count_of(x: Arranged) -> int:
    """Return the number of elements; raise CompileError if it depends on a symbol."""
    made = 1
    for extent in x.shape:
        made *= extent.known()
    return made


def _repeat(call: Call, x: Arranged, counts: Sequence[Any]) -> Arranged:
    """Return copies along the last axes, of which the counts may be more or fewer than x has."""
    given = [count if isinstance(count, Extent) else Extent(count) for count in counts]
    wide = expanded(x, (*(ONE,) * (len(given) - x.rank), *x.shape))
    return repeated(wide, [*(ONE,) * (x.rank - len(given)), *given])


def _repeat_interleave(call: Call, x: Arranged, count: int, dim: int | None = None, **more: Any) -> Arranged:
    if dim is None:
        x, dim = viewed(x, (Extent(count_of(x)),)), 0
    axis = axis_of(dim, x.rank)
    wide = unsqueezed(x, axis + 1)
    return viewed(expanded(wide, (*wide.shape[: axis + 1], Extent(count), *wide.shape[axis + 2 :])), call.shape)


def _triangle(name: str) -> Mapping:
    return on_plain(lambda call, x, offset=0: getattr(ops, name)(x, offset=offset))


def _pixel_shuffle(call: Call, x: Arranged, factor: int) -> Arranged:
    n, c, h, w = x.shape
    f = Extent(factor)
    over = c.over(f.times(f))
    assert over is not None
    x = viewed(x, (n, over, f, f, h, w))
    return viewed(permuted(x, (0, 1, 4, 2, 5, 3)), call.shape)


def _pixel_unshuffle(call: Call, x: Arranged, factor: int) -> Arranged:
    n, c, h, w = x.shape
    f = Extent(factor)
    x = viewed(x, (n, c, Extent(h.known() // factor), f, Extent(w.known() // factor), f))
    return viewed(permuted(x, (0, 1, 3, 5, 2, 4)), call.shape)


def _channel_shuffle(call: Call, x: Arranged, groups: int) -> Arranged:
    n, c, *rest = x.shape
    x = viewed(x, (n, Extent(groups), Extent(c.number // groups), *rest))
    return viewed(permuted(x, (0, 2, 1, *range(3, x.rank))), call.shape)


def _movedim(call: Call, x: Arranged, source: int | Sequence[int], target: int | Sequence[int]) -> Arranged:
    sources = [axis_of(d, x.rank) for d in ([source] if isinstance(source, int) else source)]
    targets = [axis_of(d, x.rank) for d in ([target] if isinstance(target, int) else target)]
    order = [i for i in range(x.rank) if i not in sources]
    for at, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(at, axis)
    return permuted(x, order)


def _diagonal(call: Call, x: Arranged, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Arranged:
    axes = axis_of(dim1, x.rank), axis_of(dim2, x.rank)
    return arranged(ops.diagonal(plain(x), offset=offset, axis=axes))


def _diff(call: Call, x: Arranged, n: int = 1, dim: int = -1, before: Any = None, after: Any = None) -> Arranged:
    """Return the differences of neighbours along an axis, n times."""
    axis = axis_of(dim, x.rank)
    parts = [y for y in (before, x, after) if y is not None]
    size = sum(y.shape[axis].known() for y in parts)
    if len(parts) > 1:
        shape = (*x.shape[:axis], Extent(size), *x.shape[axis + 1 :])
        whole = replace(call, results=(replace(call.results[0], shape=shape),))
        x = cat(whole, [cast_to(y, x.dtype) for y in parts], axis)
    function = ops.logical_xor if x.dtype == "bool" else ops.sub
    for k in range(min(n, size)):
        x = pointwise(function, sliced(x, axis, 1, size - k), sliced(x, axis, 0, size - k - 1))
    return x


def _meshgrid(call: Call, xs: Sequence[Arranged], indexing: str = "ij") -> tuple[Arranged, ...]:
    made: list[Arranged] = []
    for number, (x, result) in enumerate(zip(xs, call.results, strict=True)):
        axis = {0: 1, 1: 0}.get(number, number) if indexing == "xy" else number
        for _ in range(axis):
            x = unsqueezed(x, 0)
        while x.rank < len(result.shape):
            x = unsqueezed(x, x.rank)
        made.append(expanded(x, result.shape))
    return tuple(made)


def _diag(call: Call, x: Arranged, offset: int = 0) -> Arranged:
    """Return a diagonal of a matrix, or the matrix with a vector on a diagonal."""
    if x.rank == 2:
        return _diagonal(call, x, offset)
    value, size = plain(x), x.shape[0].known() + abs(offset)
    on = ops.eye.on(value.block)(shape=(size, size), offset=offset, dtype="bool")
    placed = ops.pad(value, before=(max(offset, 0),), after=(max(-offset, 0),))
    return arranged(ops.where(on, placed, 0.0 if value.dtype.startswith("float") else 0))


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.view.default": _view,
    "aten.reshape.default": _view,
    "aten._unsafe_view.default": _view,
    "aten._reshape_alias.default": _view,
    "aten.view_copy.default": _view,
    "aten.flatten.using_ints": _view,
    "aten.unflatten.int": _view,
    "aten.view_as.default": _view,
    "aten.reshape_as.default": _view,
    "aten.ravel.default": _view,
    "aten.permute.default": lambda call, x, dims: permuted(x, [axis_of(d, x.rank) for d in dims]),
    "aten.transpose.int": _transpose,
    "aten.t.default": _transpose,
    "aten.numpy_T.default": lambda call, x: permuted(x, range(x.rank)[::-1]),
    "aten.mT.default": lambda call, x: _transpose(call, x, -2, -1),
    "aten.swapaxes.default": _transpose,
    "aten.movedim.int": _movedim,
    "aten.movedim.intlist": _movedim,
    "aten.squeeze.default": _squeeze,
    "aten.squeeze.dim": _squeeze,
    "aten.squeeze.dims": _squeeze,
    "aten.unsqueeze.default": lambda call, x, dim: unsqueezed(x, axis_of(dim, x.rank + 1)),
    "aten.expand.default": _expand,
    "aten.expand_as.default": _expand,
    "aten.broadcast_to.default": _expand,
    "aten.slice.Tensor": _slice,
    "aten.narrow.default": lambda call, x, dim, start, length: _slice(call, x, dim, start, start + length),
    "aten.select.int": _select,
    "aten.split.Tensor": _split,
    "aten.unsafe_split.Tensor": _split,
    "aten.unsafe_split_with_sizes.default": _split,
    "aten.split.sizes": _split,
    "aten.split_with_sizes.default": _split,
    "aten.chunk.default": _split,
    "aten.tensor_split.sections": _split,
    "aten.unsafe_chunk.default": _split,
    "aten.unbind.int": _unbind,
    "aten.cat.default": cat,
    "aten.concat.default": cat,
    "aten.stack.default": _stack,
    "aten.constant_pad_nd.default": _pad,
    "aten.pad.default": _pad,
    "aten.reflection_pad1d.default": lambda call, x, numbers: _pad(call, x, numbers, "reflect"),
    "aten.reflection_pad2d.default": lambda call, x, numbers: _pad(call, x, numbers, "reflect"),
    "aten.replication_pad1d.default": lambda call, x, numbers: _pad(call, x, numbers, "replicate"),
    "aten.replication_pad2d.default": lambda call, x, numbers: _pad(call, x, numbers, "replicate"),
    "aten.repeat.default": _repeat,
    "aten.tile.default": _repeat,
    "aten.repeat_interleave.self_int": _repeat_interleave,
    "aten.tril.default": _triangle("tril"),
    "aten.triu.default": _triangle("triu"),
    "aten.pixel_shuffle.default": _pixel_shuffle,
    "aten.pixel_unshuffle.default": _pixel_unshuffle,
    "aten.channel_shuffle.default": _channel_shuffle,
    "aten.diagonal.default": _diagonal,
    "aten.diag.default": _diag,
    "aten.broadcast_tensors.default": lambda call, xs: tuple(
        expanded(x, result.shape) for x, result in zip(xs, call.results, strict=True)
    ),
    "aten.diff.default": _diff,
    "aten.meshgrid.indexing": _meshgrid,
    "aten.meshgrid.default": _meshgrid,
}
