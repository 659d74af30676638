"""NumPy's basic indexing of a Value: integers, slices, `...` and None, as one slice and one reshape."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, NamedTuple

from prograd_proto.result_types.shapes import size_known
from registry.errors import Located, OpError
from registry.table import OPS

if TYPE_CHECKING:
    from registry.value import Index, Value


def take(x: Value, key: tuple[Index, ...]) -> Value:
    """Return `x[key]`; raise OpError if an index is out of range or a sliced axis has no size yet."""
    with Located(x.block.line):
        return _taken(x, key)


def _taken(x: Value, key: tuple[Index, ...]) -> Value:
    cuts: list[_Cut] = []
    shape: list[int | str] = []
    axis = 0
    for index in _without_ellipsis(x, key):
        if index is None:
            shape.append(1)
            continue
        if index != slice(None):
            cuts.append(_cut(x, axis, index))
        if isinstance(index, slice):
            shape.append(cuts[-1].length if cuts and cuts[-1].axis == axis else x.shape[axis])
        axis += 1
    y = x
    if cuts:
        axes, starts, stops, strides, _ = zip(*cuts, strict=True)
        y = OPS["slice"](x, axis=axes, starts=starts, stops=stops, strides=strides)
    return y if y.shape == tuple(shape) else OPS["reshape"](y, shape=tuple(shape))


class _Cut(NamedTuple):
    axis: int
    start: int
    stop: int
    stride: int
    length: int


def _cut(x: Value, axis: int, index: int | slice) -> _Cut:
    size = size_known(x.shape[axis], f"axis {axis} of {x!r}")
    if isinstance(index, slice):
        start, stop, stride = index.indices(size)
        return _Cut(axis, start, stop, stride, len(range(start, stop, stride)))
    if not -size <= index < size:
        raise OpError(f"index {index} is out of range for axis {axis} of {x!r}")
    return _Cut(axis, index % size, index % size + 1, 1, 1)


def _without_ellipsis(x: Value, key: tuple[Index, ...]) -> list[int | slice | None]:
    """Return one index for each axis, and the Nones; `...` and missing axes become whole slices."""
    indices = [index if isinstance(index, slice | EllipsisType) else _number(x, index) for index in key]
    rest = x.rank - sum(isinstance(index, int | slice) for index in indices)
    if rest < 0:
        raise OpError(f"{x.rank - rest} indices are too many for {x!r}")
    if indices.count(...) > 1:
        raise OpError(f"more than one ... in the index of {x!r}")
    at = indices.index(...) if ... in indices else len(indices)
    whole: list[int | slice | EllipsisType | None] = [slice(None)] * rest
    filled = [*indices[:at], *whole, *indices[at + 1 :]]
    return [index for index in filled if not isinstance(index, EllipsisType)]


def _number(x: Value, index: object) -> int | None:
    if index is None:
        return None
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise OpError(f"{index!r} cannot index {x!r}; use numbers, slices, ... and None, or ops.gather")
    return index.__index__()  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue, reportUnknownMemberType]: just checked
