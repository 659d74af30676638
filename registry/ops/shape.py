"""Rearrangements of elements: reshape, transpose, slice, pad, split, concat."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import (
    normal_axis,
    resolve_reshape,
    size_known,
)
from prograd_proto.tensor_types import Shape
from registry.errors import require
from registry.op import op
from registry.spellings import Axis
from registry.traits import copies, exact, grows, repeats
from registry.value import Value


@copies
@repeats
@exact
@op
def reshape(x: Value, *, shape: Shape) -> TensorType:
    """Return x in another shape, in row-major order; one extent may be -1 and follows from the others."""
    ...


@reshape.written
def reshape_written(x: Value, *, shape: Shape) -> dict[str, Shape]:
    return {"shape": resolve_reshape(x.shape, shape)}


@reshape.gradient
def reshape_gradient(x: Value, dy: Value) -> Value:
    return reshape(dy, shape=x.shape)


@repeats
@exact
@op
def transpose(x: Value, *, axis: Axis = ()) -> TensorType:
    """Return x with its axes permuted: axis i of the result is axis `axis[i]` of x; () reverses them."""
    ...


@transpose.written
def transpose_written(x: Value, *, axes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"axes": _permutation(x, axes)}


@transpose.gradient
def transpose_gradient(dy: Value, *, axes: tuple[int, ...]) -> Value:
    return transpose(dy, axis=tuple(axes.index(i) for i in range(dy.rank)))


@exact
@repeats
@op
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
    ...


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
@op
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
    ...


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
@op
def pad(x: Value, *, before: tuple[int, ...], after: tuple[int, ...], value: float = 0.0) -> TensorType:
    """Return x with `before[i]` and `after[i]` elements of `value` on axis i.

    A value with fractions fits floats only.
    """
    ...


@pad.gradient
def pad_gradient(x: Value, dy: Value, *, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
    axes = tuple(axis for axis in range(x.rank) if before[axis] or after[axis])
    starts = tuple(before[axis] for axis in axes)
    stops = tuple(before[axis] + size_known(x.shape[axis], "a padded extent") for axis in axes)
    return slice(dy, axis=axes, starts=starts, stops=stops, strides=(1,) * len(axes))


@repeats
@op
def split(x: Value, *, sizes: tuple[int, ...], axis: int = 0) -> list[TensorType]:
    """Return consecutive pieces of x with these sizes along `axis`; the sizes sum to its extent."""
    ...


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
@op
def concat(*xs: Value, axis: int = 0) -> TensorType:
    """Return the tensors concatenated along `axis`; their other extents are equal."""
    ...


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


def _padded(x: Value, axis: int, before: int, after: int) -> Value:
    if not before and not after:
        return x
    widths = [(before, after) if i == axis else (0, 0) for i in range(x.rank)]
    return pad(x, before=tuple(i for i, _ in widths), after=tuple(j for _, j in widths))
