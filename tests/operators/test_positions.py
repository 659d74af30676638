"""Embedding, positions and pixel shuffle against loops."""

import math
from itertools import product

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import evaluate, gradient
from subjects.values import check_orders, define

from prograd_proto import TensorType
from registry import Block, OpError, ops

RNG = np.random.default_rng(8)


def test_embedding_takes_rows_and_its_padding_gets_no_gradient():
    table, indices, share = RNG.normal(size=(4, 3)), np.array([[1, 0, 1], [2, 2, 0]]), RNG.normal(size=(2, 3, 3))
    for padding in (None, 2, 3):
        np.testing.assert_array_equal(
            evaluate(lambda t, i, p=padding: ops.embedding(t, i, padding_index=p), table, indices), table[indices]
        )
        expected = np.zeros((4, 3))
        for i, j in product(range(2), range(3)):
            if indices[i, j] != padding:
                expected[indices[i, j]] += share[i, j]
        found, *_ = gradient(lambda t, i, s, p=padding: ops.embedding(t, i, padding_index=p) * s, table, indices, share)
        np.testing.assert_allclose(found, expected)


def test_a_padding_index_outside_the_table_is_refused():
    block = Block()
    table, indices = (block.define(n, TensorType(d, s)) for n, d, s in (("t", "float32", (4, 3)), ("i", "int64", (2,))))
    assert told(OpError, lambda: ops.embedding(table, indices, padding_index=4)) == (
        "embedding(table: float32[4, 3], indices: int64[2]): padding_index=4 is not a row of float32[4, 3]"
    )


def test_sinusoidal_positions_are_sines_and_cosines():
    positions = np.array([[0, 1, 5], [7, 2, 100]])
    found = evaluate(lambda p: ops.sinusoidal_positions(p, size=6, base=50.0, dtype="float64"), positions)
    for place in np.ndindex(2, 3):
        for i in (0, 2, 4):
            angle = positions[place] / 50 ** (i / 6)
            np.testing.assert_allclose(found[place][i : i + 2], [math.sin(angle), math.cos(angle)], atol=1e-13)


@pytest.mark.parametrize("factors", [None, [2.0, 0.5]])
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_turn_pairs_in_their_plane(interleaved, factors):
    x, positions = RNG.normal(size=(2, 3, 5, 4)), np.array([0, 1, 2, 9, 4])
    found = evaluate(lambda x, p: ops.rotary_embedding(x, p, factors, base=50.0, interleaved=interleaved), x, positions)
    for n, h, p, i in product(range(2), range(3), range(5), range(2)):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + 2)
        turned = complex(x[n, h, p, a], x[n, h, p, b]) * np.exp(
            1j * positions[p] / 50 ** (2 * i / 4) / (factors or [1, 1])[i]
        )
        np.testing.assert_allclose([found[n, h, p, a], found[n, h, p, b]], [turned.real, turned.imag])


def test_rotary_positions_may_differ_in_a_batch_and_have_second_gradients():
    block = Block()
    x, positions, factors = (
        define(block, name, shape) for name, shape in (("x", (2, 1, 3, 4)), ("p", (2, 1, 3)), ("f", (2,)))
    )
    feeds = {"x": RNG.normal(size=(2, 1, 3, 4)), "p": RNG.normal(size=(2, 1, 3)), "f": np.array([1.5, 3.0])}
    y = ops.rotary_embedding(x, positions, factors)
    check_orders(y * y, [x, positions, factors], feeds, 2)


def test_pixel_shuffle_moves_channels_into_blocks_as_pytorch_does():
    x = RNG.normal(size=(2, 2, 3, 12))
    y = evaluate(lambda x: ops.pixel_shuffle(x, factor=2), x)
    assert y.shape == (2, 4, 6, 3)
    for n, r, c, d, i, j in product(range(2), range(2), range(3), range(3), range(2), range(2)):
        assert y[n, 2 * r + i, 2 * c + j, d] == x[n, r, c, 4 * d + 2 * i + j]
    back = evaluate(lambda x: ops.pixel_unshuffle(ops.pixel_shuffle(x, factor=2), factor=2), x)
    np.testing.assert_array_equal(back, x)


def test_positions_leave_a_batch_without_size_alone():
    block = Block()
    x, p = (block.define(n, TensorType(d, ("n", *s))) for n, d, s in (("x", "float32", (3, 4)), ("p", "int64", (3,))))
    assert ops.rotary_embedding(x, p).shape == x.shape
    assert ops.sinusoidal_positions(p, size=8).shape == ("n", 3, 8)
    image = block.define("image", TensorType("float32", ("n", 2, 3, 4)))
    assert ops.pixel_shuffle(image, factor=2).shape == ("n", 4, 6, 1)
    table = block.define("table", TensorType("float32", (9, 5)))
    assert ops.embedding(table, p, padding_index=0).shape == ("n", 3, 5)
