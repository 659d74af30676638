"""Labels and scores of classifiers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.node import Node
from registry import Value, ops

ENDS: Final = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
"""Transformations of scores, by the words of ONNX."""

TINY: Final = 1e-7
"""Scores up to this size are zeros for SOFTMAX_ZERO."""

ERF: Final = 0.147
"""Constant of Winitzki's approximation of the error function, by which ONNX Runtime inverts it."""


def ended(y: Value, end: str) -> Value:
    """Return scores [rows, classes] after the transformation of a model."""
    if end not in ENDS:
        raise CompileError(f"ends in post_transform={end!r}, and prograd has {', '.join(ENDS)}")
    if end == "LOGISTIC":
        return ops.sigmoid(y)
    if end == "SOFTMAX":
        return ops.softmax(y)
    if end == "SOFTMAX_ZERO":
        return _softmax_zero(y)
    return _probit(y) if end == "PROBIT" else y


def _softmax_zero(y: Value) -> Value:
    """Return the softmax in which a score of zero counts as a factor, not as an exponent."""
    largest = ops.max(y, axis=(-1,), keepdims=True)
    parts = ops.where(ops.abs(y) > TINY, ops.exp(y - largest), y * ops.exp(-largest))
    whole = ops.sum(parts, axis=(-1,), keepdims=True)
    return ops.where(ops.equal(whole, 0.0), 0.5, parts / ops.where(ops.equal(whole, 0.0), 1.0, whole))


def _probit(y: Value) -> Value:
    x = y * 2.0 - 1.0
    product = (1.0 - x) * (1.0 + x)
    log = ops.log(ops.where(ops.equal(product, 0.0), 1.0, product))
    half = log * 0.5 + 2.0 / (np.pi * ERF)
    root = ops.sqrt(ops.sqrt(half * half - log * (1.0 / ERF)) - half)
    return ops.where(x < 0.0, -root, root) * 1.41421356


def labels(node: Node) -> Any:
    """Return the labels of a classifier, strings or int64; raise CompileError if it has none."""
    strings, numbers = (node.attribute(f"classlabels_{kind}s") for kind in ("string", "int"))
    numbers = numbers or node.attribute("classlabels_int64s")
    if strings:
        return np.asarray(strings, object)
    if not numbers:
        raise CompileError("has no labels")
    return np.asarray(numbers, np.int64)


def chosen(node: Node, names: Any, at: Value) -> Value:
    """Return the labels at positions, int64; strings are codes."""
    if names.dtype == object:
        node.walk.dtypes[node.outputs[0]] = "string"
    return ops.gather(node.new(names), at, axis=0)
