"""Rearrangements of elements: reshape, transpose, slice, pad, split, concat."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.shapes import normal_axis, require_equal_dtypes, require_whole, resolve_reshape, size_known
from registry.spellings import Axis, as_tuple
from registry.traits import copies, exact, grows, repeats
from registry.value import Value


@copies
@repeats
@exact
@op(halves=True)
def reshape(x: Value, *, shape: Shape) -> TensorType:
    """Return x in another shape, in row-major order; one extent may be -1 and follows from the others."""
    return TensorType(x.dtype, resolve_reshape(x.shape, shape))


@reshape.written
def reshape_written(x: Value, *, shape: Shape) -> dict[str, Shape]:
    return {"shape": resolve_reshape(x.shape, shape)}


@reshape.gradient
def reshape_gradient(x: Value, dy: Value) -> Value:
    return reshape(dy, shape=x.shape)


@repeats
@exact
@op(halves=True)
def transpose(x: Value, *, axis: Axis = ()) -> TensorType:
    """Return x with its axes permuted: axis i of the result is axis `axis[i]` of x; () reverses them."""
    return TensorType(x.dtype, tuple(x.shape[each] for each in _permutation(x, as_tuple(axis))))


@transpose.written
def transpose_written(x: Value, *, axes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"axes": _permutation(x, axes)}


@transpose.gradient
def transpose_gradient(dy: Value, *, axes: tuple[int, ...]) -> Value:
    return transpose(dy, axis=tuple(axes.index(i) for i in range(dy.rank)))


@exact
@op(halves=True)
def slice(
    x: Value,
    *,
    axis: Axis,
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> TensorType:
    """Return the positions range(start, stop, stride) along each axis of `axis`, and the other axes whole.

    All positions lie within the axis: none is counted from the end or clipped, and a negative stride runs down to a
    stop of -1 or more. `x[2:5, ::-1]` is the Python notation.
    """
    return TensorType(x.dtype, _sliced(x.shape, as_tuple(axis), starts, stops, strides))


@slice.gradient
def slice_gradient(
    x: Value,
    dy: Value,
    *,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> Value:
    return unslice(dy, shape=x.shape, axis=axes, starts=starts, stops=stops, strides=strides)


@exact
@grows
@op(halves=True)
def unslice(
    x: Value,
    *,
    shape: Shape,
    axis: Axis,
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> TensorType:
    """Return zeros of `shape` with x at the positions that `slice` reads: the adjoint of slice."""
    whole = _sliced(shape, as_tuple(axis), starts, stops, strides)
    require(x.shape == whole, f"the slice has the shape {list(whole)}, x {list(x.shape)}")
    return TensorType(x.dtype, shape)


@unslice.gradient
def unslice_gradient(
    dy: Value,
    *,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> Value:
    return slice(dy, axis=axes, starts=starts, stops=stops, strides=strides)


@copies
@exact
@grows
@op(halves=True)
def pad(x: Value, *, before: tuple[int, ...], after: tuple[int, ...], value: float = 0.0) -> TensorType:
    """Return x with `before[i]` and `after[i]` elements of `value` on axis i.

    A value with fractions fits floats only.
    """
    require(len(before) == len(after) == x.rank, f"before and after need {x.rank} widths each, one per axis")
    require(min((*before, *after), default=0) >= 0, "a width is negative; use slice to cut")
    require_whole(x, value)
    extents = zip(x.shape, before, after, strict=True)
    return TensorType(
        x.dtype,
        tuple(d if i == j == 0 else i + size_known(d, "a padded extent") + j for d, i, j in extents),
    )


@pad.gradient
def pad_gradient(x: Value, dy: Value, *, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    axes = tuple(axis for axis in range(x.rank) if before[axis] or after[axis])
    starts = tuple(before[axis] for axis in axes)
    stops = tuple(before[axis] + size_known(x.shape[axis], "a padded extent") for axis in axes)
    return slice(dy, axis=axes, starts=starts, stops=stops, strides=(1,) * len(axes))


@op(halves=True)
def split(x: Value, *, sizes: tuple[int, ...], axis: int = 0) -> list[TensorType]:
    """Return consecutive pieces of x with these sizes along `axis`; the sizes sum to its extent."""
    axis = normal_axis(axis, x.rank)
    size = size_known(x.shape[axis], "the extent of a split axis")
    total = 0
    for piece in sizes:
        require(piece >= 0, f"the size {piece} is negative")
        total += piece
    require(len(sizes) > 0, "sizes is empty")
    require(total == size, f"the sizes make {total}, axis {axis} has {size}")
    return [TensorType(x.dtype, (*x.shape[:axis], piece, *x.shape[axis + 1 :])) for piece in sizes]


@split.gradient
def split_gradient(x: Value, dy: list[Value | None], *, sizes: tuple[int, ...], axis: int) -> Value:
    """Return the gradient of split; a piece without gradient becomes zero padding of its neighbour."""
    axis = normal_axis(axis, x.rank)
    last = [piece is not None for piece in dy].count(True) - 1
    pieces: list[Value] = []
    gap = 0
    for i, piece in enumerate(dy):
        if piece is None:
            gap += sizes[i]
            continue
        rest = 0
        for unused in sizes[i + 1 :] if len(pieces) == last else ():
            rest += unused
        pieces.append(_padded(piece, axis, gap, rest))
        gap = 0
    return concat(*pieces, axis=axis) if len(pieces) > 1 else pieces[0]


@exact
@op(halves=True)
def concat(*xs: Value, axis: int = 0) -> TensorType:
    """Return the tensors concatenated along `axis`; their other extents are equal."""
    require_equal_dtypes(*(x.type for x in xs))
    first = xs[0]
    axis = normal_axis(axis, first.rank)
    total = 0
    for x in xs:
        others = (*x.shape[:axis], *x.shape[axis + 1 :])
        same = x.rank == first.rank and others == (*first.shape[:axis], *first.shape[axis + 1 :])
        require(same, f"{x.type} and {first.type} differ beside axis {axis}")
        total += size_known(x.shape[axis], "the extent of a joined axis")
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


@concat.gradient
def concat_gradient(xs: list[Value], dy: Value, *, axis: int) -> list[Value]:
    sizes = tuple(size_known(x.shape[axis], "the extent of a joined axis") for x in xs)
    return split(dy, sizes=sizes, axis=axis)


def _permutation(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    if not axes:
        return tuple(reversed(range(x.rank)))
    normal = tuple(normal_axis(axis, x.rank) for axis in axes)
    require(sorted(normal) == list(range(x.rank)), f"axes {axes} do not name each of the {x.rank} axes once")
    return normal


def _sliced(
    shape: Shape,
    axes: tuple[int, ...],
    starts: tuple[int, ...],
    stops: tuple[int, ...],
    strides: tuple[int, ...],
) -> Shape:
    counts = (len(axes), len(starts), len(stops), len(strides))
    require(len(set(counts)) == 1, f"axes, starts, stops and strides have {counts} elements; make them equal")
    require(len(set(axes)) == len(axes), f"axes {axes} name an axis twice")
    new = list(shape)
    for axis, start, stop, stride in zip(axes, starts, stops, strides, strict=True):
        require(0 <= axis < len(shape), f"axis {axis} is out of range for rank {len(shape)}")
        size = size_known(shape[axis], "the extent of a sliced axis")
        require(stride != 0, "a stride is 0")
        taken = range(start, stop, stride)
        inside = not taken or (0 <= taken[0] < size and 0 <= taken[-1] < size)
        require(inside, f"axis {axis} has {size} elements; {start}:{stop}:{stride} leaves it")
        new[axis] = len(taken)
    return tuple(new)


def _padded(x: Value, axis: int, before: int, after: int) -> Value:
    if not before and not after:
        return x
    widths = [(before, after) if i == axis else (0, 0) for i in range(x.rank)]
    return pad(x, before=tuple(i for i, _ in widths), after=tuple(j for _, j in widths))
