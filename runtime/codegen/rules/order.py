"""Where the largest and the smallest are."""

from __future__ import annotations

from runtime.codegen.ir import INT64, Value
from runtime.codegen.ir.words import convert, is_nan, where
from runtime.codegen.kernels.places import Places, index_dtype
from runtime.codegen.rules.composition import Composition, Part
from runtime.codegen.rules.form import ALL, FORMS, Composite, Pointwise


def argmax(c: Composition, x: Part, *, axis: int) -> Part:
    """The first place of the largest, or of NaN."""
    return c.each(wide, first_place(c, x, "max", axis), dtype="int64")


def argmin(c: Composition, x: Part, *, axis: int) -> Part:
    """The first place of the smallest, or of NaN."""
    return c.each(wide, first_place(c, x, "min", axis), dtype="int64")


def first_place(c: Composition, x: Part, extreme: str, axis: int) -> Part:
    """Return the first index of an extreme along an axis, with the axis kept, in its `index_dtype`."""
    axis %= x.type.rank
    dtype = index_dtype(x.type.static_shape[axis])
    form = Pointwise(place_if, ALL, places={"place": axis - x.type.rank})
    return c.join("min", c.of(form, x, c.join(extreme, x, (axis,)), dtype=dtype), (axis,))


def place_if(x: Value, extreme: Value, *, place: Places) -> Value:
    """Return the index of an element that equals the extreme or is NaN like it; for others the largest number."""
    is_it = x.equal(extreme)
    is_it = is_it | is_nan(x) if x.type.is_float else is_it
    numbers = place.numbers()
    return where(is_it, numbers, 2 ** (numbers.type.bits - 1) - 1)


def wide(place: Value) -> Value:
    """As int64."""
    return convert(place, INT64)


FORMS["argmax"] = Composite(argmax, ALL)
FORMS["argmin"] = Composite(argmin, ALL)
