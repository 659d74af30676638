"""Attention of new positions to cached ones: whatever the lengths, the room, the windows and the threads."""

import numpy as np
import pytest
from native.building import SETS, every_target
from native.made import check

from registry import OPS
from runtime.codegen.machine import target as target_of
from runtime.engines.native.cpu import this_machine

SIZES = [(1, 9, 3, 1, 512, 64, 64), (2, 4, 2, 64, 200, 64, 48), (3, 4, 4, 5, 37, 31, 16), (2, 6, 2, 33, 300, 20, 7)]
"""Texts, heads, heads of keys, new positions, room, and the sizes of keys and values."""


def attention(window: int = 0):
    def write(*given):
        return [OPS["cached_attention"](*given, scale=0.3, window=window)]

    return write


def operands(size: tuple[int, ...], lengths: list[int], dtype: str = "float32") -> list[np.ndarray]:
    """Normal numbers, but NaN and infinity where nothing counts."""
    n, h, g, new, room, d, e = size
    rng = np.random.default_rng(size)
    shapes = [(n, h, new, d), (n, g, new, d), (n, g, new, e), (n, g, room, d), (n, g, room, e)]
    arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    counts = np.resize(np.array(lengths, "int32"), n)
    for text, length in enumerate(np.clip(counts, 0, room)):
        arrays[3][text, :, length:], arrays[4][text, :, length:] = np.nan, np.inf
    return [*arrays, counts]


@every_target
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("window", [0, 70])
def test_only_what_counts_is_read(size, window, target):
    for lengths in ([0, 1, 2], [17, 35, 200], [size[4], size[4] + 9, -3]):
        check(attention(window), operands(size, lengths), target)


@pytest.mark.parametrize("window", [0, 5])
def test_in_float64(window):
    check(attention(window), operands(SIZES[2], [30, 3, 0], "float64"), this_machine(), near=1e-13)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bits_are_equal_everywhere(size):
    given = operands(size, [150, 20, 7])
    first, *others = [
        check(attention(90), given, each, threads=1 + n % 2) for n, each in enumerate(map(target_of, SETS), size[0])
    ]
    for found in others:
        np.testing.assert_array_equal(found[0], first[0])


def test_a_cache_is_read_where_it_lies_in_a_larger_tensor():
    size = (2, 4, 2, 1, 96, 64, 64)
    *new, keys, values, lengths = operands(size, [50, 9])

    def write(q, k, v, keys, values, lengths):
        return [OPS["cached_attention"](q, k, v, keys[1], values[1], lengths, scale=0.1)]

    layers = [np.stack([np.zeros_like(x), x, np.zeros_like(x)]) for x in (keys, values)]
    check(write, [*new, *layers, lengths], this_machine())
