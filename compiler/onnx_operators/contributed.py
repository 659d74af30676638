"""Fused operators of ONNX Runtime, domain com.microsoft, in terms of those of ONNX."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import pointwise
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.onnx_operators.conv import convolved
from compiler.onnx_operators.linalg import IMPORTS as PRODUCTS
from registry import Value, ops


def _require_absent(node: Node, **numbers: int) -> None:
    """Refuse operands that no composition here reads."""
    for name, number in numbers.items():
        if node.has(number):
            raise CompileError(f"its operand {name} is not supported; export without past keys and values")


def _heads(x: Value, heads: int) -> Value:
    n, steps, size = x.shape
    return ops.transpose(ops.reshape(x, shape=(n, steps, heads, int(size) // heads)), axis=(0, 2, 1, 3))


def _attended(node: Node, q: Value, k: Value, v: Value, mask: Value | None, added: Value | None) -> Value:
    """Return attention of [n, steps, size]; `mask` is 1 for keys that are seen, [n, keys]."""
    heads = int(node.attribute("num_heads"))
    n, steps = q.shape[:2]
    q, k, v = (_heads(x, heads) for x in (q, k, v))
    scale = float(node.attribute("scale", 0.0)) or 1 / sqrt(int(q.shape[3]))
    scores = ops.matmul(q * scale, k, transpose_b=True)
    if mask is not None:
        if mask.rank != 2 or mask.shape[1] != k.shape[2]:
            raise CompileError(f"a mask of shape {list(mask.shape)}, and prograd reads one of each key: [batch, keys]")
        seen = ops.reshape(cast(mask, "bool"), shape=(mask.shape[0], 1, 1, mask.shape[1]))
        scores = ops.where(seen, scores, float(node.attribute("mask_filter_value", -10000.0)) + scores)
    if added is not None:
        scores = scores + added
    if node.attribute("unidirectional", 0):
        seen = node.new(np.tri(int(steps), int(k.shape[2]), dtype=bool))
        scores = ops.where(seen, scores, float(np.finfo(np.float32).min))
    y = ops.matmul(ops.softmax(scores, axis=-1), v)
    size = heads * int(v.shape[3])
    return ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=(n, steps, size))


def _attention(node: Node, x: Value, w: Value, bias: Value | None = None, *more: Value | None) -> Value:
    """Return attention of a tensor to itself, whose queries, keys and values are one product."""
    _require_absent(node, past=4, past_sequence_length=6)
    mask, added = ((*more, None, None, None)[i] for i in (0, 2))
    sizes = [int(s) for s in node.attribute("qkv_hidden_sizes") or [int(w.shape[1]) // 3] * 3]
    y = ops.matmul(x, w)
    y = y if bias is None else y + bias
    ends = np.cumsum([0, *sizes])
    q, k, v = (y[..., int(a) : int(b)] for a, b in pairwise(ends))
    return _attended(node, q, k, v, mask, added)


def _multi_head(node: Node, q: Value, *more: Value | None) -> Value:
    """Return attention of queries to keys and values that are tensors of three axes."""
    k, v, bias, mask, added = (*more, *(None,) * 5)[:5]
    _require_absent(node, past_key=6, past_value=7)
    if k is None or v is None or k.rank != 3 or v.rank != 3:
        raise CompileError("packed queries, keys and values; give three tensors of [batch, steps, size]")
    if bias is not None:
        sizes = np.cumsum([0, int(q.shape[2]), int(k.shape[2]), int(v.shape[2])])
        parts = [bias[int(a) : int(b)] for a, b in pairwise(sizes)]
        q, k, v = (x + part for x, part in zip((q, k, v), parts, strict=True))
    return _attended(node, q, k, v, mask, added)


def _embedded(node: Node, ids: Value, segments: Value | None, *tables: Value | None) -> Any:
    """Return the normalised sum of the embeddings of words, positions and segments."""
    words, positions, kinds, scale, bias, _, places = (*tables, *(None,) * 7)[:7]
    assert words is not None
    assert positions is not None
    assert scale is not None
    x = ops.gather(words, cast(ids, "int64"))
    x = x + (positions[: int(ids.shape[1])] if places is None else ops.gather(positions, cast(places, "int64")))
    if segments is not None and kinds is not None:
        x = x + ops.gather(kinds, cast(segments, "int64"))
    y = ops.layer_norm(x, scale, bias, epsilon=float(node.attribute("epsilon", 1e-12)))[0]
    count = None
    if node.wants(1):
        mask = node.optional_value(7)
        count = node.full((ids.shape[0],), 0, "int32") if mask is None else cast(ops.sum(mask, axis=(1,)), "int32")
    return y, count, x


def _fused_conv(node: Node) -> Any:
    """Return a convolution, to which a tensor may be added, and its activation."""
    y = convolved(node, node.tensor(0), node.tensor(1), node.optional(2))
    more = node.optional(3)
    y = y if more is None else pointwise(ops.add, y, more)
    word, numbers = node.attribute("activation", ""), list(node.attribute("activation_params") or [])
    activations: dict[str, Any] = {
        "": lambda v: v,
        "Relu": ops.relu,
        "Tanh": ops.tanh,
        "Sigmoid": ops.sigmoid,
        "LeakyRelu": lambda v: ops.leaky_relu(v, alpha=numbers[0]),
        "Clip": lambda v: ops.clip(v, min=numbers[0], max=numbers[1]),
        "HardSigmoid": lambda v: ops.hard_sigmoid(v, alpha=numbers[0], beta=numbers[1]),
    }
    if word not in activations:
        raise CompileError(f"a fused activation {word!r}, which is none of {', '.join(filter(None, activations))}")
    return pointwise(activations[word], y)


def _fused_gemm(node: Node) -> Any:
    """Return a product with its bias and activation."""
    plain = replace(node, operator="Gemm", attributes={k: v for k, v in node.attributes.items() if k != "activation"})
    y, word = PRODUCTS["Gemm"](plain), node.attribute("activation", "")
    known: dict[str, Any] = {"": lambda v: v, "Relu": ops.relu, "Tanh": ops.tanh, "Sigmoid": ops.sigmoid}
    if word not in known:
        raise CompileError(f"a fused activation {word!r}, which is none of {', '.join(filter(None, known))}")
    return pointwise(known[word], y)


IMPORTS: Final[dict[str, Mapping]] = {
    "com.microsoft.Attention": on_plain(_attention),
    "com.microsoft.MultiHeadAttention": on_plain(_multi_head),
    "com.microsoft.EmbedLayerNormalization": on_plain(_embedded),
    "com.microsoft.FusedConv": _fused_conv,
    "com.microsoft.FusedGemm": _fused_gemm,
}
