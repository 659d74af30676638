"""The entries `read` and `next`, which write texts: new codes, beside the keys and values of earlier ones.

1. `read` takes up to `CHUNK` codes of each text, `next` takes one. Both return the next code of each text, and the keys
   and values of the codes that they read; the caller appends these to the earlier ones.
2. A position sees the first `lengths` positions of the caches, and the new ones up to itself. The rest of the caches
   is not read, so the time of a step grows with the texts, not with the room for them.
3. The next code is drawn within the program, from numbers that are fed: the same number draws the same code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from compiler.build.program import Program
from compiler.frontends.language_models.network import Network
from registry import Value, ops
from runtime.language.choices import MOST_CHOICES

CHUNK: Final = 64
"""The codes of a prompt that one step of `read` takes."""


class _Inputs(NamedTuple):
    """The inputs of an entry; see `add_writing`."""

    codes: Value
    counts: Value
    lengths: Value
    keys: Value
    values: Value


def add_writing(program: Program, network: Network, positions: int, texts: int) -> None:
    """Add both entries, for a number of texts with caches of that many positions.

    The inputs of an entry, here of `next`, are: `next.codes` int32 [texts, codes]; `next.counts` int32 [texts], how
    many of them count; `next.lengths` int32 [texts], the positions of the caches that count; `next.keys` and
    `next.values` float32 [layers, texts, groups, positions, head size]; `next.draws` float32 [texts], a number in
    [0, 1) for each; `next.seen` bool [texts, vocabulary], the codes that `next.repetition_penalty` is for;
    `next.temperature`, `next.top_p`, `next.repetition_penalty` float32 [texts] and `next.top_k` int32 [texts]. They
    fetch `code` int32 [texts], and `keys` and `values` [layers, texts, groups, codes, head size].
    """
    for entry, count in (("read", min(CHUNK, positions)), ("next", 1)):
        _add_entry(program, network, entry, count, positions, texts)


def _add_entry(program: Program, network: Network, entry: str, count: int, positions: int, texts: int) -> None:
    made = network.made
    cache = (made.layers, texts, made.groups, positions, made.head_size)
    given = _Inputs(
        program.input(f"{entry}.codes", "int32", (texts, count)),
        program.input(f"{entry}.counts", "int32", (texts,)),
        program.input(f"{entry}.lengths", "int32", (texts,)),
        program.input(f"{entry}.keys", "float32", cache),
        program.input(f"{entry}.values", "float32", cache),
    )
    keys, values = list[Value](), list[Value]()
    places = ops.unsqueeze(given.lengths, axis=(1,)) + ops.range.on(program)(stop=count, dtype="int32")
    places = ops.cast(ops.minimum(places, made.positions - 1), dtype="int64")

    def attend(layer: int, q: Value, k: Value, v: Value) -> Value:
        keys.append(k)
        values.append(v)
        window = made.windows[layer] or 0
        earlier = given.keys[layer], given.values[layer], given.lengths
        return ops.cached_attention(q, k, v, *earlier, scale=made.scale, window=window)

    x = network.hidden(given.codes, places, attend)
    last = ops.maximum(given.counts - 1, 0)
    x = ops.take_along_axis(x, ops.reshape(ops.cast(last, dtype="int64"), shape=(texts, 1, 1)), axis=1)
    scores = ops.reshape(network.scores(x), shape=(texts, made.vocabulary))
    program.entry(entry, code=_drawn(program, entry, scores, texts), keys=ops.stack(*keys), values=ops.stack(*values))


def _drawn(program: Program, entry: str, scores: Value, texts: int) -> Value:
    """Return a code for each text: the one with the largest score at the temperature 0, else one that is drawn."""
    draws, temperature, top_p, penalty = (
        ops.reshape(program.input(f"{entry}.{name}", "float32", (texts,)), shape=(texts, 1))
        for name in ("draws", "temperature", "top_p", "repetition_penalty")
    )
    top_k = ops.reshape(program.input(f"{entry}.top_k", "int32", (texts,)), shape=(texts, 1))
    seen = program.input(f"{entry}.seen", "bool", scores.type.static_shape)
    scores = ops.where(seen, ops.where(scores > 0.0, scores / penalty, scores * penalty), scores)
    choices = min(MOST_CHOICES, int(scores.shape[-1]))
    best, codes = ops.topk(scores, k=choices)
    rank = ops.range.on(program)(stop=choices, dtype="int32")
    warm = best / ops.maximum(temperature, 1e-6)
    shares = ops.softmax(ops.where(rank < top_k, warm, -1e30))
    shares = ops.where(ops.cumsum(shares, exclusive=True) < top_p, shares, 0.0)
    reached = ops.cumsum(shares)
    below = reached <= draws * ops.sum(shares, axis=(-1,), keepdims=True)
    at, kept = (ops.sum(ops.cast(each, dtype="int64"), axis=(-1,), keepdims=True) for each in (below, shares > 0.0))
    at = ops.where(temperature > 0.0, ops.maximum(ops.minimum(at, kept - 1), 0), 0)
    return ops.cast(ops.reshape(ops.take_along_axis(codes, at), shape=(texts,)), dtype="int32")
