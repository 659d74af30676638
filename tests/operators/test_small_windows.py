"""Convolution and pooling of images with one element or none, and of windows in the padding, against loops by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from oracles import windows as by_hand
from subjects.commands import told
from subjects.evaluate import block_of, computed, evaluate

from compiler import gradients
from registry import OpError, Value, ops

CONVOLUTIONS = [
    (axes, n, size, window, padding, groups, made)
    for axes, size, window, padding in (
        *((1, (size,), (window,), (padding,)) for size, window, padding in product((0, 1, 2), (1, 3), (0, 1, 2))),
        (1, (1,), (2,), (5,)),
        *((2, size, (2, 3), (1, 2)) for size in ((0, 1), (1, 0), (1, 1), (0, 0), (2, 1))),
        (2, (1, 1), (1, 1), (0, 0)),
        (2, (1, 1), (3, 3), (4, 4)),
        *((3, size, (2, 1, 2), (1, 0, 1)) for size in ((1, 1, 1), (0, 1, 1), (1, 2, 0))),
    )
    for n in (0, 2)
    for groups, made in ((1, 2), (2, 1), (2, 2))  # the channels are 2 with one group or two, or each its own
    if all(s + 2 * p >= w for s, w, p in zip(size, window, padding, strict=True))
]
STRIDES = {1: (2,), 2: (1, 2), 3: (1, 1, 1)}
DILATIONS = {1: (1,), 2: (1, 1), 3: (1, 1, 1)}


@pytest.mark.parametrize(("axes", "n", "size", "window", "padding", "groups", "made"), CONVOLUTIONS)
def test_convolution_and_its_gradients(
    axes: int,
    n: int,
    size: by_hand.Numbers,
    window: by_hand.Numbers,
    padding: by_hand.Numbers,
    groups: int,
    made: int,
):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(n, *size, 2)), rng.normal(size=(*window, 2 // groups, groups * made))
    attributes = STRIDES[axes], padding, DILATIONS[axes]
    wanted = by_hand.conv(x, w, attributes, groups)
    dy = rng.normal(size=wanted.shape)
    block, [vx, vw, vdy] = block_of((x, w, dy))
    y = ops.conv(vx, vw, stride=STRIDES[axes], padding=padding, groups=groups)
    grads = gradients([y], [vx, vw], [vdy])
    assert None not in grads
    found = computed(block, [y, *grads], (x, w, dy))
    for array, expected in zip(found, [wanted, *by_hand.conv_gradients(x, w, dy, attributes, groups)], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("size", "window", "padding"),
    [
        *(((size,), (window,), (0,)) for size, window in product((1, 2), (1, 3))),
        ((1,), (3,), (1,)),
        ((1, 1), (2, 3), (0, 1)),
        ((1, 2), (3, 1), (1, 0)),
        ((1, 1, 1), (2, 1, 2), (0, 0, 0)),
        ((1, 1, 2), (3, 2, 1), (1, 0, 0)),
    ],
)
@pytest.mark.parametrize("n", [0, 2])
def test_transposed_convolution_is_the_gradient_of_convolution(
    n: int, size: by_hand.Numbers, window: by_hand.Numbers, padding: by_hand.Numbers, groups: int
):
    rng = np.random.default_rng(1)
    attributes = (2,) * len(size), padding, (1,) * len(size)
    x, w = rng.normal(size=(n, *size, 2)), rng.normal(size=(*window, 2, 2))
    spread = tuple((s - 1) * 2 - 2 * p + k for s, p, k in zip(size, padding, window, strict=True))
    blank = np.zeros((n, *spread, 2 * groups))
    wanted, _ = by_hand.conv_gradients(blank, w, x, attributes, groups)
    y = evaluate(lambda x, w: ops.conv_transpose(x, w, stride=attributes[0], padding=padding, groups=groups), x, w)
    np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12, strict=True)


POOLS = [
    (size, window, stride, padding, dilation, ceil)
    for size, window, stride, padding, dilation, ceil in product(
        (1, 2, 4, 5), (1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2), (False, True)
    )
    if padding < window and size + 2 * padding >= dilation * (window - 1) + 1
]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pooling_at_ragged_edges(axes: int):
    rng = np.random.default_rng(2)
    cases = POOLS if axes == 1 else [POOLS[i] for i in rng.permutation(len(POOLS))[:40]]
    for size, window, stride, padding, dilation, ceil in cases:
        sizes, numbers = (size, *(2, 1)[: axes - 1]), (window, *(1, 1)[: axes - 1])
        attributes = [(k, *(other,) * (axes - 1)) for k, other in ((stride, 1), (padding, 0), (dilation, 1))]
        x = rng.normal(size=(2, *sizes, 2))
        words = dict(window=numbers, stride=attributes[0], padding=attributes[1], ceil_mode=ceil)
        try:
            wanted = by_hand.pool(x, numbers, attributes, np.max, ceil=ceil)
        except ValueError:  # NumPy has no maximum of nothing
            with pytest.raises(OpError, match="sees nothing but padding"):
                evaluate(lambda x, w=words, d=attributes[2]: ops.max_pool(x, **w, dilation=d), x)
            continue
        found = evaluate(lambda x, w=words, d=attributes[2]: ops.max_pool(x, **w, dilation=d), x)
        np.testing.assert_array_equal(found, wanted, strict=True)
        if dilation == 1:
            means = by_hand.pool(x, numbers, attributes, np.mean, ceil=ceil)
            np.testing.assert_allclose(evaluate(lambda x, w=words: ops.avg_pool(x, **w), x), means, rtol=1e-12)
            sums = by_hand.pool(x, numbers, attributes, lambda seen: np.sum(abs(seen) ** 3) ** (1 / 3), ceil=ceil)
            np.testing.assert_allclose(evaluate(lambda x, w=words: ops.lp_pool(x, p=3.0, **w), x), sums, rtol=1e-9)


def test_the_last_window_of_lp_pool_is_the_norm_of_what_it_sees():
    x = np.array([1.0, 2.0, 2.0, -5.0]).reshape(1, 4, 1)
    y = evaluate(lambda x: ops.lp_pool(x, window=(3,), stride=(3,), ceil_mode=True), x)
    np.testing.assert_allclose(y.reshape(-1), [3, 5])


@pytest.mark.parametrize(
    ("call", "size", "sentence"),
    [
        (
            lambda x: ops.max_pool(x, window=(2,), padding=(1,), dilation=(2,)),
            (1, 1, 1),
            "max_pool(x: float64[1, 1, 1]): the window (2,) sees nothing but padding at place 0 of axis 1",
        ),
        (
            lambda x: ops.max_pool2d(x, window=(2, 2), stride=(1, 1), padding=(1, 1)),
            (1, 0, 3, 1),
            "max_pool2d(x: float64[1, 0, 3, 1]): the window (2, 2) sees nothing but padding of an image of 0 x 3",
        ),
        (
            lambda x: ops.avg_pool2d(x, window=(2, 2), stride=(1, 1), padding=(1, 1)),
            (1, 2, 0, 1),
            "avg_pool2d(x: float64[1, 2, 0, 1]): the window (2, 2) sees nothing but padding of an image of 2 x 0",
        ),
    ],
)
def test_a_window_that_sees_nothing_but_padding_is_refused(
    call: Callable[[Value], Value], size: tuple[int, ...], sentence: str
):
    assert told(OpError, lambda: evaluate(call, np.zeros(size))) == sentence


def test_a_mean_that_counts_padding_needs_nothing_else():
    y = evaluate(
        lambda x: ops.avg_pool2d(x, window=(2, 2), stride=(1, 1), padding=(1, 1), count_include_pad=True),
        np.zeros((1, 0, 3, 1)),
    )
    np.testing.assert_array_equal(y, np.zeros((1, 1, 4, 1)))
