"""Random choices against scalar implementations, docs/format.md and what distributions promise."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from oracles.interpret import compute
from oracles.philox import PLACES, answers, of_53_bits, scalar_normal, scalar_uniform, scalar_words
from subjects.evaluate import block_of, evaluate, gradient
from subjects.steps import Stepper

from compiler import Program, sgd
from prograd_proto import TensorType
from registry import Block, OpError, ops
from runtime.philox import BLOCKS_AT_A_TIME

PLACE = dict(seed=42, stream=1, step=0)


def drawn(op, *arrays, seed=42, stream=1, step=0, **attributes):
    """Return the result of a random op's kernel."""
    block = Block()
    counters = [block.define(name, TensorType("int64", ())) for name in ("seed", "step")]
    operands = [block.define(f"x{i}", TensorType(x.dtype.name, x.shape)) for i, x in enumerate(arrays)]
    getattr(ops, op)(*operands, *counters, **attributes)
    [desc] = block.desc.ops
    desc.random_stream = stream
    [out] = compute(desc, [*arrays, np.array(seed), np.array(step)])
    return out


def scalar_truncated(count, dtype, low, high, **place):
    normal = NormalDist()
    whole, bits = (scalar_words(count, **place), 32) if dtype == "float32" else (of_53_bits(count, **place), 53)
    first, last = normal.cdf(low), normal.cdf(high)
    return [normal.inv_cdf(first + (last - first) * (k + 0.5) / 2**bits) for k in whole]


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(("low", "high"), [(-2.0, 2.0), (-0.25, 6.0), (-6.0, -3.0)])
def test_truncated_normal_numbers_are_the_inverse_of_the_distribution(low, high, place):
    for dtype, rtol in (("float32", 1e-6), ("float64", 2e-12)):
        y = drawn("truncated_normal", shape=(5, 7), low=low, high=high, dtype=dtype, **place)
        expected = scalar_truncated(35, dtype, low, high, **place)
        np.testing.assert_allclose(y.reshape(-1), expected, rtol=rtol, atol=1e-7 if dtype == "float32" else 1e-14)
        moved = drawn(
            "truncated_normal", shape=(35,), low=low, high=high, mean=3.0, deviation=2.0, dtype=dtype, **place
        )
        np.testing.assert_allclose(moved, 3 + 2 * np.array(expected), rtol=1e-6)


def test_truncated_normal_numbers_keep_their_bounds_and_their_deviation():
    y = drawn("truncated_normal", shape=(200_000,), dtype="float64")
    assert -2 <= y.min() < -1.99
    assert 1.99 < y.max() <= 2
    assert np.std(y) == pytest.approx(0.8796, abs=0.003)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_bernoulli_is_one_where_a_word_is_below_the_probability(place):
    words = np.array(scalar_words(35, **place)).reshape(5, 7)
    for p in (0.0, 0.3, 0.5, 1.0):
        for dtype in ("bool", "float32", "uint8"):
            y = drawn("bernoulli", shape=(5, 7), probability=p, dtype=dtype, **place)
            assert y.tolist() == (words < math.floor(p * 2**32)).astype(dtype).tolist()


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 9), (-(2**31), 2**31)])
def test_whole_numbers_take_the_high_bits_of_a_product(low, high, place):
    expected = [low + (w * (high - low) >> 32) for w in scalar_words(35, **place)]
    for dtype in ("int32", "int64"):
        assert drawn("randint", shape=(35,), low=low, high=high, dtype=dtype, **place).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 2, 9, 4 * BLOCKS_AT_A_TIME + 5])
def test_a_permutation_is_the_order_of_words(count):
    words = scalar_words(count, seed=7, stream=3, step=2)
    expected = sorted(range(count), key=words.__getitem__)
    assert drawn("permutation", count=count, seed=7, stream=3, step=2).tolist() == expected


def test_a_class_is_where_the_running_sum_of_probabilities_passes_a_uniform_number():
    logits = np.random.default_rng(3).normal(size=(3, 4, 5))
    logits[..., 2] = -np.inf
    found = drawn("categorical", logits, **PLACE)
    for row, u, k in zip(logits.reshape(-1, 5), scalar_uniform(12, "float64", **PLACE), found.reshape(-1), strict=True):
        p = np.exp(row) / np.exp(row).sum()
        assert sum(p[:k]) <= u < sum(p[: k + 1])
    assert 2 not in found


def test_classes_have_their_probabilities():
    p = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.broadcast_to(np.log(p), (50_000, 4)).astype("float32")
    counts = np.bincount(drawn("categorical", np.ascontiguousarray(logits)), minlength=4)
    np.testing.assert_allclose(counts / 50_000, p, atol=0.01)
    assert counts[1] == 0


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (3, 2, 4), (1, 3)])
def test_orthogonal_matrices_have_orthonormal_columns_or_rows_with_the_signs_of_their_numbers(shape):
    y = drawn("orthogonal", shape=shape, gain=1.5, dtype="float64", **PLACE).reshape(-1, shape[-1])
    q = (y.T if y.shape[0] > y.shape[1] else y) / 1.5
    np.testing.assert_allclose(q @ q.T, np.eye(len(q)), atol=1e-14)
    normal = np.array(scalar_normal(q.size, "float64", **PLACE)).reshape(q.shape)
    other, r = np.linalg.qr(normal.T)
    np.testing.assert_allclose(q.T, other * np.sign(np.diag(r)), atol=1e-12)


def test_alpha_dropout_keeps_mean_and_variance_and_its_gradient_drops_the_same():
    x = np.random.default_rng(2).normal(size=100_000)
    y = drawn("alpha_dropout", x, ratio=0.3)
    assert np.mean(y) == pytest.approx(0, abs=0.02)
    assert np.var(y) == pytest.approx(1, abs=0.03)
    kept = np.array(scalar_words(100, **PLACE)) >= math.floor(0.3 * 2**32)
    c = -1.7580993408473766
    a = 1 / math.sqrt(0.7 * (1 + 0.3 * c * c))
    np.testing.assert_allclose(y[:100], a * np.where(kept, x[:100], c) - a * c * 0.3, rtol=1e-12)

    def dropped(x):
        counter = ops.full.on(x.block)(shape=(), value=3, dtype="int64")
        return ops.alpha_dropout(x, counter, counter, ratio=0.3)

    ones = np.ones(50)
    low, dx = evaluate(dropped, ones), gradient(dropped, ones)[0]
    assert 0 < np.count_nonzero(dx) < 50
    np.testing.assert_allclose(dx, np.where(low == low.min(), 0, a), rtol=1e-12)


def test_feature_dropout_drops_whole_channels_of_a_row_and_nothing_outside_training():
    program = Program(seed=3)
    x = program.input("x", "float32", ("n", 3, 2, 6))
    y = ops.feature_dropout(x, ratio=0.4)
    w = program.parameter("w", (), dtype="float32")
    program.minimize(ops.mean(y) * w, sgd(0.1))
    program.fetch("y", y)
    program.outputs(y=y, z=ops.alpha_dropout(x))
    compiled = program.compile(n=4)
    ones = np.ones((4, 3, 2, 6), "float32")
    found = Stepper(compiled).step(x=ones)["y"].reshape(4, 6, 6)
    assert (found == found[:, :1]).all()
    np.testing.assert_allclose(np.unique(found[:, 0]), [0, 1 / 0.6], rtol=1e-6)
    outside = Stepper(compiled, "predict").step(x=ones)
    assert (outside["y"] == 1).all()
    assert (outside["z"] == 1).all()


def test_the_document_of_the_format_states_the_known_answers_of_choices():
    for dtype in ("float32", "float64"):
        stated = [np.dtype(dtype).type(text) for text in answers(f"`truncated_normal`, {dtype}")]
        expected = scalar_truncated(4, dtype, -2.0, 2.0, **PLACE)
        assert stated == pytest.approx(expected, rel=1e-6 if dtype == "float32" else 1e-14)
    ones = drawn("bernoulli", shape=(8,), probability=0.3)
    assert answers("`bernoulli` of 0.3") == [f"{y:d}" for y in ones]
    assert answers("`randint` from -2 to 9") == [str(y) for y in drawn("randint", shape=(8,), low=-2, high=9)]
    assert answers("`permutation` of 8") == [str(y) for y in drawn("permutation", count=8)]
    equal = drawn("categorical", np.zeros((8, 5)))
    assert answers("`categorical` of equal logits, 5 classes") == [str(y) for y in equal]


@pytest.mark.parametrize(
    ("op", "attributes", "sentence"),
    [
        ("randint", dict(shape=(2,), low=3, high=3), "from low=3 to high=3 there are not 1 ... 2^32 numbers"),
        ("bernoulli", dict(shape=(2,), probability=1.5), "probability=1.5 is not in [0, 1]"),
        ("orthogonal", dict(shape=(2,)), "shape has 1 extents and needs two or more"),
        ("truncated_normal", dict(shape=(2,), low=2.0, high=-2.0), "low=2.0 and high=-2.0 do not rise within -6 ... 6"),
    ],
)
def test_choices_that_make_no_sense_are_errors(op, attributes, sentence):
    _, counters = block_of((np.array(0), np.array(0)))
    with pytest.raises(OpError) as caught:
        getattr(ops, op)(*counters, **attributes)
    assert str(caught.value) == f"{op}(seed: int64[], step: int64[]): {sentence}"
