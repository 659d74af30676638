"""Reductions: near exact sums, in the tree that is promised, with NaN and tails, between forbidden pages."""

import math

import numpy as np
import pytest
from native.building import call, every_target

from runtime.codegen.ir import FLOAT32
from runtime.codegen.ir.words import maximum
from runtime.codegen.kernels.reduction import (
    ALL,
    ANY,
    LARGEST,
    MAX_CHAIN_ELEMENTS,
    PARALLEL_CHAINS,
    PRODUCT,
    SMALLEST,
    SUM,
    along_row,
    down_rows,
)

COUNTS = [0, 1, 3, 16, 37, 64, 100, 1000, 16 * PARALLEL_CHAINS * MAX_CHAIN_ELEMENTS * 2 + 77, 100_000]


def reduced(target, x, joinings, counts):
    """Each count's first elements of x, joined in each way: an array of counts by joinings."""
    lanes = target.lanes(8 * x.itemsize)

    def build(f, x, y):
        types = [x.type.element.of(lanes)] * len(joinings)
        for row, count in enumerate(counts):
            read = lambda i, tail: [f.load(x, i, lanes, tail)] * len(joinings)  # noqa: E731 -- called before it changes
            for column, value in enumerate(along_row(f, count, read, joinings, types)):
                f.store(value, y, row * len(joinings) + column)

    return call(target, build, [x, np.zeros((len(counts), len(joinings)), x.dtype)])[1]


def tree(x, lanes):
    """The promised tree of a sum, element by element: in the lanes of the nominal vector of the instruction set."""
    vectors = [x[i : i + lanes] for i in range(0, len(x), lanes)]
    rounds = len(x) // lanes // PARALLEL_CHAINS
    chains = [
        chained(vectors[c : rounds * PARALLEL_CHAINS : PARALLEL_CHAINS], lanes, x.dtype) for c in range(PARALLEL_CHAINS)
    ]
    for c, vector in enumerate(vectors[rounds * PARALLEL_CHAINS :]):
        chains[c][: len(vector)] += vector
    last = (chains[0] + chains[1]) + (chains[2] + chains[3])
    while last.size > 1:
        last = last[: last.size // 2] + last[last.size // 2 :]
    return last[0]


def chained(vectors, lanes, dtype):
    """Chains of chains."""
    while len(vectors) > MAX_CHAIN_ELEMENTS:
        unit = 1
        while unit * MAX_CHAIN_ELEMENTS < len(vectors):
            unit *= MAX_CHAIN_ELEMENTS
        vectors = [chained(vectors[i : i + unit], lanes, dtype) for i in range(0, len(vectors), unit)]
    return sum(vectors, np.zeros(lanes, dtype))


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_are_near_exact_and_in_the_promised_tree(target, dtype):
    x = np.random.default_rng(1).uniform(-1, 2, max(COUNTS)).astype(dtype)
    with np.errstate(all="ignore"):
        for count, [got] in zip(COUNTS, reduced(target, x, [SUM], COUNTS), strict=True):
            assert abs(got - math.fsum(x[:count].tolist())) <= np.finfo(dtype).eps * 20 * max(1, count / 40)
            if count:
                nominal = target.lanes(8 * x.itemsize) * target.vectors_per_nominal
                assert got == tree(x[:count], nominal), count


@every_target
def test_a_million_tenths_are_a_hundred_thousand(target):
    x = np.full(1 << 20, 0.1, "f4")
    [[got]] = reduced(target, x, [SUM], [x.size])
    assert got == pytest.approx(math.fsum(x.tolist()), rel=1e-6)


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1"])
def test_several_joinings_share_what_is_read(target, dtype):
    rng = np.random.default_rng(2)
    x = rng.integers(0, 100, 700).astype(dtype) if dtype[0] in "iu" else rng.normal(0, 1, 700).astype(dtype)
    counts = [1, 5, 64, 700]
    got = reduced(target, x, [LARGEST, SMALLEST, PRODUCT if dtype[0] in "iu" else SUM], counts)
    for count, [largest, least, product] in zip(counts, got, strict=True):
        assert largest == x[:count].max()
        assert least == x[:count].min()
        if dtype[0] in "iu":
            assert product == np.multiply.reduce(x[:count], dtype=dtype)


@every_target
def test_of_nothing_there_is_what_is_neutral(target):
    assert reduced(target, np.ones(1, "f4"), [SUM, LARGEST, SMALLEST, PRODUCT], [0])[0].tolist() == [
        0,
        -np.inf,
        np.inf,
        1,
    ]
    assert reduced(target, np.ones(1, "i4"), [SUM, LARGEST, SMALLEST], [0])[0].tolist() == [0, -(2**31), 2**31 - 1]


@every_target
def test_nan_wins_wherever_it_is(target):
    for place in (0, 3, 63, 64, 99):
        x = np.ones(100, "f4")
        x[place] = np.nan
        assert np.isnan(reduced(target, x, [SUM, LARGEST, SMALLEST], [100])[0]).all(), place


@every_target
def test_truths_are_joined_as_whole_numbers(target):
    x = np.array([1] * 70 + [0], "u1")
    assert reduced(target, x, [ALL, ANY], [70, 71]).tolist() == [[1, 1], [0, 1]]
    assert reduced(target, 1 - x, [ALL, ANY], [70, 71]).tolist() == [[0, 0], [0, 1]]


@every_target
@pytest.mark.parametrize(
    "rows", [0, 1, 2, MAX_CHAIN_ELEMENTS, 5 * MAX_CHAIN_ELEMENTS + 9, MAX_CHAIN_ELEMENTS**2 + MAX_CHAIN_ELEMENTS + 3]
)
def test_columns_are_joined_in_blocks_of_rows(target, rows):
    lanes = target.lanes()
    x = np.random.default_rng(3).normal(0, 1, (rows, lanes * 2)).astype("f4")

    def build(f, x, y):
        def read(i):
            return [f.load(x, i * 2 * lanes + c * lanes, lanes) for c in range(2)]

        for c, total in enumerate(down_rows(f, rows, read, [SUM, SUM], [FLOAT32.of(lanes)] * 2)):
            f.store(total, y, c * lanes)
        for c, total in enumerate(down_rows(f, rows, read, [LARGEST, SMALLEST], [FLOAT32.of(lanes)] * 2)):
            f.store(maximum(total, total), y, (2 + c) * lanes)

    got = call(target, build, [x, np.zeros((2, 2 * lanes), "f4")])[1]
    assert (got[0] == chained(list(x), 2 * lanes, x.dtype)).all()
    assert (got[1] == np.hstack([x.max(0, initial=-np.inf)[:lanes], x.min(0, initial=np.inf)[lanes:]])).all()
