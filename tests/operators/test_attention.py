"""Attention against loops over its queries, with masks and shared heads, for any size of chunks."""

import math
from itertools import product

import numpy as np
import pytest
from subjects.evaluate import block_of, evaluate, gradient, ops_of

from registry import OpError, ops
from runtime.engines.reference.kernels import windows

RNG = np.random.default_rng(3)

SIZES = [
    # queries, keys, values
    ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)),
    ((1, 6, 4, 2), (1, 2, 3, 2), (1, 2, 3, 2)),
]


def naive(q, k, v, mask=None, *, causal=False, scale=None):
    y = np.zeros((*q.shape[:3], v.shape[3]))
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    shared = q.shape[1] // k.shape[1]
    mask = None if mask is None else np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    for n, h, i in product(*map(range, q.shape[:3])):
        powers = {}
        for j in range(k.shape[2]):
            if (causal and j > i) or (mask is not None and mask.dtype == bool and not mask[n, h, i, j]):
                continue
            score = scale * sum(a * b for a, b in zip(q[n, h, i], k[n, h // shared, j], strict=True))
            powers[j] = math.exp(score + (0 if mask is None or mask.dtype == bool else mask[n, h, i, j]))
        for j, power in powers.items():
            y[n, h, i] += power / sum(powers.values()) * v[n, h // shared, j]
    return y


def masks(q, k):
    wide = (*q[:3], k[2])
    return [
        None,
        RNG.random(wide) < 0.6,
        RNG.random((wide[2], wide[3])) < 0.6,
        RNG.normal(size=(wide[0], 1, *wide[2:])),
    ]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("chunk", [1, 200, 500, windows.CHUNK_BYTES])
def test_attention_weights_values_by_softmax(sizes, kind, causal, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    arrays = [RNG.normal(size=size) for size in sizes]
    mask = masks(*sizes[:2])[kind]
    arrays += [] if mask is None else [mask]
    found = evaluate(lambda *xs: ops.scaled_dot_product_attention(*xs, causal=causal), *arrays)
    np.testing.assert_allclose(found, naive(*arrays, causal=causal), atol=1e-12)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("chunk", [1, 200, 500, windows.CHUNK_BYTES])
def test_the_gradients_of_attention_are_its_slopes(sizes, kind, chunk, monkeypatch):
    monkeypatch.setattr(windows, "CHUNK_BYTES", chunk)
    arrays = [RNG.normal(size=size) for size in sizes]
    mask = masks(*sizes[:2])[kind]
    arrays += [] if mask is None else [mask]
    grads = gradient(lambda *xs: ops.scaled_dot_product_attention(*xs, causal=True), *arrays)
    for i, grad in enumerate(grads):
        if arrays[i].dtype == bool:
            assert grad is None
            continue
        change = RNG.normal(size=arrays[i].shape)
        plus, minus = (
            naive(*[x + s * change if i == j else x for j, x in enumerate(arrays)], causal=True).sum()
            for s in (1e-5, -1e-5)
        )
        assert np.vdot(grad, change) == pytest.approx((plus - minus) / 2e-5, rel=1e-6, abs=1e-8)


def test_the_scale_may_be_given():
    arrays = [RNG.normal(size=size) for size in SIZES[0]]
    found = evaluate(lambda *xs: ops.scaled_dot_product_attention(*xs, scale=2.0), *arrays)
    np.testing.assert_allclose(found, naive(*arrays, scale=2.0))


def test_a_query_that_sees_no_key_gets_zeros_and_gives_no_gradient():
    arrays = [*(RNG.normal(size=size) for size in SIZES[0]), np.zeros((3, 5), bool)]
    assert (evaluate(ops.scaled_dot_product_attention, *arrays) == 0).all()
    assert all((grad == 0).all() for grad in gradient(ops.scaled_dot_product_attention, *arrays)[:3])


def test_large_scores_do_not_overflow():
    q = k = np.array([[[[1000.0], [-1000.0]]]])
    v = np.array([[[[1.0], [2.0]]]])
    np.testing.assert_array_equal(evaluate(ops.scaled_dot_product_attention, q, k, v), v)


def test_the_gradient_of_attention_is_one_op():
    arrays = [RNG.normal(size=size) for size in SIZES[0]]
    made = ops_of(ops.scaled_dot_product_attention, *arrays, differentiate=True)
    assert made.count("attention_gradient") == 1
    assert "softmax" not in made


def test_operands_that_do_not_fit_are_refused_in_a_sentence():
    _, [q, k, mask] = block_of((np.zeros((2, 3, 4, 5)), np.zeros((2, 2, 6, 5)), np.zeros((4, 5))))
    with pytest.raises(OpError) as refused:
        ops.scaled_dot_product_attention(q, k, k)
    assert str(refused.value).endswith("]): 2 heads of keys do not divide 3 heads of queries")
    with pytest.raises(OpError) as refused:
        ops.scaled_dot_product_attention(k, k, k, mask)
    assert str(refused.value).endswith("]): shapes [4, 5] and [2, 2, 6, 6] do not broadcast: 4 is not 6")


@pytest.mark.parametrize("window", [0, 1, 3, 9])
@pytest.mark.parametrize("heads", [(4, 2), (3, 1), (2, 2)])
def test_new_positions_attend_to_the_cached_ones_that_count(heads: tuple[int, int], window: int):
    h, g = heads
    lengths, room, new = np.array([0, 4, 6, 9, -2], np.int32), 6, 3
    shapes = [(5, h, new, 4), (5, g, new, 4), (5, g, new, 2), (5, g, room, 4), (5, g, room, 2)]
    q, k, v, keys, values = (RNG.normal(size=shape) for shape in shapes)
    there = np.clip(lengths, 0, room)
    for text, length in enumerate(there):
        keys[text, :, length:], values[text, :, length:] = np.nan, np.inf
    found = evaluate(lambda *xs: ops.cached_attention(*xs, scale=0.3, window=window), q, k, v, keys, values, lengths)
    for text, length in enumerate(there):
        whole = [np.concatenate([a[text, :, :length], b[text]], axis=1)[None] for a, b in ((keys, k), (values, v))]
        distance = np.arange(length, length + new)[:, None] - np.arange(length + new)
        seen = (distance >= 0) & ((distance < window) if window else True)
        wanted = naive(q[text : text + 1], *whole, seen, scale=0.3)
        np.testing.assert_allclose(found[text : text + 1], wanted, atol=1e-12)


CACHED = {"q": (2, 4, 3, 8), "k": (2, 2, 3, 8), "v": (2, 2, 3, 5), "keys": (2, 2, 9, 8), "values": (2, 2, 9, 5)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": (2, 2, 1, 8), "v": (2, 2, 1, 5)}, "there are 1 new keys for 3 queries"),
        ({"keys": (2, 2, 9, 7)}, "keys are float64[2, 2, 9, 7], not float64[2, 2, 9, 8]"),
        ({"values": (2, 2, 8, 5)}, "values are float64[2, 2, 8, 5], not float64[2, 2, 9, 5]"),
        ({"keys": (2, 2, 8)}, "cached keys have four axes: [n, heads, length, size]"),
        ({"lengths": (3,)}, "lengths are int32[3], not int32[2]"),
        ({"window": -1}, "window is -1, which is negative"),
    ],
    ids=str,
)
def test_cached_operands_must_fit(change: dict[str, tuple[int, ...]], said: str):
    shapes = {**CACHED, "lengths": (2,), "window": 0} | change
    window = shapes.pop("window")
    arrays = [np.zeros(shape, "int32" if name == "lengths" else "float64") for name, shape in shapes.items()]
    with pytest.raises(OpError) as refused:
        evaluate(lambda *xs: ops.cached_attention(*xs, window=window), *arrays)
    assert str(refused.value).endswith(f"): {said}")
