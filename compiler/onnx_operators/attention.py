"""Attention and rotary positions."""

from __future__ import annotations

from functools import reduce
from math import sqrt
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from registry import Value, ops


def rotary(node: Node, x: Value, cosines: Value, sines: Value, positions: Value | None = None) -> Value:
    """Return heads whose pairs of channels are turned by the angles of their positions."""
    interleaved, heads = node.attribute("interleaved", 0), int(node.attribute("num_heads", 0))
    shape = x.shape
    if x.rank == 3:
        if not heads:
            raise CompileError("RotaryEmbedding of three axes needs num_heads")
        x = ops.reshape(x, shape=(shape[0], shape[1], heads, int(shape[2]) // heads))
    else:
        x = ops.transpose(x, axis=(0, 2, 1, 3))
    n, steps, heads_, size = x.shape
    turned = int(node.attribute("rotary_embedding_dim", 0)) or int(size)
    half = turned // 2
    if positions is not None:
        cosines, sines = (ops.gather(v, cast(positions, "int64")) for v in (cosines, sines))
    cosines, sines = (ops.unsqueeze(v[..., :half], axis=(2,)) for v in (cosines, sines))
    part = x[..., :turned]
    if interleaved:
        pairs = ops.reshape(part, shape=(n, steps, heads_, half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = part[..., :half], part[..., half:]
    real, imaginary = cosines * a - sines * b, sines * a + cosines * b
    if interleaved:
        y = ops.reshape(ops.stack(real, imaginary, axis=-1), shape=(n, steps, heads_, turned))
    else:
        y = ops.concat(real, imaginary, axis=-1)
    y = y if turned == size else ops.concat(y, x[..., turned:], axis=-1)
    return ops.reshape(y, shape=shape) if len(shape) == 3 else ops.transpose(y, axis=(0, 2, 1, 3))


def split_heads(x: Value, heads: int) -> Value:
    """Return the heads of [n, steps, heads * size]."""
    n, steps, size = x.shape
    return ops.transpose(ops.reshape(x, shape=(n, steps, heads, int(size) // heads)), axis=(0, 2, 1, 3))


def joined_heads(x: Value) -> Value:
    """Return heads behind each other: [n, steps, heads * size]."""
    n, heads, steps, size = x.shape
    return ops.reshape(ops.transpose(x, axis=(0, 2, 1, 3)), shape=(n, steps, int(heads) * int(size)))


def _attention(node: Node, *operands: Value | None) -> Any:
    """Return attention, the present keys and values, and the matrix that the mode asks for."""
    q, k, v, mask, past_k, past_v, lengths = (*operands, *(None,) * (7 - len(operands)))[:7]
    assert q is not None
    assert k is not None
    assert v is not None
    three = q.rank == 3
    if three:
        heads, groups = int(node.attribute("q_num_heads")), int(node.attribute("kv_num_heads"))
        q, k, v = split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)
    k = k if past_k is None else ops.concat(past_k, k, axis=2)
    v = v if past_v is None else ops.concat(past_v, v, axis=2)
    present = k, v
    _, heads, steps, size = q.shape
    total = k.shape[2]
    if k.shape[1] != heads:
        count = int(heads) // int(k.shape[1])
        k, v = ops.repeat(k, count=count, axis=1), ops.repeat(v, count=count, axis=1)
    scale = node.attribute("scale")
    root = sqrt(1 / sqrt(int(size)) if scale is None else scale)
    scores = ops.matmul(q * root, k * root, transpose_b=True)
    stages = [scores]
    cap = float(node.attribute("softcap", 0.0))
    scores = ops.tanh(scores / cap) * cap if cap else scores
    stages.append(scores)
    past = 0 if past_k is None else int(past_k.shape[2])
    additive = _mask(node, q, mask, lengths, steps, total, past)
    scores = scores if additive is None else scores + additive
    stages.append(scores)
    weights = ops.softmax(scores, axis=-1)
    if additive is not None:  # rows that are masked altogether give zeros
        weights = ops.where(ops.isnan(weights), 0.0, weights)
    stages.append(weights)
    y = ops.matmul(weights, v)
    y = joined_heads(y) if three else y
    mode = int(node.attribute("qk_matmul_output_mode", 0))
    return y, present[0], present[1], stages[mode] if node.wants(3) else None


def _mask(node: Node, q: Value, mask: Value | None, lengths: Value | None, steps: Any, total: Any, past: int) -> Any:
    """Return what is added to the scores: 0, the mask's numbers, or minus infinity; None if nothing is masked."""
    n = q.shape[0]
    parts = [] if mask is None else [_whole_mask(node, q, mask, int(total))]
    left, right = int(node.attribute("left_window_size", -1)), int(node.attribute("right_window_size", -1))
    causal = bool(node.attribute("is_causal", 0))
    if not causal and left < 0 and right < 0 and lengths is None:
        return parts[0] if parts else None
    keys = node.new(np.arange(int(total)).reshape(1, 1, 1, -1), "int64")
    rows = node.new(np.arange(int(steps)).reshape(1, 1, -1, 1), "int64")
    if lengths is None:
        rows = rows + past
    else:
        counts = ops.reshape(cast(lengths, "int64"), shape=(n, 1, 1, 1))
        rows = rows + (counts - int(steps))
        parts.append(_barred(node, q, keys < counts))
    if causal:
        parts.append(_barred(node, q, keys <= rows))
    parts += [_barred(node, q, keys >= rows - left)] if left >= 0 else []
    parts += [_barred(node, q, keys <= rows + right)] if right >= 0 else []
    return reduce(ops.add, parts)


def _whole_mask(node: Node, q: Value, mask: Value, total: int) -> Value:
    """Return a mask as numbers to add to the scores of all keys; keys that it lacks are masked."""
    mask = _barred(node, q, mask) if mask.dtype == "bool" else mask
    missing = total - int(mask.shape[-1])
    after = (0,) * (mask.rank - 1) + (missing,)
    return ops.pad(mask, before=(0,) * mask.rank, after=after, value=-np.inf) if missing > 0 else mask


def _barred(node: Node, q: Value, allowed: Value) -> Value:
    return ops.where(allowed, node.new(0.0, q.dtype), node.new(-np.inf, q.dtype))


def _attention_out(call: Call) -> str:
    """Return attention as one node where opset 23 has it, else as two products and a softmax."""
    given = call.attributes
    q, k, v = call.tensor(0), call.tensor(1), call.tensor(2)
    square = q.shape[2] == k.shape[2]
    if call.opset >= 23 and not call.has(3) and (square or not given["causal"]):
        causal = int(given["causal"]) or None
        return call.add("Attention", *(call.plain(i) for i in range(3)), scale=float(given["scale"]), is_causal=causal)
    keys, values = call.ordered(1, (0, 1, 3, 2)), call.plain(2)
    if k.shape[1] != q.shape[1]:
        keys, values = _for_each_head(call, keys, k, turned=True), _for_each_head(call, values, v, turned=False)
    scores = call.add("MatMul", call.add("Mul", call.plain(0), call.number(given["scale"])), keys)
    seen = _seen(call)
    if call.has(3) and call.tensor(3).dtype != "bool":
        scores = call.add("Add", scores, call.plain(3))
    for part in seen:
        scores = call.add("Where", part, scores, call.number(-1e30))
    weights = call.add("Softmax", scores, axis=-1)
    for part in seen:
        weights = call.add("Where", part, weights, call.number(0))
    return call.add("MatMul", weights, values)


def _seen(call: Call) -> list[str]:
    """Return which keys a query attends to, as tensors that broadcast to the scores."""
    seen = [call.plain(3)] if call.has(3) and call.tensor(3).dtype == "bool" else []
    if call.attributes["causal"]:
        rows, columns = call.tensor(0).shape[2], call.tensor(1).shape[2]
        if isinstance(rows, str) or isinstance(columns, str):
            symbol = rows if isinstance(rows, str) else columns
            raise Unmapped(f"attends to earlier keys of {symbol}; bind {symbol!r}, or write opset 23")
        seen.append(call.graph.constant(np.tri(int(rows), int(columns), dtype=bool)))
    return seen


def _for_each_head(call: Call, name: str, x: Tensor, *, turned: bool) -> str:
    """Return keys or values repeated for the query heads that share them."""
    n, groups, length, size = x.shape
    count = int(call.tensor(0).shape[1]) // int(groups)
    last = (size, length) if turned else (length, size)
    wide = call.add("Unsqueeze", name, call.integers(2))
    wide = call.add("Expand", wide, call.graph.shape([1, 1, count, 1, 1]))
    return call.graph.reshaped(wide, (n, int(groups) * count, *last))


IMPORTS: Final[dict[str, Mapping]] = {
    "Attention": on_plain(_attention),
    "RotaryEmbedding": on_plain(rotary),
}

EXPORTS: Final[dict[str, Export]] = {"scaled_dot_product_attention": _attention_out}
