"""Multi-head attention of a sequence to itself or to another one."""

from __future__ import annotations

from prograd import Value, ops
from prograd.layers.asked import channels, layer, program_of, refuse, require_beside
from prograd.layers.dense import dense
from prograd.layers.embedding import places


@layer
def attention(
    x: Value,
    name: str,
    heads: int,
    *,
    to: Value | None = None,
    mask: Value | None = None,
    lengths: Value | None = None,
    causal: bool = False,
    rotary: bool = False,
    bias: bool = True,
) -> Value:
    """Return multi-head attention of x [n, l, c] to itself or to another sequence: [n, l, c].

    Four dense layers compute the queries of x, the keys and values of `to`, and the result from the outputs of all
    heads.

    Args:
        x: sequences of floats; their program declares `w` [c, c] and `b` [c] under `name.q`, `name.k`, `name.v` and
            `name.out`.
        name: name of the layer.
        heads: number of heads, into which the channels are split.
        to: the sequences [n, s, c'] to attend to; x by default.
        mask: positions to attend to, bool, or a float that is added to the scores; broadcasts to [n, heads, l, s].
        lengths: int64 [n], the valid positions of each row of `to`.
        causal: position i attends to the positions 0 to i.
        rotary: rotate queries and keys by their positions: Su et al., 2021.
        bias: False leaves all b out.
    """
    what = f"attention {name!r}"
    size = channels(what, x, rank=3)
    seen = x if to is None else to
    channels(f"{what}, to", seen, rank=3)
    require_beside(f"{what}, to", x, seen)
    if heads < 1 or size % heads:
        refuse(x, f"{what}: heads={heads} does not divide {size} channels")

    q = _heads(dense(x, f"{name}.q", size, bias=bias), heads)
    k = _heads(dense(seen, f"{name}.k", size, bias=bias), heads)
    v = _heads(dense(seen, f"{name}.v", size, bias=bias), heads)
    if rotary:
        q, k = (ops.rotary_embedding(each, places(program_of(what, x), each.shape[2])) for each in (q, k))
    y = ops.scaled_dot_product_attention(q, k, v, _mask(what, seen, mask, lengths), causal=causal)
    y = ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape)
    return dense(y, f"{name}.out", size, bias=bias)


def _heads(x: Value, heads: int) -> Value:
    """Return x [n, l, heads * d] as [n, heads, l, d]."""
    n, length, size = x.shape
    return ops.transpose(ops.reshape(x, shape=(n, length, heads, int(size) // heads)), axis=(0, 2, 1, 3))


def _mask(what: str, seen: Value, mask: Value | None, lengths: Value | None) -> Value | None:
    """Return the mask without the positions behind the lengths."""
    if lengths is None:
        return mask
    require_beside(f"{what}, lengths", seen, lengths)
    number = places(program_of(what, seen), seen.shape[1])
    within = ops.unsqueeze(number < ops.unsqueeze(lengths, axis=(-1,)), axis=(1, 2))
    if mask is not None and mask.dtype != "bool":
        refuse(
            seen,
            f"{what}: mask is {mask.type}, and with lengths a mask is bool; make one mask of both, and give no lengths",
        )
    return within if mask is None else ops.logical_and(mask, within)
