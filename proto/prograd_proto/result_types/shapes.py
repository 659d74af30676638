"""Rules and checks of shapes for type inference; extents are sizes or symbols."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Protocol, cast

from prograd_proto.dtypes import FLOATS, ITEM_BYTES, REALS, DTypeName, holds
from prograd_proto.errors import OpError, require
from prograd_proto.tensor_types import Shape, TensorType


class Typed(Protocol):
    """A tensor or its type."""

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        ...

    @property
    def shape(self) -> Shape:
        """The extents; a string is a symbol that compiling binds."""
        ...

    @property
    def rank(self) -> int:
        """The number of axes."""
        ...


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the common shape under NumPy's rule; raise OpError where extents differ and neither is 1."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(_broadcast_extent(extents, shapes) for extents in zip(*padded, strict=True))


def broadcast_type(*operands: Typed, among: Collection[str] = tuple(ITEM_BYTES)) -> TensorType:
    """Return the type of a pointwise result: equal dtypes out of `among`, broadcast shapes."""
    require_equal_dtypes(*operands)
    require_dtype(operands[0], among)
    return TensorType(operands[0].dtype, broadcast_shapes(*(x.shape for x in operands)))


def require_equal_dtypes(*operands: Typed) -> None:
    """Raise OpError unless all dtypes are the same: nothing is promoted silently."""
    dtypes = list(dict.fromkeys(x.dtype for x in operands))
    require(len(dtypes) == 1, f"dtypes differ: {' and '.join(dtypes)}; cast one of them")


def factor_sum_dtype(*factors: Typed) -> DTypeName:
    """Return the dtype of sums of products of factors of one dtype; raise OpError unless they are floats.

    Products of bfloat16 numbers are summed in float32.
    """
    require_equal_dtypes(*factors)
    if factors[0].dtype == "bfloat16":
        return "float32"
    require_float(factors[0])
    return cast(DTypeName, factors[0].dtype)


def require_float(x: Typed) -> None:
    """Raise OpError unless x is float32 or float64."""
    require_dtype(x, FLOATS)


def require_dtype(x: Typed, among: Collection[str]) -> None:
    """Raise OpError unless the dtype of x is one of those."""
    named = " or ".join(dtype for dtype in ITEM_BYTES if dtype in among)
    require(x.dtype in among, f"needs {named}, not {x.dtype}; cast it first")


def require_whole(x: Typed, number: float) -> None:
    """Raise OpError unless the dtype of x can hold the number."""
    whole = number == number // 1
    require(x.dtype in REALS or whole, f"{number} is not a whole number, as {x.dtype} needs")
    require(holds(x.dtype, number), f"the value {number:g} is no {x.dtype}")


def normal_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front; raise OpError if it is out of range."""
    require(-rank <= axis < rank, f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def normal_axes(axes: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front and sorted; an empty tuple stands for all axes."""
    axes = (axes,) if isinstance(axes, int) else axes
    if not axes:
        return tuple(range(rank))
    normal = sorted(normal_axis(axis, rank) for axis in axes)
    require(len(set(normal)) == len(normal), f"axes {axes} name an axis twice")
    return tuple(normal)


def size_known(extent: int | str, what: str) -> int:
    """Return the extent as a number; raise OpError for a symbol, which only compiling binds."""
    if isinstance(extent, str):
        raise OpError(f"{what} is the symbol {extent!r}; here it must be a number")
    return extent


def same_count(old: Shape, new: Shape) -> bool:
    """Return True if both shapes have equally many elements for every size of their symbols."""
    if 0 in old or 0 in new:
        return 0 in old and 0 in new
    return _factors(old) == _factors(new)


def resolve_reshape(old: Shape, new: Shape) -> Shape:
    """Return `new` with its -1 replaced by the extent that makes the counts equal; raise OpError if none does."""
    require(sum(extent == -1 for extent in new) <= 1, f"shape {new} has more than one -1")
    if -1 in new:
        new = tuple(_missing_extent(old, new) if extent == -1 else extent for extent in new)
    require_same_count(old, new)
    return new


def require_same_count(old: Shape, new: Shape) -> None:
    """Raise OpError unless both shapes have equally many elements."""
    require(
        same_count(old, new),
        f"{show_shape(old)} does not reshape to {show_shape(new)}: the numbers of elements differ",
    )


def joined_extent(extents: Shape) -> int | str:
    """Return the extent of these axes merged: a number, or a symbol if all other extents are 1; else raise OpError."""
    wide = [extent for extent in extents if extent != 1]
    if len(wide) == 1:
        return wide[0]
    return prod(size_known(extent, "one of several extents to join") for extent in wide)


def show_shape(shape: Shape) -> str:
    """Return a shape as text, as in "[batch, 10]"."""
    return f"[{', '.join(map(str, shape))}]"


def _broadcast_extent(extents: tuple[int | str, ...], shapes: tuple[Shape, ...]) -> int | str:
    wide = list(dict.fromkeys(extent for extent in extents if extent != 1))
    if len(wide) > 1:
        shown = " and ".join(show_shape(shape) for shape in shapes)
        raise OpError(f"shapes {shown} do not broadcast: {wide[0]} is not {wide[1]}")
    return wide[0] if wide else 1


def _factors(shape: Shape) -> tuple[int, list[str]]:
    return prod(d for d in shape if isinstance(d, int)), sorted(d for d in shape if isinstance(d, str))


def _missing_extent(old: Shape, new: Shape) -> int | str:
    rest = tuple(extent for extent in new if extent != -1)
    old_size, old_symbols = _factors(old)
    size, symbols = _factors(rest)
    for symbol in symbols:
        require(symbol in old_symbols, f"the symbol {symbol!r} is not in {show_shape(old)}")
        old_symbols.remove(symbol)
    if len(old_symbols) == 1 and old_size == size:
        return old_symbols[0]
    exact = not old_symbols and size > 0 and old_size % size == 0
    require(exact, f"no size for -1 makes {show_shape(new)} hold the elements of {show_shape(old)}")
    return old_size // size
