"""Where the largest and the smallest are."""

from __future__ import annotations

from runtime.engines.native.forms.composition import Composition, Part
from runtime.engines.native.forms.form import ALL, FORMS, Composite, Pointwise
from runtime.engines.native.forms.places import Places
from runtime.engines.native.ir import INT32, INT64, Value
from runtime.engines.native.ir.words import convert, is_nan, where

NOWHERE = 2**31 - 1


def argmax(c: Composition, x: Part, *, axis: int) -> Part:
    """The first place of the largest, or of NaN."""
    return c.each(wide, first_place(c, x, "max", axis), dtype="int64")


def argmin(c: Composition, x: Part, *, axis: int) -> Part:
    """The first place of the smallest, or of NaN."""
    return c.each(wide, first_place(c, x, "min", axis), dtype="int64")


def first_place(c: Composition, x: Part, extreme: str, axis: int) -> Part:
    """Of an extreme along an axis, of which one place stays; int32."""
    axis %= x.type.rank
    form = Pointwise(place_if, ALL, places={"place": axis - x.type.rank})
    return c.join("min", c.of(form, x, c.join(extreme, x, (axis,)), dtype="int32"), (axis,))


def place_if(x: Value, extreme: Value, *, place: Places) -> Value:
    """The place of an element that is the extreme, or like it not a number; nowhere for others."""
    is_it = x.equal(extreme)
    is_it = is_it | is_nan(x) if x.type.is_float else is_it
    return where(is_it, convert(place.numbers(), INT32), NOWHERE)


def wide(place: Value) -> Value:
    """As int64."""
    return convert(place, INT64)


FORMS["argmax"] = Composite(argmax, ALL)
FORMS["argmin"] = Composite(argmin, ALL)
