"""Places of an axis that are named by numbers, one for each row."""

from __future__ import annotations

from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import DTYPES, UINT32, UINT64, Value
from runtime.codegen.ir.words import bits, convert
from runtime.codegen.kernels.places import Places, index_dtype
from runtime.codegen.kernels.registers import register_type
from runtime.codegen.rules.composition import Composition, Part
from runtime.codegen.rules.form import ALL, FORMS, Composite, Pointwise


def one_hot(c: Composition, indices: Part, *, depth: int, dtype: DTypeName) -> Part:
    """1 at the place that is named, 0 elsewhere."""
    form = Pointwise(one_at, ALL, places={"place": -1})
    shape = (*indices.type.static_shape, depth)
    return c.of(form, named(c, indices, depth), shape=shape, dtype=dtype, as_dtype=dtype)


def named(c: Composition, indices: Part, extent: int) -> Part:
    """Return the indices in the `index_dtype` of the extent, with an axis of extent 1 at the end; refuse others."""
    form = Pointwise(narrow, ALL, refused=outside)
    return c.of(form, c.view(indices, (*indices.type.static_shape, 1)), dtype=index_dtype(extent), extent=extent)


def one_at(index: Value, *, place: Places, as_dtype: str) -> Value:
    """1 where the place is that of the index."""
    return convert(place.numbers().equal(index), register_type(as_dtype))


def narrow(index: Value, *, extent: int) -> Value:
    """Return the index in the `index_dtype` of the extent."""
    return convert(index, DTYPES[index_dtype(extent)])


def outside(index: Value, *, extent: int) -> Value:
    """Where there is no such place."""
    return bits(index, UINT64 if index.type.bits == 64 else UINT32) >= extent


FORMS["one_hot"] = Composite(one_hot, frozenset({"int32", "int64"}))
