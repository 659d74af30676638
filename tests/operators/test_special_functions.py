"""erf, erfc, lgamma, digamma and polygamma against `math`, known constants and functional equations."""

import math

import numpy as np
import pytest
from subjects.evaluate import block_of, evaluate

from registry import OpError, ops

INF, NAN = math.inf, math.nan
EULER = 0.57721566490153286061


def spread(low: float, high: float, count: int = 3000) -> np.ndarray:
    return np.random.default_rng(0).uniform(low, high, count)


RANGES = [(0, 1e-3), (0, 0.46875), (0.4, 0.6), (0.46875, 4), (3.9, 4.1), (4, 10)]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("ends", [*RANGES, (10, 26.5)], ids=str)
@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_the_error_functions_agree_with_math_to_a_few_units_in_the_last_place(
    name: str, ends: tuple[float, float], sign: int
):
    x = sign * spread(*ends)
    expected = np.array([getattr(math, name)(element) for element in x.tolist()])
    error = np.abs(evaluate(getattr(ops, name), x) - expected) / np.spacing(np.abs(expected))
    assert error.max() <= 8


def test_the_error_functions_know_their_ends():
    x = np.array([-INF, -1e308, -0.0, 0.0, 30.0, 1e308, INF, NAN])
    assert evaluate(ops.erf, x)[:7].tolist() == [-1, -1, 0, 0, 1, 1, 1]
    assert np.signbit(evaluate(ops.erf, x)[2])
    assert evaluate(ops.erfc, x)[:7].tolist() == [2, 2, 1, 1, 0, 0, 0]
    assert np.isnan([evaluate(ops.erf, x)[7], evaluate(ops.erfc, x)[7]]).all()


@pytest.mark.parametrize("ends", [(1e-300, 1e-3), (0, 0.5), (0.5, 3), (3, 8.1), (8, 1e3), (1e3, 1e10), (1e100, 1e305)])
def test_lgamma_agrees_with_math(ends: tuple[float, float]):
    x = spread(*ends)
    expected = [math.lgamma(element) for element in x.tolist()]
    np.testing.assert_allclose(evaluate(ops.lgamma, x), expected, rtol=2e-15, atol=2e-15)


@pytest.mark.parametrize("ends", [(-1e-3, -1e-9), (-1, 0), (-5, -1), (-20, -5), (-1e3, -20)])
def test_lgamma_agrees_with_math_below_zero(ends: tuple[float, float]):
    x = spread(*ends)
    expected = [math.lgamma(element) for element in x.tolist()]
    np.testing.assert_allclose(evaluate(ops.lgamma, x), expected, rtol=2e-15, atol=2e-14)


def test_lgamma_keeps_its_precision_beside_its_zeros():
    step = np.array([1e-14, 1e-9, 1e-7]) * [[1], [-1]]
    one, two = (1 + step) - 1, (2 + step) - 2  # as the additions round them
    np.testing.assert_allclose(evaluate(ops.lgamma, 1 + one), -EULER * one + math.pi**2 / 12 * one**2, rtol=2e-14)
    slope, bend = 1 - EULER, (math.pi**2 / 6 - 1) / 2
    np.testing.assert_allclose(evaluate(ops.lgamma, 2 + two), slope * two + bend * two**2, rtol=1e-10)
    assert evaluate(ops.lgamma, np.array([1.0, 2.0])).tolist() == [0, 0]


def test_lgamma_knows_its_ends_and_poles():
    x = np.array([0.0, -0.0, -1.0, -2.0, -1e17, -1e308, INF, -INF, 1e308])
    assert evaluate(ops.lgamma, x).tolist() == [INF] * 9
    assert math.isnan(evaluate(ops.lgamma, np.array(NAN)))
    np.testing.assert_allclose(evaluate(ops.lgamma, np.array([-1e-300])), math.lgamma(1e-300), rtol=1e-15)
    mixed = evaluate(ops.lgamma, np.array([3.0, -0.5, 5.0]))
    np.testing.assert_allclose(mixed, [math.log(2), math.log(2 * math.sqrt(math.pi)), math.log(24)], rtol=1e-15)


ZETA_3 = 1.2020569031595942854
KNOWN = [
    (0, 1.0, -EULER),
    (0, 0.5, -EULER - 2 * math.log(2)),
    (0, 0.25, -EULER - math.pi / 2 - 3 * math.log(2)),
    (0, -0.5, -EULER - 2 * math.log(2) + 2),
    (1, 1.0, math.pi**2 / 6),
    (1, 0.5, math.pi**2 / 2),
    (1, -0.5, math.pi**2 / 2 + 4),
    (2, 1.0, -2 * ZETA_3),
    (2, 0.5, -14 * ZETA_3),
    (2, -0.5, -14 * ZETA_3 + 16),
    (3, 1.0, math.pi**4 / 15),
    (3, 0.5, math.pi**4),
    (3, -1.5, math.pi**4 + 96 + 96 / 81),
]


@pytest.mark.parametrize(("n", "x", "expected"), KNOWN)
def test_the_derivatives_of_lgamma_have_their_known_values(n: int, x: float, expected: float):
    function = ops.digamma if n == 0 else lambda x: ops.polygamma(x, n=n)
    np.testing.assert_allclose(evaluate(function, np.array([x])), expected, rtol=3e-15, atol=4e-15)


@pytest.mark.parametrize("n", range(7))
def test_the_derivatives_of_lgamma_recur(n: int):
    """f(x + 1) - f(x) is the n-th derivative of 1 / x."""
    function = ops.digamma if n == 0 else lambda x: ops.polygamma(x, n=n)
    for low, high in ((-3.9, -3.1), (-0.9, -0.1), (0.1, 1), (1, 10)):
        x = spread(low, high, 100)
        after, before = (evaluate(function, x + k) for k in (1, 0))
        step = (-1) ** n * math.factorial(n) / x ** (n + 1)
        scale = np.abs(after) + np.abs(before) + np.abs(step)
        assert (np.abs(after - before - step) <= 1e-13 * scale).all()


def test_the_derivatives_of_lgamma_know_their_ends_and_poles():
    x = np.array([0.0, -0.0, -1.0, -2.0, INF, 1e300])
    y = evaluate(ops.digamma, x)
    assert y[[0, 1, 4]].tolist() == [-INF, INF, INF]
    assert np.isnan(y[2:4]).all()
    assert y[5] == math.log(1e300)
    assert evaluate(lambda x: ops.polygamma(x, n=1), x).tolist() == [INF, INF, INF, INF, 0, 1e-300]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_negative_denormal_is_no_pole_of_digamma(dtype: str):
    tiny = np.finfo(dtype).smallest_subnormal
    assert evaluate(ops.digamma, np.array([-tiny, tiny, -0.0, 0.0], dtype)).tolist() == [INF, -INF, INF, -INF]


@pytest.mark.parametrize(("name", "units"), [("erf", 8), ("erfc", 12), ("lgamma", 1)])
def test_float32_is_right_to_a_few_units_in_the_last_place(name: str, units: int):
    x = np.concatenate([spread(-6, 9), spread(-1e-3, 1e-3), [0, -0.0, 3.92, 4, 100, -100]]).astype("float32")
    x = np.abs(x) + np.float32(0.1) if name == "lgamma" else x
    y = evaluate(getattr(ops, name), x)
    expected = np.array([getattr(math, name)(element) for element in x.tolist()], "float32")
    assert y.dtype == np.float32
    error = np.abs(y - expected) / np.maximum(np.spacing(np.abs(expected)), 1e-8 if name == "lgamma" else 0)
    assert error.max() <= units


def test_many_chunks_are_computed_like_one():
    x = np.random.default_rng(1).normal(size=(20001,)) * 3
    for function in (ops.erf, ops.erfc, ops.lgamma, ops.digamma):
        pieces = [evaluate(function, piece.copy()) for piece in (x[:8192], x[8192:9000], x[9000:])]
        np.testing.assert_array_equal(evaluate(function, x), np.concatenate(pieces))


def test_polygamma_wants_an_order_it_can_compute():
    _, [x] = block_of((np.ones(3),))
    for n in (0, 101):
        with pytest.raises(OpError) as caught:
            ops.polygamma(x, n=n)
        assert str(caught.value) == f"polygamma(x: float64[3]): n is {n}, not in 1 ... 100"
