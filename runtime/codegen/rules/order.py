"""Indices of maxima and minima."""

from __future__ import annotations

from runtime.codegen.ir import INT64, Value
from runtime.codegen.ir.words import convert, is_nan, where
from runtime.codegen.kernels.indices import Indices, index_dtype
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor
from runtime.codegen.rules.rule import COMPUTED_DTYPES, RULES, Decomposition, Pointwise


def argmax(c: DecompositionBuilder, x: SymbolicTensor, *, axis: int) -> SymbolicTensor:
    """Return the index of the first maximum, or of the first NaN."""
    return c.elementwise(wide, first_place(c, x, "max", axis), dtype="int64")


def argmin(c: DecompositionBuilder, x: SymbolicTensor, *, axis: int) -> SymbolicTensor:
    """Return the index of the first minimum, or of the first NaN."""
    return c.elementwise(wide, first_place(c, x, "min", axis), dtype="int64")


def first_place(c: DecompositionBuilder, x: SymbolicTensor, extreme: str, axis: int) -> SymbolicTensor:
    """Return the first index of the maximum or minimum along an axis, which stays with extent 1."""
    axis %= x.type.rank
    return first_place_of(c, x, c.reduce(extreme, x, (axis,)), axis)


def first_place_of(c: DecompositionBuilder, x: SymbolicTensor, extreme: SymbolicTensor, axis: int) -> SymbolicTensor:
    """Return the first index of the maximum or minimum `extreme` along an axis, which stays with extent 1."""
    dtype = index_dtype(x.type.static_shape[axis])
    rule = Pointwise(place_if, COMPUTED_DTYPES, indices={"index": axis - x.type.rank})
    return c.reduce("min", c.of(rule, x, extreme, dtype=dtype), (axis,))


def place_if(x: Value, extreme: Value, *, index: Indices) -> Value:
    """Return the index where an element is NaN or equals the extreme, and the largest integer elsewhere."""
    is_it = x.equal(extreme)
    is_it = is_it | is_nan(x) if x.type.is_float else is_it
    numbers = index.values()
    return where(is_it, numbers, 2 ** (numbers.type.bits - 1) - 1)


def wide(index: Value) -> Value:
    """Return the index as int64."""
    return convert(index, INT64)


RULES["argmax"] = Decomposition(argmax, COMPUTED_DTYPES)
RULES["argmin"] = Decomposition(argmin, COMPUTED_DTYPES)
