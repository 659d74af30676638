"""Attention in blocks of heads or query rows whose weights fit into a cache; the weights are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.factors import all_widened, sum_dtype, wide_type, widened_types
from runtime.engines.reference.kernels.state_product import round_to_bfloat16
from runtime.engines.reference.kernels.windows import chunks, images_at_once
from runtime.kernel import Array, kernel
from runtime.row_rules import Operands, has_rows, pointwise

Numbers = tuple[int, ...]
Block = tuple[slice, slice, slice]


def attention_scratch(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType | None, causal: bool
) -> list[TensorType]:
    wide = widened_types(q, k, v)
    return [*wide, *weight_scratch(wide_type(q), k.static_shape[2], weight_block(q, k), mask, causal)]


def attention_rows(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if queries, keys and values have rows, and the mask has rows too or is repeated for every row."""
    q, k, v, *masks = operands
    return all(has_rows(x) for x in (q, k, v)) and pointwise(masks, result, attributes)


def attention_operations(q: TensorType, k: TensorType, v: TensorType) -> int:
    n, h, length, d = q.static_shape
    return 2 * n * h * length * k.static_shape[2] * (d + v.static_shape[3])


@kernel(scratch=attention_scratch, rows=attention_rows, operations=attention_operations)
def scaled_dot_product_attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    causal: bool,
    scale: float,
    out: Array,
    scratch: Sequence[Array],
) -> None:
    is_narrow = q.dtype == np.uint16
    (q, k, v), scratch = all_widened((q, k, v), scratch)
    queries, results = by_group(q, k), by_group(out, k)
    sees = None if mask is None else seen_by_group(mask, queries, k)
    for images, heads, rows in blocks(queries, k):
        keys, values = k[images, heads, None], v[images, heads, None]
        weights, line = powers_of(queries, keys, sees, (images, heads, rows), causal, scale, scratch)
        result = results[images, heads, :, rows]
        if is_narrow:
            np.matmul(round_to_bfloat16(weights, weights), values, result)
            np.divide(result, line, result)
        else:
            np.matmul(np.divide(weights, line, weights), values, result)


def attention_gradient_scratch(
    q: TensorType, k: TensorType, v: TensorType, dy: TensorType, mask: TensorType | None, causal: bool
) -> list[TensorType]:
    wide, dtype, block = widened_types(q, k, v, dy), sum_dtype(q.dtype), weight_block(q, k)
    part = (*block[:2], k.static_shape[2], max(k.static_shape[3], v.static_shape[3]))
    of_weights, of_part = (TensorType(dtype, (prod(shape),)) for shape in (block, part))
    return [*wide, *weight_scratch(wide_type(q), k.static_shape[2], block, mask, causal), of_weights, of_part]


def attention_gradient_operations(q: TensorType, k: TensorType, v: TensorType) -> int:
    n, h, length, d = q.static_shape  # the weights, and the gradients of all operands and of the weights
    return 2 * n * h * length * k.static_shape[2] * (3 * d + 2 * v.static_shape[3])


@kernel(scratch=attention_gradient_scratch, operations=attention_gradient_operations)
def attention_gradient(
    q: Array,
    k: Array,
    v: Array,
    dy: Array,
    mask: Array | None,
    *,
    causal: bool,
    scale: float,
    out: list[Array],
    scratch: Sequence[Array],
) -> None:
    """Compute the gradients; that of the scores is p * (dp - sum(p * dp)) for weights p and their gradient dp."""
    dq, dk, dv = out
    is_narrow = q.dtype == np.uint16
    (q, k, v, dy), scratch = all_widened((q, k, v, dy), scratch)
    *scratch, flat, part = scratch
    dk.fill(0)
    dv.fill(0)
    queries, shares, results = by_group(q, k), by_group(dy, k), by_group(dq, k)
    sees = None if mask is None else seen_by_group(mask, queries, k)
    for images, heads, rows in blocks(queries, k):
        keys, values = k[images, heads, None], v[images, heads, None]
        p, line = powers_of(queries, keys, sees, (images, heads, rows), causal, scale, scratch)
        np.divide(p, line, p)
        dp = flat[: p.size].reshape(p.shape)
        np.matmul(shares[images, heads, :, rows], values.swapaxes(-1, -2), dp)
        np.matmul(p[..., None, :], dp[..., :, None], line[..., None])
        np.subtract(dp, line, dp)
        np.multiply(dp, p, dp)
        np.multiply(dp, scale, dp)
        if is_narrow:
            round_to_bfloat16(p, p)
            round_to_bfloat16(dp, dp)
        add_products(p, shares[images, heads, :, rows], part, dv[images, heads])
        np.matmul(dp, keys, results[images, heads, :, rows])
        add_products(dp, queries[images, heads, :, rows], part, dk[images, heads])
        del p, line, dp  # the next block makes its own views


def powers_of(
    queries: Array, keys: Array, sees: Array | None, block: Block, causal: bool, scale: float, scratch: Sequence[Array]
) -> tuple[Array, Array]:
    """Return the powers [images, heads, heads of a group, rows, keys] of a block, and the sums of their rows.

    Both are in the first two scratch arrays; the weights are their quotients.
    """
    images, heads, rows = block
    q = queries[images, heads, :, rows]
    shape = (*q.shape[:-1], keys.shape[-2])
    weights = scratch[0][: prod(shape)].reshape(shape)
    line = scratch[1][: prod(shape[:-1])].reshape(*shape[:-1], 1)
    np.matmul(q, keys.swapaxes(-1, -2), weights)
    np.multiply(weights, scale, weights)
    if causal:
        np.copyto(weights, -np.inf, where=later_keys(scratch[-1], queries.shape[3], rows.start, shape[-2:]))
    if sees is not None and sees.dtype == np.bool_:
        hidden = scratch[2][: prod(shape)].reshape(shape)
        np.logical_not(sees[images, heads, :, rows], hidden)
        np.copyto(weights, -np.inf, where=hidden)
    elif sees is not None:
        np.add(weights, sees[images, heads, :, rows], weights)
    np.maximum.reduce(weights, axis=-1, out=line, keepdims=True, initial=np.finfo(weights.dtype).min)
    np.subtract(weights, line, weights)
    np.exp(weights, weights)
    np.add.reduce(weights, axis=-1, out=line, keepdims=True)
    np.maximum(line, np.finfo(weights.dtype).tiny, out=line)  # for a query that sees no key
    return weights, line


def later_keys(line: Array, length: int, row: int, shape: Numbers) -> Array:
    """Return a mask of keys that come after each query, from query `row` on.

    It is a view whose rows are one line, each shifted by one more element.
    """
    line[:length] = False
    line[length:] = True
    return np.ndarray(shape, np.bool_, line, length - 1 - row, (-1, 1))


def add_products(p: Array, x: Array, part: Array, out: Array) -> None:
    """Add p.T @ x of each head of a group to `out` [images, heads, keys, size]."""
    product = part[: out.size].reshape(out.shape)
    for of_group in range(p.shape[2]):
        np.matmul(p[:, :, of_group].swapaxes(-1, -2), x[:, :, of_group], product)
        np.add(out, product, out)


def blocks(queries: Array, k: Array) -> Iterator[Block]:
    """Yield the images, heads of keys and rows of queries of each block."""
    n, heads, _, length, _ = queries.shape
    images, groups, _, rows, _ = block_shape(queries.shape, k.shape[2], k.dtype.name)
    for image in chunks(n, images):
        for head in chunks(heads, groups):
            for row in chunks(length, rows):
                yield image, head, row


def block_shape(queries: Numbers, keys: int, dtype: str) -> Numbers:
    """Return the numbers of images, heads, heads of a group, rows and keys of a block."""
    n, heads, of_group, length, _ = queries
    row = of_group * keys
    if images_at_once(2, heads * length * row, dtype) == 2:
        return images_at_once(n, heads * length * row, dtype), heads, of_group, length, keys
    if images_at_once(2, length * row, dtype) == 2:
        return 1, images_at_once(heads, length * row, dtype), of_group, length, keys
    return 1, 1, of_group, images_at_once(length, row, dtype), keys


def weight_scratch(q: TensorType, keys: int, block: Numbers, mask: TensorType | None, causal: bool) -> list[TensorType]:
    """Return scratch for the weights, a number per row of them, the inverted mask, and a line for the causal mask."""
    scratch = [TensorType(q.dtype, (prod(block),)), TensorType(q.dtype, (prod(block[:-1]),))]
    if mask is not None and mask.dtype == "bool":
        scratch.append(TensorType("bool", (prod(block),)))
    if causal:
        scratch.append(TensorType("bool", (q.static_shape[2] + keys,)))
    return scratch


def by_group(x: Array, k: Array) -> Array:
    """Return the view [n, heads of keys, heads of a group, length, size] of x [n, heads, length, size]."""
    groups = k.shape[1]
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def seen_by_group(mask: Array, queries: Array, k: Array) -> Array:
    """Return the view of a mask with the axes of the weights."""
    n, groups, of_group, length, _ = queries.shape
    wide = np.broadcast_to(mask, (n, groups * of_group, length, k.shape[2]))
    return wide.reshape(n, groups, of_group, length, k.shape[2])


def weight_block(q: TensorType, k: TensorType) -> Numbers:
    """Return the shape of a block of weights."""
    n, heads, length, depth = q.static_shape
    groups, size = k.static_shape[1:3]
    return block_shape((n, groups, heads // groups, length, depth), size, sum_dtype(q.dtype))


def cached_attention_scratch(q: TensorType, keys: TensorType, values: TensorType) -> list[TensorType]:
    _, h, new, d = q.static_shape
    _, g, cached, e = values.static_shape
    shapes = (g, cached + new, d), (g, cached + new, e), (h * new * (cached + new),), (g, h // g * new, 1)
    return [TensorType(q.dtype, shape) for shape in shapes]


def cached_attention_operations(q: TensorType, keys: TensorType, values: TensorType) -> int:
    n, h, new, d = q.static_shape
    return 2 * n * h * new * (keys.static_shape[2] + new) * (d + values.static_shape[3])


@kernel(scratch=cached_attention_scratch, operations=cached_attention_operations)
def cached_attention(
    q: Array,
    k: Array,
    v: Array,
    keys: Array,
    values: Array,
    lengths: Array,
    *,
    scale: float,
    window: int,
    out: Array,
    scratch: Sequence[Array],
) -> None:
    all_keys, all_values, room, line = scratch
    (n, h, new, d), g = q.shape, k.shape[1]
    for text in range(n):
        length = min(max(int(lengths[text]), 0), keys.shape[2])
        count = length + new
        for whole, cached, added in ((all_keys, keys[text], k[text]), (all_values, values[text], v[text])):
            whole[:, :length], whole[:, length:count] = cached[:, :length], added
        queries = q[text].reshape(g, h // g * new, d)
        weights = room[: h * new * count].reshape(g, h // g * new, count)
        np.matmul(queries, all_keys[:, :count].swapaxes(1, 2), weights)
        np.multiply(weights, scale, weights)
        by_position = weights.reshape(g, h // g, new, count)
        for i in range(new):
            by_position[:, :, i, length + i + 1 :] = -np.inf
            if window:
                by_position[:, :, i, : max(length + i + 1 - window, 0)] = -np.inf
        np.maximum.reduce(weights, axis=2, out=line, keepdims=True, initial=np.finfo(weights.dtype).min)
        np.subtract(weights, line, weights)
        np.exp(weights, weights)
        np.sum(weights, axis=2, out=line, keepdims=True)
        np.maximum(line, np.finfo(weights.dtype).tiny, out=line)  # for scores of which none is finite
        np.divide(weights, line, weights)
        np.matmul(weights, all_values[:, :count], out[text].reshape(g, h // g * new, -1))
