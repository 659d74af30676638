"""Linear models, scalers, imputers and normalizers, as scikit-learn's pipelines are exported."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged
from compiler.frontends.onnx.node import Mapping, Node, cast
from compiler.onnx_operators.ml.classes import chosen, ended, labels
from registry import Value, ops


def _scores(node: Node, count: int) -> Value:
    """Return the products of rows with the coefficients of `count` targets, plus intercepts, float32."""
    x = cast(node.value(0), "float32")
    weights = np.asarray(node.attribute("coefficients"), np.float32).reshape(count, -1)
    y = ops.matmul(x, node.new(np.ascontiguousarray(weights.T)))
    offsets = node.attribute("intercepts")
    return y + node.new(offsets, "float32") if offsets else y


def _regressor(node: Node) -> Arranged:
    count = int(node.attribute("targets", 1))
    return arranged(ended(_scores(node, count), node.attribute("post_transform", "NONE")))


def _classifier(node: Node) -> tuple[Arranged, Arranged]:
    """Return the class of the largest score, and the scores; one score of two classes is that of the second."""
    names = labels(node)
    end, count = node.attribute("post_transform", "NONE"), len(node.attribute("intercepts") or names)
    scores = _scores(node, count)
    if count == 1 and len(names) == 2:
        if end == "SOFTMAX":
            raise CompileError("has one score of two classes, which a softmax makes 1; use LOGISTIC or NONE")
        second = ended(scores, end)
        scores = ops.concat(1.0 - second, second, axis=1)
        at = ops.cast(ops.reshape(second, shape=(-1,)) > (0.5 if end == "LOGISTIC" else 0.0), dtype="int64")
    else:
        scores = ended(scores, end)
        at = ops.argmax(scores, axis=1)
    return arranged(chosen(node, names, at)), arranged(scores)


def _scaler(node: Node) -> Arranged:
    offset, scale = (
        np.asarray(node.attribute(name, [default]), np.float32) for name, default in (("offset", 0.0), ("scale", 1.0))
    )
    return arranged((cast(node.value(0), "float32") - node.new(offset)) * node.new(scale))


def _normalizer(node: Node) -> Arranged:
    """Return rows divided by their norm, or by their largest element; a row of zeros stays."""
    x, norm = cast(node.value(0), "float32"), node.attribute("norm", "MAX")
    if norm == "MAX":
        size = ops.max(x, axis=(-1,), keepdims=True)
    elif norm == "L1":
        size = ops.sum(ops.abs(x), axis=(-1,), keepdims=True)
    else:
        size = ops.sqrt(ops.sum(ops.square(x), axis=(-1,), keepdims=True))
    return arranged(x / ops.where(ops.equal(size, 0.0), 1.0, size))


def _imputer(node: Node) -> Arranged:
    """Return elements with missing values replaced, by a value for each column or by one for all."""
    x = node.value(0)
    is_float = x.dtype.startswith("float")
    kind = "float" if is_float else "int64"
    given: Any = node.attribute(f"imputed_value_{kind}s")
    replaced = node.attribute(f"replaced_value_{kind}", 0)
    is_missing = ops.not_equal(x, x) if is_float and replaced != replaced else ops.equal(x, replaced)
    return arranged(ops.where(is_missing, node.new(given, x.dtype), x))


IMPORTS: Final[dict[str, Mapping]] = {
    "ai.onnx.ml.LinearRegressor": _regressor,
    "ai.onnx.ml.LinearClassifier": _classifier,
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.Normalizer": _normalizer,
    "ai.onnx.ml.Imputer": _imputer,
}
