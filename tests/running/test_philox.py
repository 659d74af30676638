"""Random numbers against the published answers of Philox, docs/format.md, and a second, scalar implementation."""

import math

import numpy as np
import pytest
from oracles.interpret import compute
from oracles.philox import (
    DOCUMENT,
    LOW,
    PLACES,
    answers,
    scalar_normal,
    scalar_philox,
    scalar_uniform,
    scalar_words,
)
from subjects.evaluate import evaluate, gradient

from prograd_proto import TensorType
from registry import Block, ops
from runtime.philox import BLOCKS_AT_A_TIME, SHUFFLE_STREAM, WORK_ROWS, permutation, random_bits_by_numpy


def words(count, *, seed, stream, step, first=0):
    out, work = np.empty(count, np.uint32), np.empty((WORK_ROWS, count // 4), np.uint64)
    random_bits_by_numpy(out, work, seed=seed, stream=stream, step=step, first=first)
    return out.tolist()


def drawn(op, shape, *, seed=42, stream=1, step=0, x=None, **attributes):
    """Return the result of a random op's kernel."""
    block = Block()
    counters = [block.define(name, TensorType("int64", ())) for name in ("seed", "step")]
    operands = [] if x is None else [block.define("x", TensorType(x.dtype.name, x.shape))]
    more = {} if x is not None else {"shape": shape}
    OP[op](*operands, *counters, **more, **attributes)
    [desc] = block.desc.ops
    desc.random_stream = stream
    [out] = compute(desc, [*([] if x is None else [x]), np.array(seed), np.array(step)])
    return out


OP = {"uniform": ops.uniform, "normal": ops.normal, "dropout": ops.dropout}


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([LOW] * 4, [LOW] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_its_published_answers(counter, key, answer):
    block, stream, low, high = counter
    seed = key[0] | key[1] << 32
    assert words(4, seed=seed, stream=stream, step=low | high << 32, first=block) == answer
    assert scalar_philox(counter, key) == answer
    for text in (f"{word:08x}" for word in [*counter, *key, *answer]):
        assert f"`{text}`" in DOCUMENT


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_words_are_those_of_the_scalar_implementation(place):
    assert words(64, **place) == scalar_words(64, **place)


def test_words_do_not_depend_on_where_drawing_starts_and_block_numbers_wrap_at_32_bits():
    whole = words(40, seed=3, stream=2, step=1)
    assert words(12, seed=3, stream=2, step=1, first=5) == whole[20:32]
    assert words(8, seed=3, stream=2, step=1, first=LOW)[4:] == whole[:4]


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_those_of_the_scalar_implementation_to_the_bit(place, dtype):
    numbers = scalar_uniform(35, dtype, **place)
    assert drawn("uniform", (5, 7), dtype=dtype, **place).tolist() == np.array(numbers).reshape(5, 7).tolist()
    between = np.array([-2.0 + 3.5 * u for u in numbers]).astype(dtype)
    assert drawn("uniform", (35,), dtype=dtype, low=-2.0, high=1.5, **place).tolist() == between.tolist()


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_those_of_the_scalar_implementation(place, dtype):
    numbers = np.array(scalar_normal(35, dtype, **place))
    tolerance = 1e-7 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(drawn("normal", (5, 7), dtype=dtype, **place).reshape(-1), numbers, rtol=tolerance)
    moved = drawn("normal", (35,), dtype=dtype, mean=3.0, deviation=0.5, **place)
    np.testing.assert_allclose(moved, 3.0 + 0.5 * numbers, rtol=tolerance)


@pytest.mark.parametrize("op", ["uniform", "normal"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_do_not_depend_on_the_size_of_the_tensor_or_of_pieces(op, dtype):
    count = 4 * BLOCKS_AT_A_TIME + 5
    large = drawn(op, (count,), dtype=dtype)
    for smaller in (1, 2, 7, count - 4):
        assert drawn(op, (smaller,), dtype=dtype).tobytes() == large[:smaller].tobytes()
    place = dict(seed=42, stream=1, step=0)
    last = {"uniform": scalar_uniform, "normal": scalar_normal}[op](count, dtype, **place)[-1]
    assert large[-1] == pytest.approx(last, rel=1e-6 if dtype == "float32" else 1e-14)


def test_seeds_streams_and_steps_give_different_numbers():
    drawings = {drawn("uniform", (3,), **place).tobytes() for place in PLACES}
    assert len(drawings) == len(PLACES)


def test_normal_numbers_have_the_moments_of_the_distribution():
    x = drawn("normal", (200_000,), dtype="float64")
    assert np.mean(x) == pytest.approx(0, abs=0.01)
    assert np.var(x) == pytest.approx(1, abs=0.02)
    assert np.mean(x**4) == pytest.approx(3, abs=0.1)
    assert np.mean(x[0::2] * x[1::2]) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_drops_where_a_word_is_below_the_rate(rate, dtype):
    x = np.linspace(1, 2, 35).astype(dtype).reshape(5, 7)
    place = dict(seed=9, stream=4, step=6)
    kept = np.array(scalar_words(35, **place)).reshape(5, 7) >= math.floor(rate * 2**32)
    y = drawn("dropout", None, x=x, ratio=rate, **place)
    np.testing.assert_allclose(y, np.where(kept, x / (1 - rate), 0), rtol=1e-6)


def test_dropout_keeps_its_share_of_a_tensor_of_many_pieces():
    y = drawn("dropout", None, x=np.ones(40_000, "float32"), ratio=0.2)
    assert np.count_nonzero(y) / y.size == pytest.approx(0.8, abs=0.01)
    assert set(np.unique(y).tolist()) == {0.0, 1.25}


def test_rows_are_ordered_by_keys_of_two_words():
    for rows in (0, 1, 2, 9, 10, 2 * BLOCKS_AT_A_TIME + 3):
        order = permutation(42, 5, rows)
        word = scalar_words(2 * rows, seed=42, stream=SHUFFLE_STREAM, step=5)
        keys = [high << 32 | low for high, low in zip(word[::2], word[1::2], strict=True)]
        assert order.dtype == np.int64
        assert order.tolist() == sorted(range(rows), key=keys.__getitem__)


def test_the_document_of_the_format_states_the_known_answers():
    place = dict(seed=42, stream=1, step=0)
    assert answers("words, hexadecimal") == [f"{word:08x}" for word in scalar_words(8, **place)]
    for op, scalar in (("uniform", scalar_uniform), ("normal", scalar_normal)):
        for dtype in ("float32", "float64"):
            stated = [np.dtype(dtype).type(text) for text in answers(f"`{op}`, {dtype}")]
            expected = np.array(scalar(len(stated), dtype, **place)).astype(dtype).tolist()
            assert stated == pytest.approx(expected, rel=1e-6 if dtype == "float32" else 1e-15)
    ones = drawn("dropout", None, x=np.ones(8, "float32"), ratio=0.5, **place)
    assert answers("`dropout` of ones, rate 0.5") == [f"{y:.0f}" for y in ones]
    for epoch in (0, 1):
        assert answers(f"order of 10 rows, epoch {epoch}") == [str(row) for row in permutation(42, epoch, 10)]


def test_the_gradient_of_dropout_draws_the_same_numbers_once_more():
    x = np.linspace(1, 2, 20)

    def squared(x):
        counter = ops.full.on(x.block)(shape=(), value=3, dtype="int64")
        return ops.square(ops.dropout(x, counter, counter, ratio=0.5))

    y = evaluate(squared, x)
    assert 0 < np.count_nonzero(y) < 20
    np.testing.assert_allclose(gradient(squared, x)[0], np.where(y > 0, 8 * x, 0))
