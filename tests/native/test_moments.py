"""Mean and variance of each channel in one pass: as exact as two passes, with NaN, tails and parts, by any threads."""

import numpy as np
import pytest
from native.building import BEST, OTHERS, every_target
from native.made import Made

from registry import OPS
from runtime.engines.native.cpu import this_machine

ROWS = [(2, 3), (17, 5), (9, 37), (1000, 16), (16 * 64 * 3 + 5, 70)]
SHAPES = [*ROWS, (3, 5, 7, 33), (40, 9, 11, 130), (31, 24, 24, 32)]
IMAGES = (32, 16, 16, 64)
"""A shape whose parts are whole images."""


def moments(x, *, threads=1, target=None, momentum=0.9):
    """The batch's mean and variance, from running statistics of 0, which take a share of 1 - momentum of them."""
    channels = x.shape[-1]

    def write(x, scale, bias, running_mean, running_variance):
        _, mean, variance, batch_mean, root = OPS["batch_norm"](
            x, scale, bias, running_mean, running_variance, momentum=momentum
        )
        return mean, variance, batch_mean, root

    operands = [x, *(np.full(channels, value, x.dtype) for value in (1, 0, 0, 0))]
    made = Made(write, operands)
    mean, variance, batch_mean, root = made.native(target or this_machine(), threads)
    return mean / (1 - momentum), variance / (1 - momentum), batch_mean, root


def exact(x):
    rows = x.reshape(-1, x.shape[-1]).astype(np.longdouble)
    return rows.mean(0), rows.var(0)


def two_passes(x):
    """The variance by two passes in float32, with NumPy's sums by pairs along each channel."""
    rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
    mean = rows.mean(1, dtype=x.dtype)
    return ((rows - mean[:, None]) ** 2).mean(1, dtype=x.dtype)


def numbers(shape, mean, deviation, dtype="float32", seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * deviation + mean).astype(dtype)


@pytest.mark.sampled(3)
@every_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_are_exact(target, shape, dtype):
    x = numbers(shape, 0.5, 2, dtype)
    _, variance, mean, root = moments(x, target=target)
    near = 2e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(mean, exact(x)[0], rtol=0, atol=near * 4)
    np.testing.assert_allclose(variance, exact(x)[1], rtol=near * 4)
    np.testing.assert_allclose(root, 1 / np.sqrt(exact(x)[1] + 1e-5), rtol=near * 4)


@pytest.mark.parametrize("mean", [1e2, 1e4, -1e6])
@pytest.mark.parametrize("shape", [(1000, 16), IMAGES], ids=str)
def test_a_large_mean_costs_no_digits_that_two_passes_keep(shape, mean):
    """The deviation is 1; the last digit of numbers near 1e6 is 0.06."""
    x = numbers(shape, mean, 1)
    _, variance, found, _ = moments(x)
    wanted_mean, wanted = exact(x)
    error = np.abs(variance / wanted - 1).max()
    assert error <= max(2 * np.abs(two_passes(x) / wanted - 1).max(), 1e-6)
    np.testing.assert_allclose(found, wanted_mean, rtol=1e-7)


@pytest.mark.parametrize("first", [0.0, -3e3, 1e4, 2.5e8])
def test_a_first_row_that_is_far_from_the_others_costs_no_digits(first):
    """Such as the corner of an image whose border is zeros; each part begins with one."""
    x = numbers(IMAGES, 100, 1)
    x[:, 0, 0] = first
    _, variance, _, _ = moments(x)
    wanted = exact(x)[1]
    error = np.abs(variance / wanted - 1).max()
    assert error <= max(2 * np.abs(two_passes(x) / wanted - 1).max(), 1e-6)


def test_parts_with_distant_means_are_joined_exactly():
    x = numbers(IMAGES, 0, 1) + 1000 * np.arange(IMAGES[0], dtype="f4")[:, None, None, None]
    _, variance, mean, _ = moments(x)
    np.testing.assert_allclose(mean, exact(x)[0], rtol=1e-6)
    np.testing.assert_allclose(variance, exact(x)[1], rtol=2e-6)


def test_a_constant_has_no_variance():
    for value in (0.0, 0.1, 1e4, 3e18, 1e25):
        x = np.full(IMAGES, value, "f4")
        _, variance, mean, _ = moments(x)
        np.testing.assert_array_equal(mean, x[0, 0, 0])
        np.testing.assert_array_equal(variance, 0)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1, 15, 16, 500, -1])
@pytest.mark.parametrize("shape", [(1001, 20), IMAGES], ids=str)
def test_numbers_that_are_not_finite_reach_their_channel_alone(shape, row, odd):
    x = numbers(shape, 0, 1)
    x.reshape(-1, shape[-1])[row, 3] = odd
    _, variance, mean, root = moments(x)
    np.testing.assert_array_equal(mean[3], odd)
    assert np.isnan(variance[3])
    assert np.isnan(root[3])
    for found in (mean, variance, root):
        assert np.isfinite(np.delete(found, 3)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(9001, 130), IMAGES, (37, 16, 17, 64)], ids=str)
def test_any_number_of_threads_gives_the_same_bits(shape):
    x = numbers(shape, 3, 2)
    one, *others = [moments(x, threads=threads) for threads in (1, 2, 3, 16)]
    for other in others:
        assert [each.tobytes() for each in one] == [each.tobytes() for each in other]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", [other for other in OTHERS if other.fma], ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [(1000, 16), (9001, 48), IMAGES], ids=str)
def test_every_width_of_vectors_gives_the_same_bits(target, shape):
    x = numbers(shape, 3, 2)
    found = [moments(x, target=each) for each in (BEST, target)]
    assert [each.tobytes() for each in found[0]] == [each.tobytes() for each in found[1]]


def test_one_pass_computes_both_with_what_follows_from_them():
    operands = [numbers((64, 20), 0, 1), *(np.ones(20, "f4") for _ in range(4))]
    made = Made(lambda *xs: OPS["batch_norm"](*xs)[1:], operands)
    assert made.groups(this_machine()) == ["batch_norm"]


def test_other_sums_of_the_same_elements_are_a_group_of_their_own():
    operands = [numbers((64, 20), 0, 1), *(np.ones(20, "f4") for _ in range(4))]

    def write(x, *others):
        return OPS["sum"](x, axis=(0,)), OPS["batch_norm"](x, *others)[3]

    made = Made(write, operands)
    assert sorted(made.groups(this_machine())) == ["batch_norm", "sum"]
    for found, wanted in zip(made.native(this_machine()), made.wanted, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
