"""Attention of queries to values by the similarity of keys."""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from prograd_proto.result_types.sequences import grouped_heads
from prograd_proto.result_types.shapes import size_known
from registry.composite import gradients_of
from registry.errors import require
from registry.op import op
from registry.ops.copy import as_factor, cast
from registry.ops.diagonals import tril
from registry.ops.fill import full
from registry.ops.linalg import matmul
from registry.ops.norm import softmax
from registry.ops.pointwise import where
from registry.ops.reduce import broadcast_to
from registry.ops.shape import reshape
from registry.traits import example, lowered
from registry.value import Value


@lowered("q", "k", "v")
@op
def scaled_dot_product_attention(
    q: Value, k: Value, v: Value, mask: Value | None = None, *, causal: bool = False, scale: float = 0.0
) -> TensorType:
    """Return softmax(scale * q @ k.T + mask) @ v for q [n, h, l, d], k [n, g, s, d], v [n, g, s, e].

    If there are fewer key heads g than query heads h, each group of h / g consecutive query heads shares a key head. A
    bool `mask` says which keys a query attends to; a float mask is added to the scores. It broadcasts to [n, h, l, s].
    With `causal`, query i attends to the keys 0 ... i. A query that attends to no key gets zeros. `scale` 0 stands for
    1 / sqrt(d). The gradient recomputes the l * s weights instead of keeping them, which costs one of five products;
    memory grows with l + s. The result of bfloat16 operands is float32; weights are rounded as a factor of v. Vaswani
    et al., 2017.
    """
    ...


@scaled_dot_product_attention.written
def scaled_dot_product_attention_written(q: Value, *, scale: float) -> dict[str, float]:
    size = size_known(q.shape[-1], "the size of a query") if q.rank else 0
    require(scale != 0 or size != 0, "queries of the size 0 have no scale of their own; give scale")
    return {"scale": scale or size**-0.5}


@scaled_dot_product_attention.gradient
def scaled_dot_product_attention_gradient(
    q: Value, k: Value, v: Value, mask: Value | None, dy: Value, *, causal: bool, scale: float
) -> tuple[Value | None, ...]:
    dmask = None
    if mask is not None and mask.dtype in FLOATS:  # kept only if the mask is trained

        def masked(mask: Value) -> list[Value]:
            return [_steps(q, k, v, mask, causal, scale)]

        [dmask] = gradients_of(masked, [mask], [dy])
    return *attention_gradient(q, k, v, as_factor(dy, q), mask, causal=causal, scale=scale), dmask


@lowered("q", "k", "v", "dy")
@op("dq", "dk", "dv")
def attention_gradient(
    q: Value, k: Value, v: Value, dy: Value, mask: Value | None = None, *, causal: bool = False, scale: float = 1.0
) -> tuple[TensorType, TensorType, TensorType]:
    """Return the gradients of scaled_dot_product_attention with respect to q, k and v; `scale` is not 0."""
    ...


@attention_gradient.gradient
def attention_gradient_gradient(
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    mask: Value | None,
    ddq: Value | None,
    ddk: Value | None,
    ddv: Value | None,
    *,
    causal: bool,
    scale: float,
) -> tuple[Value | None, ...]:
    def first(q: Value, k: Value, v: Value, dy: Value, *masks: Value) -> list[Value]:
        mine = masks[0] if masks else mask

        def attend(q: Value, k: Value, v: Value) -> list[Value]:
            return [_steps(q, k, v, mine, causal, scale)]

        grads = gradients_of(attend, [q, k, v], [_widened(dy)])
        return [grad for grad in grads if grad is not None]

    added = [mask] if mask is not None and mask.dtype in FLOATS else []
    grads = gradients_of(first, [q, k, v, dy, *added], [ddq, ddk, ddv])
    return (*grads, None) if not added else tuple(grads)


@example((1, 2, 1, 4), (1, 1, 1, 4), (1, 1, 1, 4), (1, 1, 3, 4), (1, 1, 3, 4), (1,))
@op(differentiable=False)
def cached_attention(
    q: Value,
    k: Value,
    v: Value,
    keys: Value,
    values: Value,
    lengths: Value,
    *,
    scale: float = 0.0,
    window: int = 0,
) -> TensorType:
    """Return the attention of the new positions of texts to earlier ones, whose keys and values are cached.

    The new queries are q [n, h, l, d], with k [n, g, l, d] and v [n, g, l, e]; `keys` [n, g, s, d] and `values` [n, g,
    s, e] begin with those of the int32 `lengths` [n] earlier positions, from 0 to s: the rest counts for nothing and is
    not read. New position i attends to all earlier positions and the new ones up to i; with `window`, only to the last
    `window` of these. Each group of h / g consecutive query heads shares a head of keys. `scale` 0 stands for 1 /
    sqrt(d).
    """
    ...


@cached_attention.written
def cached_attention_written(q: Value, *, scale: float) -> dict[str, float]:
    return scaled_dot_product_attention_written(q, scale=scale)


def _steps(q: Value, k: Value, v: Value, mask: Value | None, causal: bool, scale: float) -> Value:
    """Return the attention composed of ordinary operators, for gradients of higher order."""
    n, heads, length, depth = q.shape
    groups, size = k.shape[1:3]
    grouped = grouped_heads(heads, groups)
    k, v = (reshape(x, shape=(n, groups, 1, *x.shape[2:])) for x in (k, v))
    scores = matmul(reshape(q, shape=(n, *grouped, length, depth)), k, transpose_b=True) * scale
    shape = (n, heads, length, size)
    seen: list[Value] = []
    if mask is not None and mask.dtype in FLOATS:
        scores = scores + reshape(broadcast_to(mask, shape=shape), shape=scores.shape)
    elif mask is not None:
        seen.append(reshape(broadcast_to(mask, shape=shape), shape=scores.shape))
    if causal:
        seen.append(tril(full.on(q.block)(shape=(length, size), value=1, dtype="bool")))
    for part in seen:
        scores = where(part, scores, -1e30)
    weights = softmax(scores)
    for part in seen:
        weights = where(part, weights, 0.0)
    return reshape(matmul(as_factor(weights, v), v), shape=(n, heads, length, v.shape[-1]))


def _widened(x: Value) -> Value:
    """Return x in the dtype of sums of products."""
    return cast(x, dtype="float32") if x.dtype == "bfloat16" else x
