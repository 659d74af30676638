"""The entries `read` and `next`, which write texts: new codes, beside the keys and values of earlier ones.

1. `read` takes up to `CHUNK` codes of each text, `next` takes one. Both return the next code of each text and the keys
   and values of the codes that they took, which whoever runs them puts behind the earlier ones.
2. A position sees the first `lengths` positions of the caches, and the new ones up to itself. The scores of both are
   joined, which are few; the caches are read where they are fed.
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
        return _attended(network, given, layer, q, k, v)

    x = network.hidden(given.codes, places, attend)
    last = ops.maximum(given.counts - 1, 0)
    x = ops.take_along_axis(x, ops.reshape(ops.cast(last, dtype="int64"), shape=(texts, 1, 1)), axis=1)
    scores = ops.reshape(network.scores(x), shape=(texts, made.vocabulary))
    program.entry(entry, code=_drawn(program, entry, scores, texts), keys=ops.stack(*keys), values=ops.stack(*values))


def _attended(network: Network, given: _Inputs, layer: int, q: Value, k: Value, v: Value) -> Value:
    """Return the attention of new positions to those of the caches and to each other."""
    made = network.made
    texts, count, size = int(q.shape[0]), int(q.shape[2]), made.head_size
    groups, each = made.groups, made.heads // made.groups
    room = int(given.keys.shape[3])
    q = ops.reshape(q, shape=(texts, groups, each * count, size))
    old_keys, old_values = given.keys[layer], given.values[layer]
    there = ops.range.on(q.block)(stop=room, dtype="int32")
    here = ops.range.on(q.block)(stop=count, dtype="int32")
    asked = ops.unsqueeze(given.lengths, axis=(1,)) + here  # [texts, count], the position of each new code
    known = ops.reshape(there, shape=(1, 1, room)) < ops.reshape(given.lengths, shape=(texts, 1, 1))
    apart = ops.unsqueeze(here, axis=(1,)) - ops.unsqueeze(here, axis=(0,))
    before = apart >= 0
    window = made.windows[layer]
    if window and window < room:
        known = ops.logical_and(known, ops.unsqueeze(asked, axis=(2,)) - there < window)  # [texts, count, room]
        before = ops.logical_and(before, apart < window)
    known = ops.unsqueeze(known, axis=(1, 2))
    masked = [
        _masked(scores, mask, (texts, groups, each, count))
        for scores, mask in (
            (ops.matmul(q, old_keys, transpose_b=True) * made.scale, known),
            (ops.matmul(q, k, transpose_b=True) * made.scale, before),
        )
    ]
    weights = ops.softmax(ops.concat(*masked, axis=-1))
    y = ops.matmul(weights[..., :room], old_values) + ops.matmul(weights[..., room:], v)
    return ops.reshape(y, shape=(texts, made.heads, count, size))


def _masked(scores: Value, mask: Value, axes: tuple[int, int, int, int]) -> Value:
    texts, groups, each, count = axes
    last = int(scores.shape[-1])
    wide = ops.where(mask, ops.reshape(scores, shape=(texts, groups, each, count, last)), -1e30)
    return ops.reshape(wide, shape=(texts, groups, each * count, last))


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
