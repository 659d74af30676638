"""The operators of ONNX and those of prograd in terms of each other: the tables of a family are in one file.

`IMPORTS` has the operators of ONNX. A mapping is a function of a `Node`. It appends ops and returns the result, or a
tuple of the results.

`EXPORTS` has the operators of prograd. A mapping is a function of a `Call`. It appends nodes and returns the names of
the results.

activation  activation functions
attention   attention and rotary positions
contributed  fused operators of ONNX Runtime
contributed_attention  its attention
conv        convolutions
criteria    losses
dynamic_recurrent  LSTM of dynamically quantised products
fill        filled tensors, ranges, triangles of matrices
index       gathers, scatters, choices
flow        conditions and loops
integers    products of codes of eight bits in integers
linalg      products of matrices
ml          models and transformations of scikit-learn and of tree ensembles
norm        normalisation, softmax, dropout
part        slices, padding, crops
pointwise   arithmetic, comparisons, functions, bits, casts
pool        pooling
quantize    quantised tensors
recurrent   LSTM, GRU and plain recurrent layers
reduce      reductions, running sums, positions of extremes
resize      resampling of images
selection   nonzero and unique elements, boxes that overlap little
sequences   sequences, which are lists while importing
shape       views, permutations, pieces, blocks
signal      Fourier transforms
update      optimizers as nodes

To add an operator, write a line, or a mapping, in the file of its family in `compiler/onnx_operators/`: in
`IMPORTS` to read it, in `EXPORTS` to write it. Its test is in `tests/importing/test_from_onnx.py`, or in
`tests/exporting/test_to_onnx.py`. After that, `PYTHONPATH=tests python -m conformance.run --kind node --write`
writes the list of the backend tests of ONNX that do not pass again; it may only shrink.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from compiler.exporters.onnx.call import Export
from compiler.frontends.onnx.node import Mapping

FAMILIES: Final[list[Any]] = [import_module(f"{__name__}.{family.name}") for family in iter_modules(__path__)]
"""The modules of this folder."""

IMPORTS: Final[dict[str, Mapping]] = {name: mapping for family in FAMILIES for name, mapping in family.IMPORTS.items()}
"""All mappings to prograd by the name of ONNX's operator, with its domain if that is not ONNX's own."""

EXPORTS: Final[dict[str, Export]] = {
    name: export for family in FAMILIES for name, export in getattr(family, "EXPORTS", {}).items()
}
"""All mappings to ONNX by the name of prograd's operator."""
