"""Bounds of the elements that a node makes of known operands, before it computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

SIZED_BY_VALUES: Final = frozenset(
    [
        *["AffineGrid", "BlackmanWindow", "CenterCropPad", "Col2Im", "ConstantOfShape", "ConvTranspose", "DFT"],
        *["Expand", "HammingWindow", "HannWindow", "MaxUnpool", "MelWeightMatrix", "OneHot", "Pad", "Range"],
        *["Resize", "STFT", "Tile", "Upsample"],
    ]
)
"""Operators whose results may be larger than any function of the shapes of their operands."""

SMALL: Final = 1 << 16
"""Number of elements up to which a result is computed for any operator."""

MAX_VALUES: Final = 1 << 10
"""Number of elements up to which the values of an operand may determine a shape."""

INT32: Final = 6
"""ONNX's number of int32."""

LEAST_END: Final = 10**6
"""Ends of slices from here mean the end of an axis."""


def elements_made(onnx: Any, node: Any, given: Mapping[str, Any], opsets: Sequence[Any]) -> float:
    """Return an upper bound on the elements of the results of a node; infinity if there is none.

    Args:
        onnx: the package.
        node: the node.
        given: its operands by name.
        opsets: the opsets that the node is of.
    """
    sizes = [max(1, array.size) for array in given.values()]
    if node.op_type not in SIZED_BY_VALUES:
        if prod(sizes) <= SMALL:
            return SMALL
        if node.op_type == "Concat":
            return float(sum(given[name].size for name in node.input))
    return max(_inferred(onnx, node, given, opsets), 0.0)


def _inferred(onnx: Any, node: Any, given: Mapping[str, Any], opsets: Sequence[Any]) -> float:
    """Return the elements of all results by ONNX's own inference of shapes."""
    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    known = [onnx.numpy_helper.from_array(array, name) for name, array in given.items() if array.size <= MAX_VALUES]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "constant", inputs, outputs, known)
    try:
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets), check_type=False, strict_mode=False, data_prop=True
        )
    except Exception:  # the inference raises many classes for operands that do not fit
        return np.inf
    total = 0.0
    for result in model.graph.output:
        shape = result.type.tensor_type.shape if result.type.tensor_type.HasField("shape") else None
        if shape is None or any(not dim.HasField("dim_value") for dim in shape.dim):
            return np.inf
        total += float(prod(dim.dim_value for dim in shape.dim))
    return total


def overflows(node: Any, given: Mapping[str, Any]) -> bool:
    """Return True if the integers of a product of large sizes, or of a cast of one, may leave their dtype."""
    arrays = list(given.values())
    dtype = arrays[0].dtype if arrays else np.dtype(np.int64)
    if node.op_type == "Cast" and any(each.name == "to" and each.i == INT32 for each in node.attribute):
        dtype = np.dtype(np.int32)
    elif node.op_type not in ("Mul", "ReduceProd"):
        return False
    if dtype.kind != "i" or any(each.size > MAX_VALUES or each.dtype.kind not in "iuf" for each in arrays):
        return False
    if node.op_type == "Mul":
        largest = prod(max((abs(int(n)) for n in each.reshape(-1)), default=0) for each in arrays)
    elif node.op_type == "ReduceProd":
        largest = prod(abs(int(n)) for n in arrays[0].reshape(-1))
    else:
        largest = max((abs(float(n)) for n in arrays[0].reshape(-1)), default=0)
    return largest > np.iinfo(dtype).max


def is_beyond(operands: Sequence[Any]) -> bool:
    """Return True for a slice of a table that has fewer rows than the trial size of a symbol where it ends.

    For smaller sizes, it would have other rows.
    """
    if len(operands) < 3 or operands[2].is_array:
        return False
    primes = operands[0].symbols.primes
    whole = [np.asarray(x.shape) for x in operands[0].trials[:primes]]
    if len(operands) > 3 and operands[3] is not None:
        whole = [sizes[axes.reshape(-1)] for sizes, axes in zip(whole, operands[3].trials, strict=False)]
    ends = [each.reshape(-1) for each in operands[2].trials]
    return any(
        bool(np.any((sizes[: len(end)] < end) & (end < LEAST_END))) for sizes, end in zip(whole, ends, strict=False)
    )
