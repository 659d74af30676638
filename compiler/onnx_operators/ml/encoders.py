"""Codes and ones of categories, and the dictionaries of classes that converters put behind classifiers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, plain
from compiler.frontends.onnx.node import Mapping, Node, cast
from registry import Value, ops

KINDS: Final = {"int64s": np.int64, "strings": object, "floats": np.float32}
"""Kinds of keys and values."""

DEFAULTS: Final = {
    "strings": ("default_string", "_Unused"),
    "int64s": ("default_int64", -1),
    "floats": ("default_float", -0.0),
}
"""For each kind, the attribute with the value for unknown keys, and its default."""


def _found(x: Value, keys: Value) -> tuple[Value, Value]:
    """Return for each element the position of the key that it equals, and True where there is one."""
    wide = ops.unsqueeze(x, axis=-1)
    same = ops.equal(wide, keys)
    if x.dtype.startswith("float"):
        same = ops.logical_or(same, ops.logical_and(ops.isnan(wide), ops.isnan(keys)))
    return ops.argmax(cast(same, "int32"), axis=-1), ops.any(same, axis=(-1,))


def _mapped(node: Node, keys: Any, values: Any, default: Any) -> Arranged:
    """Return the value of each element's key; `default`, an array of one element, for others."""
    if keys is None or values is None or len(keys) != len(values):
        raise CompileError("has no keys and as many values")
    if values.dtype == object:
        node.walk.dtypes[node.outputs[0]] = "string"
    x, stored = node.value(0), node.new(keys)
    at, is_known = _found(cast(x, stored.dtype), stored)
    made = node.new(values)
    return arranged(ops.where(is_known, ops.gather(made, at), node.new(default.reshape(()))))


def _label_encoder(node: Node) -> Arranged:
    words = node.attribute("classes_strings")
    if words:
        return _words_and_numbers(node, words, range(len(words)))
    (keys, _), (values, kind) = _given(node, "keys"), _given(node, "values")
    if kind == "tensor":
        default = node.attribute("default_tensor")
        fallback = node.walk.tensors.array(default) if default is not None else _usual(values)
    else:
        name, usual = DEFAULTS[kind]
        fallback = np.asarray(node.attribute(name, usual), KINDS[kind])
    return _mapped(node, keys, values, fallback)


def _usual(values: Any) -> Any:
    kind = {"O": "strings", "U": "strings", "f": "floats"}.get(values.dtype.kind, "int64s")
    return np.asarray(DEFAULTS[kind][1], values.dtype)


def _given(node: Node, name: str) -> tuple[Any, str]:
    """Return the keys or the values, and their kind."""
    tensor = node.attribute(f"{name}_tensor")
    if tensor is not None:
        return node.walk.tensors.array(tensor).reshape(-1), "tensor"
    for kind, dtype in KINDS.items():
        if node.attribute(f"{name}_{kind}") is not None:
            return np.asarray(node.attribute(f"{name}_{kind}"), dtype), kind
    raise CompileError(f"has no {name}")


def _words_and_numbers(node: Node, words: Any, numbers: Any) -> Arranged:
    """Return the numbers of words, or the words of numbers."""
    words, numbers = np.asarray(words, object), np.asarray(numbers, np.int64)
    if node.dtypes[0] == "string":
        return _mapped(node, words, numbers, np.asarray(node.attribute("default_int64", -1), np.int64))
    return _mapped(node, numbers, words, np.asarray(node.attribute("default_string", "_Unused"), object))


def _one_hot_encoder(node: Node) -> Arranged:
    """Return a new last axis with 1 at the category of each element, and zeros for others."""
    words, numbers = node.attribute("cats_strings"), node.attribute("cats_int64s")
    categories = node.new(np.asarray(words, object) if words else np.asarray(numbers, np.int64))
    x = cast(node.value(0), "int64")
    return arranged(cast(ops.equal(ops.unsqueeze(x, axis=-1), categories), "float32"))


def _zip_map(node: Node) -> Any:
    """Return the scores, whose columns are the entries of ZipMap's dictionaries."""
    classes = node.attribute("classlabels_strings") or node.attribute("classlabels_int64s") or []
    shown = ", ".join(map(repr, classes))
    node.walk.notes.append(f"the dictionaries of {node.outputs[0]!r} are a tensor with the columns {shown}")
    return node.operands[0]


def _feature_vectorizer(node: Node) -> Arranged:
    rows = [plain(x) for x in node.tensors()]
    rows = [ops.reshape(x, shape=(-1, 1)) if x.rank == 1 else x for x in rows]
    return arranged(ops.concat(*(cast(x, "float32") for x in rows), axis=1))


IMPORTS: Final[dict[str, Mapping]] = {
    "ai.onnx.ml.LabelEncoder": _label_encoder,
    "ai.onnx.ml.CategoryMapper": lambda node: _words_and_numbers(
        node, node.attribute("cats_strings"), node.attribute("cats_int64s")
    ),
    "ai.onnx.ml.OneHotEncoder": _one_hot_encoder,
    "ai.onnx.ml.ZipMap": _zip_map,
    "ai.onnx.ml.FeatureVectorizer": _feature_vectorizer,
}
