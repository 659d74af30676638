"""Multi-head attention of a sequence to itself or to another one, and of one position to a cache of earlier ones."""

from __future__ import annotations

from prograd import Value, ops
from prograd.layers.asked import channels, layer, program_of, refuse, require_beside
from prograd.layers.dense import dense
from prograd.layers.embedding import places
from prograd_proto import TensorType


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
    _divided(what, x, heads)

    q = _heads(dense(x, f"{name}.q", size, bias=bias), heads)
    k = _heads(dense(seen, f"{name}.k", size, bias=bias), heads)
    v = _heads(dense(seen, f"{name}.v", size, bias=bias), heads)
    if rotary:
        q, k = (ops.rotary_embedding(each, places(program_of(what, x), each.shape[2])) for each in (q, k))
    y = ops.scaled_dot_product_attention(q, k, v, _mask(what, seen, mask, lengths), causal=causal)
    y = ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape)
    return dense(y, f"{name}.out", size, bias=bias)


@layer
def attention_cache(x: Value, heads: int, length: int) -> tuple[Value, Value]:
    """Return an empty cache for `cached_attention`: keys and values [n, heads, length, c / heads] of zeros. No states.

    Args:
        x: floats [n, ..., c], for the number of rows, the channels and the dtype.
        heads: number of heads.
        length: number of positions that the cache has room for.
    """
    size = _divided("attention_cache", x, heads)
    if length < 1:
        refuse(x, f"attention_cache: length={length} is no room for a position")
    full, dtype = ops.full.on(program_of("attention_cache", x)), "float64" if x.dtype == "float64" else "float32"
    keys, values = (full(shape=(x.shape[0], heads, length, size), value=0.0, dtype=dtype) for _ in "kv")
    return keys, values


@layer
def cached_attention(
    x: Value,
    name: str,
    heads: int,
    cache: tuple[Value, Value],
    position: Value,
    *,
    rotary: bool = False,
    bias: bool = True,
) -> tuple[Value, tuple[Value, Value]]:
    """Return attention of one position x [n, 1, c] to itself and to those in a cache, and the cache with it.

    It computes one position of `attention(…, causal=True)` with the same states, in a loop that carries the cache. A
    cache of s positions holds the last s of them: position p is put into place p modulo s.

    Args:
        x: one position of sequences of floats; the states are those of `attention`.
        name: name of the layer.
        heads: number of heads, into which the channels are split.
        cache: keys and values [n, heads, s, c / heads], as `attention_cache` begins them.
        position: int64 of rank 0, the number of the position, from 0 on; a negative one stops the run.
        rotary: as in `attention`.
        bias: as in `attention`.
    """
    what = f"cached_attention {name!r}"
    size = heads * _divided(what, x, heads)
    if x.rank != 3 or x.shape[1] != 1:
        refuse(x, f"{what}: x is {x.type}, and has one position, as in x[:, i : i + 1]")
    if position.type != TensorType("int64", ()):
        refuse(x, f"{what}: position is {position.type}, and all rows are at one position, int64[]")
    keys, values = cache
    wanted = TensorType(x.dtype, (x.shape[0], heads, *keys.shape[2:3], size // heads))
    if keys.type != wanted or values.type != wanted or not isinstance(keys.shape[2], int):
        refuse(x, f"{what}: the cache is {keys.type} and {values.type}; attention_cache(x, {heads}, length) makes one")
    q, k, v = (_heads(dense(x, f"{name}.{part}", size, bias=bias), heads) for part in ("q", "k", "v"))
    places = ops.unsqueeze(position, axis=(0,))
    if rotary:
        q, k = (ops.rotary_embedding(each, places) for each in (q, k))
    length = int(keys.shape[2])
    place = ops.where(places < 0, places, ops.remainder(places, length))  # scatter refuses a negative index
    keys, values = (ops.scatter(old, place, new, axis=2) for old, new in ((keys, k), (values, v)))
    known = ops.range.on(x.block)(stop=length) <= position
    y = ops.scaled_dot_product_attention(q, keys, values, known)
    y = ops.reshape(ops.transpose(y, axis=(0, 2, 1, 3)), shape=x.shape)
    return dense(y, f"{name}.out", size, bias=bias), (keys, values)


def _divided(what: str, x: Value, heads: int) -> int:
    """Return the channels of a head."""
    size = channels(what, x)
    if heads < 1 or size % heads:
        refuse(x, f"{what}: heads={heads} does not divide {size} channels")
    return size // heads


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
