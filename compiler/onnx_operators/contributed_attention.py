"""Attention operators of ONNX Runtime, domain com.microsoft, with earlier keys and values, and packed operands."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.onnx_operators.attention import joined_heads, rotary, split_heads
from registry import Value, ops


def _require_absent(node: Node, **numbers: int) -> None:
    """Refuse operands that no composition here reads."""
    for name, number in numbers.items():
        if node.has(number):
            raise CompileError(f"its operand {name} is not supported")


def _number(extent: int | str, what: str) -> int:
    if isinstance(extent, str):
        raise CompileError(f"{what} is the symbol {extent!r}; bind it to a size")
    return extent


def _seen(node: Node, mask: Value, n: Any, steps: Any, total: Any) -> Value:
    """Return which keys a mask shows: one of each key, of each pair, or the lengths of rows."""
    if mask.rank == 2 and mask.shape[1] == total:
        return ops.reshape(cast(mask, "bool"), shape=(mask.shape[0], 1, 1, total))
    if mask.rank == 3 and mask.shape[1:] == (steps, total):
        return ops.reshape(cast(mask, "bool"), shape=(mask.shape[0], 1, steps, total))
    if mask.rank == 1 and mask.shape[0] in (n, 2 * n if isinstance(n, int) else None):
        keys = node.new(np.arange(_number(total, "the number of keys")).reshape(1, 1, 1, -1), "int64")
        ends = ops.reshape(cast(mask, "int64")[:n], shape=(n, 1, 1, 1))
        seen = keys < ends
        if mask.shape[0] == n:
            return seen
        return ops.logical_and(seen, keys >= ops.reshape(cast(mask, "int64")[n:], shape=(n, 1, 1, 1)))
    raise CompileError(
        f"a mask of shape {list(mask.shape)}, and prograd reads [batch, keys], [batch, queries, keys], [batch] and "
        "[2 * batch]"
    )


def _attended(node: Node, q: Value, k: Value, v: Value, mask: Value | None, added: Value | None, past: int) -> Value:
    """Return attention of heads, [n, heads, steps, size], as [n, steps, heads * size]."""
    n, _, steps, size = q.shape
    total = k.shape[2]
    scale = float(node.attribute("scale", 0.0)) or 1 / sqrt(int(size))
    scores = ops.matmul(q * scale, k, transpose_b=True)
    if mask is not None:
        seen = _seen(node, mask, n, steps, total)
        scores = ops.where(seen, scores, float(node.attribute("mask_filter_value", -10000.0)) + scores)
    if added is not None:
        scores = scores + added
    if node.attribute("unidirectional", 0):
        rows, columns = _number(steps, "the number of queries"), _number(total, "the number of keys")
        scores = ops.where(node.new(np.tri(rows, columns, past, dtype=bool)), scores, float(np.finfo(np.float32).min))
    return joined_heads(ops.matmul(ops.softmax(scores, axis=-1), v))


def _behind(past: Value | None, x: Value) -> Value:
    return x if past is None else ops.concat(past, x, axis=2)


def _attention(node: Node, x: Value, w: Value, bias: Value | None = None, *more: Value | None) -> Any:
    """Return attention of a tensor to itself, whose queries, keys and values are one product."""
    _require_absent(node, past_sequence_length=6)
    mask, past, added = (*more, None, None, None)[:3]
    heads = int(node.attribute("num_heads"))
    sizes = [int(s) for s in node.attribute("qkv_hidden_sizes") or [int(w.shape[1]) // 3] * 3]
    y = ops.matmul(x, w)
    y = y if bias is None else y + bias
    q, k, v = (split_heads(y[..., int(a) : int(b)], heads) for a, b in pairwise(np.cumsum([0, *sizes])))
    before = 0
    if past is not None:
        before = _number(past.shape[3], "the number of earlier keys")
        k, v = _behind(past[0], k), _behind(past[1], v)
    return _attended(node, q, k, v, mask, added, before), ops.stack(k, v, axis=0) if node.wants(1) else None


def _multi_head(node: Node, q: Value, *more: Value | None) -> Any:
    """Return attention of queries to keys and values, which may be packed or have heads of their own."""
    k, v, bias, mask, added, past_k, past_v = (*more, *(None,) * 7)[:7]
    heads = int(node.attribute("num_heads"))
    if bias is not None:
        if k is None or v is None or q.rank != 3 or k.rank != 3 or v.rank != 3:
            raise CompileError("a bias of packed queries, keys and values, which is not supported")
        sizes = np.cumsum([0, int(q.shape[2]), int(k.shape[2]), int(v.shape[2])])
        parts = [bias[int(a) : int(b)] for a, b in pairwise(sizes)]
        q, k, v = (x + part for x, part in zip((q, k, v), parts, strict=True))
    if k is None:
        q, k, v = _unpacked(q, 3)
    elif v is None:
        q, (k, v) = split_heads(q, heads), _unpacked(k, 2)
    else:
        q, k, v = (x if x.rank == 4 else split_heads(x, heads) for x in (q, k, v))
    before = 0 if past_k is None else _number(past_k.shape[2], "the number of earlier keys")
    k, v = _behind(past_k, k), _behind(past_v, v)
    return _attended(node, q, k, v, mask, added, before), k, v


def _unpacked(x: Value, count: int) -> list[Value]:
    """Return the parts of [n, steps, heads, count, size] as heads."""
    if x.rank != 5 or x.shape[3] != count:
        raise CompileError(
            f"packed operands of shape {list(x.shape)}, in place of [batch, steps, heads, {count}, size]"
        )
    return [ops.transpose(x[:, :, :, i], axis=(0, 2, 1, 3)) for i in range(count)]


def _rotated(node: Node, x: Value, positions: Value, cosines: Value, sines: Value) -> Value:
    """Return rotary embeddings; a single position is that of the first step."""
    if positions.rank == 1:
        steps = _number(x.shape[1 if x.rank == 3 else 2], "the number of steps")
        positions = ops.reshape(cast(positions, "int64"), shape=(1, 1)) + node.new(np.arange(steps)[None], "int64")
        positions = ops.broadcast_to(positions, shape=(x.shape[0], steps))
    heads = int(node.attribute("num_heads", 0))
    if x.rank == 3 and not heads:
        heads = int(x.shape[2]) // (2 * int(cosines.shape[1]))
    return rotary(replace(node, attributes=node.attributes | {"num_heads": heads}), x, cosines, sines, positions)


def _group_query(node: Node, q: Value, *more: Value | None) -> Any:
    """Return causal attention of groups of heads to earlier and own keys, and the keys and values that it has read."""
    k, v, past_k, past_v, lengths, _, cosines, sines, positions, added, *_ = (*more, *(None,) * 12)
    _require_absent(node, head_sink=11)
    if node.attribute("smooth_softmax", 0) > 0 or lengths is None:
        raise CompileError("smooth_softmax, or no lengths of rows, which is not supported")
    heads, groups = int(node.attribute("num_heads")), int(node.attribute("kv_num_heads"))
    if k is None or v is None:
        size = int(q.shape[2]) // (heads + 2 * groups)
        ends = np.cumsum([0, heads * size, groups * size, groups * size])
        q, k, v = (q[..., int(a) : int(b)] for a, b in pairwise(ends))
    q, k, v = split_heads(q, heads), split_heads(k, groups), split_heads(v, groups)
    n, _, steps, size = q.shape
    steps = _number(steps, "the number of steps")
    before = 0 if past_k is None else _number(past_k.shape[2], "the number of earlier keys")
    counts = ops.reshape(cast(lengths, "int64"), shape=(n, 1)) + 1
    first = counts - steps if before else counts * 0
    if node.attribute("do_rotary", 0):
        assert cosines is not None
        assert sines is not None
        places = first + node.new(np.arange(steps)[None], "int64") if positions is None else positions
        turning = replace(node, attributes={"interleaved": node.attribute("rotary_interleaved", 0),
                                            "rotary_embedding_dim": 2 * int(cosines.shape[1])})  # fmt: skip
        q, k = (rotary(turning, x, cosines, sines, places) for x in (q, k))
    if before:
        assert past_k is not None
        assert past_v is not None
        known = node.operands[6] if node.has(6) else None
        total = max(before, int(known.array().reshape(()))) if isinstance(known, Constant) else before + steps
        k, v = (_placed(node, past, x, first, total) for past, x in ((past_k, k), (past_v, v)))
    present = k, v
    if groups != heads:
        k, v = (ops.repeat(x, count=heads // groups, axis=1) for x in (k, v))
    scores = ops.matmul(q * (float(node.attribute("scale", 0.0)) or 1 / sqrt(int(size))), k, transpose_b=True)
    cap = float(node.attribute("softcap", 0.0))
    scores = ops.tanh(scores / cap) * cap if cap else scores
    scores = scores if added is None else scores + added
    keys = node.new(np.arange(_number(k.shape[2], "the number of keys")).reshape(1, 1, 1, -1), "int64")
    rows = ops.reshape(first, shape=(n, 1, 1, 1)) + node.new(np.arange(steps).reshape(1, 1, -1, 1), "int64")
    seen, window = keys <= rows, int(node.attribute("local_window_size", -1))
    seen = ops.logical_and(seen, keys > rows - window) if window > 0 else seen
    weights = ops.softmax(ops.where(seen, scores, float(np.finfo(np.float32).min)), axis=-1)
    return joined_heads(ops.matmul(weights, v)), *present


def _placed(node: Node, past: Value, x: Value, first: Value, total: int) -> Value:
    """Return earlier rows and own ones behind the first earlier ones of each sequence, `total` rows altogether."""
    before, steps = int(past.shape[2]), int(x.shape[2])
    both = ops.transpose(ops.concat(past, x, axis=2), axis=(0, 2, 1, 3))
    places = node.new(np.arange(total)[None], "int64")
    own = ops.clip(places - first, 0, steps - 1) + before
    taken = ops.where(places < first, ops.minimum(places, before - 1), own)
    rows = ops.gather_nd(both, ops.unsqueeze(taken, axis=(2,)), batch_axes=1)
    rows = ops.where(ops.unsqueeze(places < first + steps, axis=(2, 3)), rows, 0.0)  # nothing is behind the own ones
    return ops.transpose(rows, axis=(0, 2, 1, 3))


IMPORTS: Final[dict[str, Mapping]] = {
    "com.microsoft.Attention": on_plain(_attention),
    "com.microsoft.MultiHeadAttention": on_plain(_multi_head),
    "com.microsoft.RotaryEmbedding": on_plain(_rotated),
    "com.microsoft.GroupQueryAttention": on_plain(_group_query),
}
