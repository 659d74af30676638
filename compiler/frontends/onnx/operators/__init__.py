"""The operators of ONNX in terms of prograd's: a table by family, named like those of the registry.

A mapping is a function of a `Node`. It appends ops and returns the result, or a tuple of the results.

activation  activation functions
conv        convolutions
index       gathers, scatters, choices
linalg      products of matrices
norm        normalisation, softmax, dropout
pointwise   arithmetic, comparisons, functions, bits, casts
pool        pooling
reduce      reductions, running sums, positions of extremes
shape       views, permutations, slices, pieces, padding
"""

from __future__ import annotations

from typing import Final

from compiler.frontends.onnx.node import Mapping
from compiler.frontends.onnx.operators import activation, conv, index, linalg, norm, pointwise, pool, reduce, shape

FAMILIES: Final = (activation, conv, index, linalg, norm, pointwise, pool, reduce, shape)

OPERATORS: Final[dict[str, Mapping]] = {
    name: mapping for family in FAMILIES for name, mapping in family.OPERATORS.items()
}
"""All mappings by the name of ONNX's operator, with its domain if that is not ONNX's own."""
