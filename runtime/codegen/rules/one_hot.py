"""One-hot vectors of indices."""

from __future__ import annotations

from prograd_proto.dtypes import DTypeName
from runtime.codegen.ir import DTYPES, UINT32, UINT64, Value
from runtime.codegen.ir.words import bits, convert
from runtime.codegen.kernels.indices import Indices, index_dtype
from runtime.codegen.kernels.registers import register_type
from runtime.codegen.rules.decomposition import DecompositionBuilder, SymbolicTensor
from runtime.codegen.rules.rule import COMPUTED_DTYPES, RULES, Decomposition, Pointwise


def one_hot(c: DecompositionBuilder, indices: SymbolicTensor, *, depth: int, dtype: DTypeName) -> SymbolicTensor:
    """Return 1 at the index and 0 elsewhere."""
    rule = Pointwise(one_at, COMPUTED_DTYPES, indices={"position": -1})
    shape = (*indices.type.static_shape, depth)
    return c.of(rule, named(c, indices, depth), shape=shape, dtype=dtype, as_dtype=dtype)


def named(c: DecompositionBuilder, indices: SymbolicTensor, extent: int) -> SymbolicTensor:
    """Return the indices as the extent's `index_dtype`, with a last axis of extent 1; refuse indices out of range."""
    rule = Pointwise(narrow, COMPUTED_DTYPES, is_invalid=outside)
    return c.of(rule, c.view(indices, (*indices.type.static_shape, 1)), dtype=index_dtype(extent), extent=extent)


def one_at(index: Value, *, position: Indices, as_dtype: str) -> Value:
    """Return 1 where the position equals the index."""
    return convert(position.values().equal(index), register_type(as_dtype))


def narrow(index: Value, *, extent: int) -> Value:
    """Return the index in the `index_dtype` of the extent."""
    return convert(index, DTYPES[index_dtype(extent)])


def outside(index: Value, *, extent: int) -> Value:
    """Return a mask of indices that are out of range."""
    return bits(index, UINT64 if index.type.bits == 64 else UINT32) >= extent


RULES["one_hot"] = Decomposition(one_hot, frozenset({"int32", "int64"}))
