"""The operators of ATen in terms of prograd's: a table by family, named like those of the registry.

A mapping is a function of the `Call` and the operands of an ATen operator. It appends ops and returns the results.

call        the call of an operator, and mappings made of functions
activation  activation functions
attention   scaled_dot_product_attention
composed    functions that are composed of a few ops
control     conditions and loops
conv        convolutions
criteria    losses
decomposition  solutions, factors, inverses and determinants of matrices
fill        filled tensors
fourier     complex numbers and Fourier transforms
index       embeddings, gathers and scatters
linalg      products of matrices
norm        normalisation and softmax
orthogonal  QR, singular values, eigenvalues of symmetric matrices, pseudo-inverses
pointwise   arithmetic, comparisons, functions, casts
pool        pooling
positions   rolls, flips, windows, strided views
random      dropout and random numbers
recurrent   LSTM, GRU and plain recurrent layers
reduce      reductions, running sums, sorting
resize      resampling of images
shape       views, permutations, slices, pieces, padding
special     functions with a limit at a point
write       writes into parts of tensors

To add an operator, write a line, or a mapping, in the file of its family in `compiler/frontends/torch/operators/`.
If no operator of prograd computes the same, add one to the registry first. Its test is in
`tests/frontends/test_operators.py`, which needs PyTorch; tests of parts that need no PyTorch are in
`tests/importing/`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from compiler.frontends.torch.operators import attention, control, criteria, decomposition, index
from compiler.frontends.torch.operators.call import Mapping

FAMILIES: Final[list[Any]] = [import_module(f"{__name__}.{family.name}") for family in iter_modules(__path__)]
"""The modules of this folder."""

OPERATORS: Final[dict[str, Mapping]] = {
    name: mapping for family in FAMILIES for name, mapping in getattr(family, "OPERATORS", {}).items()
}
"""All mappings by the name of ATen's operator with its overload."""

REMEDIES: Final = criteria.REMEDIES | decomposition.REMEDIES
"""Remedies for operators without a counterpart, for the sentences that refuse them."""

SEES_CONSTANTS: Final = attention.SEES_CONSTANTS | control.SEES_CONSTANTS | index.SEES_CONSTANTS
"""Operators whose mappings are given constants as they are; to the others they are tensors."""
