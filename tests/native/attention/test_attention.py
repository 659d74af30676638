"""Attention and its gradient against the reference: sizes with tails, masks of all kinds, heads in groups."""

from dataclasses import replace

import numpy as np
import pytest
from native.building import every_target
from native.made import Made, check

from registry import OPS
from runtime.engines.native.cpu import this_machine

Q, K = (2, 4, 21, 12), (2, 2, 37, 12)
"""Two heads of queries for one of keys; nothing is a multiple of a vector."""


def attention(causal=False, scale=0.3):
    def write(q, k, v, dy, mask=None):
        y = OPS["scaled_dot_product_attention"](q, k, v, mask, causal=causal, scale=scale)
        return y, *OPS["attention_gradient"](q, k, v, dy, mask, causal=causal, scale=scale)

    return write


def operands(q=Q, k=K, width=9, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = (q, k, (*k[:3], width), (*q[:3], width))
    return [rng.normal(0, 1, shape).astype(dtype) for shape in shapes]


@every_target
def test_attention_and_its_gradient(target):
    check(attention(), operands(), target)


def test_attention_in_float64():
    check(attention(), operands(dtype="float64"), this_machine(), near=1e-14)


MASKS = {
    "of keys": lambda rng: rng.random((2, 1, 1, 37)) > 0.4,
    "of queries and keys": lambda rng: rng.random((21, 37)) > 0.5,
    "of queries": lambda rng: rng.random((1, 4, 21, 1)) > 0.3,
    "that hides all keys of some": lambda rng: np.tile(np.arange(21)[:, None] % 3 > 0, (1, 37)),
    "added": lambda rng: rng.normal(0, 2, (4, 21, 37)).astype("f4"),
    "added of minus infinity": lambda rng: np.where(rng.random((2, 4, 21, 37)) > 0.5, 0, -np.inf).astype("f4"),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_every_kind(name):
    causal = name in ("of keys", "that hides all keys of some", "added")
    check(attention(causal), [*operands(), MASKS[name](np.random.default_rng(1))], this_machine())


LENGTHS = np.arange(100) < np.array([37, 100])[:, None, None, None]
"""Mask of the keys of two images; the hidden keys of the first one fill whole panels."""


@pytest.mark.parametrize("causal", [False, True])
def test_keys_that_nobody_sees_are_left_out(causal):
    given = operands((2, 4, 100, 12), (2, 2, 100, 12))
    check(attention(causal), [*given, LENGTHS], this_machine())


@pytest.mark.parametrize(("operand", "mask"), [("k", None), ("v", LENGTHS), ("dy", None)])
def test_what_is_hidden_and_not_finite_goes_where_it_goes_in_the_reference(operand, mask):
    given = dict(zip(("q", "k", "v", "dy"), operands((2, 4, 100, 12), (2, 2, 100, 12)), strict=True))
    given[operand][0, 1, 70, 3] = np.nan
    given[operand][1, 0, 90, 2] = np.inf
    check(attention(causal=mask is None), [*given.values(), mask], this_machine())


def test_a_head_with_many_queries_is_shared_by_threads():
    given = operands((1, 1, 70, 8), (1, 1, 70, 8), 8)
    made = Made(attention(causal=True), given)
    first, other = (made.native(this_machine(), threads) for threads in (1, 2))
    assert [x.tobytes() for x in first] == [x.tobytes() for x in other]
    check(attention(causal=True), given, replace(this_machine(), l2_bytes=1 << 15))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (53, 700), (16, 128), (5, 260)])
def test_any_number_of_queries_and_keys(queries, keys):
    given = operands((1, 2, queries, 8), (1, 2, keys, 8), 16)
    check(attention(causal=queries == 16), given, replace(this_machine(), l2_bytes=1 << 19))


def test_what_is_not_finite_goes_where_it_goes_in_the_reference():
    q, k, v, dy = operands()
    q[0, 0, 3, 2] = np.nan
    k[1, 0, 5] = 1e30
    v[1, 1, 7, 1] = np.inf
    check(attention(), [q, k, v, dy], this_machine())


def test_attention_has_the_same_bits_by_any_number_of_threads():
    made = Made(attention(causal=True), operands((2, 4, 100, 12), (2, 2, 90, 12)))
    first, *others = [made.native(this_machine(), threads) for threads in (1, 2, 3)]
    for other in others:
        assert [x.tobytes() for x in first] == [x.tobytes() for x in other]
