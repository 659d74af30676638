"""Places of an axis that are named by numbers, one for each row."""

from __future__ import annotations

from prograd_proto.dtypes import DTypeName
from runtime.engines.native.forms.composition import Composition, Part
from runtime.engines.native.forms.form import ALL, FORMS, Composite, Pointwise
from runtime.engines.native.forms.places import Places
from runtime.engines.native.forms.registers import register_type
from runtime.engines.native.ir import INT32, UINT32, UINT64, Value
from runtime.engines.native.ir.words import bits, convert


def one_hot(c: Composition, indices: Part, *, depth: int, dtype: DTypeName) -> Part:
    """1 at the place that is named, 0 elsewhere."""
    form = Pointwise(one_at, ALL, places={"place": -1})
    shape = (*indices.type.static_shape, depth)
    return c.of(form, named(c, indices, depth), shape=shape, dtype=dtype, as_dtype=dtype)


def named(c: Composition, indices: Part, extent: int) -> Part:
    """Indices as int32 with an axis of one place at the end; what is outside of the extent is refused."""
    form = Pointwise(narrow, ALL, refused=outside)
    return c.of(form, c.view(indices, (*indices.type.static_shape, 1)), dtype="int32", extent=extent)


def one_at(index: Value, *, place: Places, as_dtype: str) -> Value:
    """1 where the place is that of the index."""
    return convert(place.numbers().equal(index), register_type(as_dtype))


def narrow(index: Value, *, extent: int) -> Value:
    """As int32."""
    return convert(index, INT32)


def outside(index: Value, *, extent: int) -> Value:
    """Where there is no such place."""
    return bits(index, UINT64 if index.type.bits == 64 else UINT32) >= extent


FORMS["one_hot"] = Composite(one_hot, frozenset({"int32", "int64"}))
