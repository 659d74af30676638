"""Attention, which stays one operator."""

from __future__ import annotations

import math
from typing import Final

from compiler.frontends.arranged import Arranged, arranged, expanded, ordered, plain, unsqueezed, viewed
from compiler.frontends.elements import cast_to
from compiler.frontends.extents import ONE, Extent, product
from compiler.frontends.torch.constants import Constant
from compiler.frontends.torch.operators.call import Call, Mapping
from prograd_proto.result_types.shapes import size_known
from registry import Value, ops


def _attention(
    call: Call,
    queries: Arranged | Constant,
    keys: Arranged | Constant,
    values: Arranged | Constant,
    mask: Arranged | Constant | None = None,
    rate: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Arranged:
    """Return the attention of [..., h, l, d]; axes before the heads are a batch.

    A mask that masks nothing is left out, and a lower triangle is `causal`.
    """
    q, k, v = map(call.tensor, (queries, keys, values))
    if isinstance(mask, Constant):
        kind = mask.mask_kind()
        is_causal, mask = is_causal or kind == "causal", None if kind else mask.tensor(call.block)
    heads = Extent.of(q.shape[-3].plain()) if q.rank > 3 else ONE
    batch = product(q.shape[:-3] if q.rank > 3 else q.shape[:-2])
    rows = Extent(1, batch.symbols) if not batch.is_plain else batch
    more = batch.over(rows)
    assert more is not None
    four = [viewed(x, (rows, more.times(x.shape[-3] if x.rank > 3 else ONE), *x.shape[-2:])) for x in (q, k, v)]
    if isinstance(mask, Arranged):
        mask = _with_heads(mask if mask.dtype == "bool" else cast_to(mask, call.dtype), q, batch)
        if more != ONE:
            mask = _over_heads(mask, rows, more, heads)
    given = None if mask is None else ordered(mask, range(mask.rank), broadcast=False)
    one, two, three = map(plain, four)
    y = ops.scaled_dot_product_attention(one, two, three, given, causal=is_causal, scale=scale or 0.0)
    if rate:
        y = ops.when_training(_dropped([one, two, three], given, rate, is_causal, scale), ops.stop_gradient(y))
    return viewed(arranged(y), call.shape)


def _with_heads(mask: Arranged, q: Arranged, batch: Extent) -> Arranged:
    """Return a mask with one axis of a batch; of queries without heads, with an axis of heads."""
    if q.rank == 3 and mask.rank == 3:
        return unsqueezed(mask, 1)
    if mask.rank <= 4:
        return mask
    lead = q.shape[:-3]
    mask = expanded(mask, (*lead, *mask.shape[-3:]))
    return viewed(mask, (batch, *mask.shape[-3:]))


def _over_heads(mask: Arranged, rows: Extent, more: Extent, heads: Extent) -> Arranged:
    """Return a mask of [rows * more, heads, l, s] as [rows, more * heads, l, s]."""
    mask = expanded(mask, ((ONE,) * (4 - mask.rank) + mask.shape))
    count = ONE if mask.held(0) == ONE else rows
    whole = expanded(mask, (count.times(more), heads, *mask.shape[2:]))
    return viewed(whole, (count, more.times(heads), *mask.shape[2:]))


def _dropped(values: list[Value], mask: Value | None, rate: float, causal: bool, scale: float | None) -> Value:
    """Return attention with dropout of the probabilities, which the operator does not have; for training alone.

    A query that attends to no key gets zeros, as in the operator.
    """
    q, k, v = values
    groups = size_known(q.shape[1], "heads") // size_known(k.shape[1], "heads")
    if groups > 1:
        k, v = (ops.repeat(x, count=groups, axis=1) for x in (k, v))
    depth = size_known(q.shape[-1], "the size of a query")
    scores = ops.matmul(q * (depth**-0.5 if scale is None else scale), k, transpose_b=True)
    if mask is not None:
        scores = ops.where(mask, scores, -math.inf) if mask.dtype == "bool" else scores + mask
    if causal:
        ones = ops.full.on(q.block)(shape=scores.shape[-2:], value=1.0, dtype="bool")
        scores = ops.where(ops.tril(ones), scores, -math.inf)
    if mask is None:
        shares = ops.softmax(scores)
    else:
        none = ops.equal(ops.max(scores, axis=(-1,), keepdims=True), -math.inf)
        shares = ops.where(none, 0.0, ops.softmax(ops.where(none, 0.0, scores)))
    return ops.matmul(ops.dropout(shares, ratio=rate), v)


SEES_CONSTANTS: Final = {"aten.scaled_dot_product_attention.default"}
"""Operators whose mappings look at the elements of constants."""

OPERATORS: Final[dict[str, Mapping]] = {"aten.scaled_dot_product_attention.default": _attention}
