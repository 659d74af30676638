"""Elementary functions against exact values (mpmath), the error in units of the last place; NaN and Inf as NumPy's."""

import math as library
import re

import mpmath
import numpy as np
import pytest
from native.building import HERE, every_target, pointwise

from runtime.codegen import math
from runtime.codegen.ir import FLOAT32, FLOAT64, INT32, INT64, Module, pointer
from runtime.codegen.ir.words import bits
from runtime.codegen.machine import INSTRUCTION_SETS, target
from runtime.codegen.math.quarter_turns import FRACTION_BITS, TWO_OVER_PI
from runtime.engines.native import jit

EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
}
NUMPYS = {name: getattr(np, name) for name in EXACT if hasattr(np, name)} | {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: np.array([library.erf(v) for v in x], x.dtype),
    "erfc": lambda x: np.array([library.erfc(v) for v in x], x.dtype),
}
TURNS = [0.50975794, 0.50813437, 0.510448554411622, 0.7588, 0.41025695, -0.11440882828927856, 1.0, -1.0, 0.5, -0.5]
POSITIVE = ("log", "log2", "log1p")
UP_TO_ONE = ("asin", "acos", "atanh")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.0, 1e30, -1e30, 1e-30, 200.0, -200.0, 1e300, -1e300]
BOUND = re.compile(r"at most ([\d.]+) (?:and ([\d.]+) )?ulp")

HARD = [26.744518, 44.57623, 16.987835, 0.37462462, 1.4002973, 0.70565467, 1.4060991, 0.40357816, 0.21647187, -6.232406]
HARD += [54.72604, 1.0021464, 0.9999583105, 0.9218749, 0.921875, -0.0309271, -5.5, 3.9, 4.2, 5.99, 20.0, 20.001, 0.35]


def points(name, dtype):
    rng = np.random.default_rng(7)
    wide = {"f4": 87.0, "f8": 700.0}[dtype]
    x = np.concatenate(
        [
            HARD,
            rng.uniform(-wide, wide, 60),
            rng.uniform(-2, 2, 80),
            np.exp(rng.uniform(-wide, 4, 60)),
            1 + rng.normal(0, 0.1, 40),
        ]
    )
    x = np.concatenate([x, -np.exp(rng.uniform(-80, 4, 21))]).astype(dtype)
    if name in UP_TO_ONE:
        return np.concatenate([np.tanh(x * 0.7), TURNS]).astype(dtype)
    if name == "acosh":
        return 1 + np.abs(x)
    return np.maximum(np.abs(x), np.finfo(dtype).tiny) if name in POSITIVE else x


def ulps(got, x, exact):
    """The largest error in units of the last place, of results that are not infinite."""
    worst, info = 0.0, np.finfo(got.dtype)
    with mpmath.workdps(40):
        for value, at in zip(got, x, strict=True):
            true = exact(mpmath.mpf(float(at)))
            if abs(true) >= float(info.max) or abs(true) < float(info.tiny):
                continue
            unit = mpmath.mpf(2) ** (int(mpmath.floor(mpmath.log(abs(true), 2))) - info.nmant)
            worst = max(worst, float(abs(mpmath.mpf(float(value)) - true) / unit))
    return worst


@pytest.mark.thorough
@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_no_function_is_farther_from_exact_than_its_docstring_says(target, dtype):
    names = list(EXACT)
    operands = np.concatenate([points(name, dtype) for name in names])
    words = [getattr(math, name) for name in names]
    results = pointwise(target, words, np.dtype(dtype), operands)
    for name, got in zip(names, results, strict=True):
        bound = float(BOUND.search(getattr(math, name).__doc__)[1 if dtype == "f4" else 2])
        mine = points(name, dtype)
        start = sum(points(before, dtype).size for before in names[: names.index(name)])
        worst = ulps(got[start : start + mine.size], mine, EXACT[name])
        assert worst <= bound, f"{name}: {worst} ulp"
        assert worst > bound / 4, f"{name}: only {worst} ulp of {bound}; these points try too little"


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nan_infinities_and_zeros_are_numpys(target, dtype):
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, dtype)
        results = pointwise(target, [getattr(math, name) for name in EXACT], np.dtype(dtype), x)
        for name, got in zip(EXACT, results, strict=True):
            want = NUMPYS[name](x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=0, err_msg=name)
            signs = ~np.isnan(want)
            assert (np.signbit(got) == np.signbit(want))[signs].all(), name


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_results_fade_and_small_operands_count(target, dtype):
    least = np.finfo(dtype).smallest_subnormal
    below = np.array([np.log(np.finfo(dtype).tiny) - 3, np.log(float(least)) + 0.5, -1e4], dtype)
    [small] = pointwise(target, [math.exp], np.dtype(dtype), below)
    whole = np.arange(np.log2(float(least)), np.log2(float(np.finfo(dtype).tiny)) + 2).astype(dtype)
    assert (pointwise(target, [math.exp2], np.dtype(dtype), whole)[0] == np.exp2(whole)).all()
    assert (np.abs(small - np.exp(below)) <= least).all()
    assert small[0] > 0
    assert small[2] == 0
    x = np.array([least, 3 * least, np.finfo(dtype).tiny / 2], dtype)
    got = pointwise(target, [math.log, math.expm1, math.log1p, math.tanh, math.erf], np.dtype(dtype), x)
    np.testing.assert_allclose(got[0], np.log(x.astype(dtype)), rtol=1e-6)
    for y in got[1:4]:
        assert (np.abs(y - x) <= least).all()


def test_the_gradient_of_gelu_takes_one_power():
    module = Module(target("avx512"))
    f = module.function("built", [pointer(FLOAT32)] * 2)
    z = f.load(f.arguments[0], 0, 16)
    f.store(math.erfc(z) + math.exp(-(z * z)), f.arguments[1])
    f.end()
    assert jit.assembly(module).count("vscalefps") == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_scaled_by_an_instruction_have_the_bits_of_those_scaled_by_additions(dtype):
    by_instruction, by_additions = target("avx512"), target("avx2")
    if by_instruction.name not in HERE:
        pytest.skip("this machine has no AVX-512")
    info, rng = np.finfo(dtype), np.random.default_rng(11)
    limits = [np.log(float(limit)) for limit in (info.smallest_subnormal, info.tiny, info.max)]
    near = [rng.uniform(limit - 2, limit + 2, 400) for limit in limits]
    x = np.concatenate([*near, rng.uniform(-3, 3, 200), SPECIAL])
    with np.errstate(over="ignore"):
        x = np.concatenate([x, x / np.log(2)]).astype(dtype)
    words = [math.exp, math.exp2, math.erfc]
    ours, theirs = (pointwise(t, words, np.dtype(dtype), x) for t in (by_instruction, by_additions))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)  # NaN equals NaN
        assert (np.signbit(one) == np.signbit(other))[~np.isnan(one)].all()
    assert any(0 < y < info.tiny for y in ours[0])


@every_target
@pytest.mark.parametrize(("dtype", "bound"), [("f4", 0.6), ("f8", 1.2)])
def test_powers_are_nearly_as_near_as_can_be(target, dtype, bound):
    rng, wide = np.random.default_rng(3), {"f4": 30, "f8": 250}[dtype]
    x, y = np.exp(rng.uniform(-wide, wide, 400)), rng.uniform(-3, 3, 400)
    x[:50] *= -1
    y[:50] = np.rint(y[:50] * 3)
    x[300:] = 1 + 10.0 ** rng.uniform(-7, -2, 100)
    y[300:] = 10.0 ** rng.uniform(1, 8, 100)
    worst = ulps_of_two(target, math.pow, mpmath.power, x.astype(dtype), y.astype(dtype))
    assert bound / 4 < worst <= bound
    assert float(BOUND.search(math.pow.__doc__)[1 if dtype == "f4" else 2]) == bound


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_angles_of_points_are_as_near_as_the_docstring_says(target, dtype):
    rng, wide = np.random.default_rng(4), {"f4": 30, "f8": 250}[dtype]
    y = rng.choice([-1, 1], 500) * 10.0 ** rng.uniform(-wide, wide, 500)
    x = rng.choice([-1, 1], 500) * np.abs(y) * 10.0 ** rng.uniform(-2, 2, 500)
    worst = ulps_of_two(target, math.atan2, mpmath.atan2, y.astype(dtype), x.astype(dtype))
    bound = float(BOUND.search(math.atan2.__doc__)[1 if dtype == "f4" else 2])
    assert bound / 2 < worst <= bound


def ulps_of_two(target, function, exact, x, y):
    [got] = pointwise(target, [function], x.dtype, x, y)
    worst, info = 0.0, np.finfo(x.dtype)
    with mpmath.workdps(60):
        for value, a, b in zip(got, x, y, strict=True):
            true = exact(mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            if float(info.tiny) < abs(true) < float(info.max) / 2:
                unit = mpmath.mpf(2) ** (int(mpmath.floor(mpmath.log(abs(true), 2))) - info.nmant)
                worst = max(worst, float(abs(mpmath.mpf(float(value)) - true) / unit))
    return worst


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_pairs_of_odd_numbers_are_numpys(target, dtype):
    large = float(np.finfo(dtype).max)
    odd = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 16777217, large, -large]
    y, x = (v.ravel() for v in np.meshgrid(np.array(odd, dtype), np.array(odd, dtype)))
    with np.errstate(all="ignore"):
        for got, want in zip(
            pointwise(target, [math.pow, math.atan2], x.dtype, x, y), (np.power(x, y), np.arctan2(x, y)), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=np.finfo(dtype).tiny)
            assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_angles_are_right_however_large_they_are(target, dtype):
    rng, wide = np.random.default_rng(8), {"f4": 38, "f8": 308}[dtype]
    x = np.concatenate([10.0 ** rng.uniform(5, wide, 60), np.rint(10.0 ** rng.uniform(3, 15, 30)) * np.pi / 2])
    x = (x * rng.choice([-1, 1], x.size)).astype(dtype)
    names = ("sin", "cos", "tan")
    for name, got in zip(names, pointwise(target, [getattr(math, name) for name in names], x.dtype, x), strict=True):
        with mpmath.workdps(350):
            exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        bound = float(BOUND.search(getattr(math, name).__doc__)[1 if dtype == "f4" else 2])
        for value, true, at in zip(got, exact, x, strict=True):
            assert abs(mpmath.mpf(float(value)) - true) <= bound * float(np.spacing(np.abs(value))), (name, at)


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_gamma_functions_are_as_near_as_their_docstrings_say(target, dtype):
    rng, wide = np.random.default_rng(9), {"f4": 30, "f8": 300}[dtype]
    x = [
        rng.uniform(-20, 20, 60),
        10.0 ** rng.uniform(-wide, wide, 30),
        rng.uniform(0, 3, 40),
        rng.uniform(-300, 0, 40),
    ]
    x = np.concatenate([*x, [-11.718057636824941, -165.8322060877479, 17.49717, 1.0, 2.0, 8.0, 7.999]]).astype(dtype)
    results = pointwise(target, [math.lgamma, math.digamma], x.dtype, x)
    for function, got in zip((math.lgamma, math.digamma), results, strict=True):
        exact = mpmath.digamma if function is math.digamma else lambda v: mpmath.re(mpmath.loggamma(v))
        with mpmath.workdps(40):
            true = [exact(mpmath.mpf(float(v))) for v in x]
            worst = max(float(abs(float(g) - t) / max(1, abs(t))) for g, t in zip(got, true, strict=True))
        bound = float(re.search(r"float32: ([\de-]+)" if dtype == "f4" else r"within ([\de-]+)", function.__doc__)[1])
        assert bound / 10 < worst <= bound


@every_target
def test_what_normal_numbers_are_below_is_right(target):
    p = np.concatenate([np.linspace(1e-10, 1 - 1e-10, 97), 10.0 ** -np.arange(1, 11), [0.075, 0.925, 0.5]])
    [got] = pointwise(target, [math.normal_quantile], p.dtype, p)
    with mpmath.workdps(40):
        true = [mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(float(v)) - 1) for v in p]
        assert max(float(abs(float(g) - t) / max(1, abs(t))) for g, t in zip(got, true, strict=True)) < 1e-14


def test_the_digits_of_two_over_pi_are_right():
    with mpmath.workprec(2000):
        assert int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** FRACTION_BITS)) == TWO_OVER_PI


@every_target
def test_whole_powers_of_two_are_exact(target):
    x = np.arange(-149, 128).astype("f4")
    assert (pointwise(target, [math.exp2], np.dtype("f4"), x)[0] == np.ldexp(np.float32(1), x.astype(int))).all()
    assert (pointwise(target, [math.log2], np.dtype("f4"), np.ldexp(np.float32(1), x.astype(int)))[0] == x).all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_no_function_calls_another(name):
    module = Module(target(name))
    f = module.function("all", [pointer(FLOAT32), pointer(FLOAT64)])
    for x in f.arguments:
        lanes = module.target.lanes(x.type.element.bits)
        for i, function in enumerate(EXACT):
            f.store(getattr(math, function)(f.load(x, i * lanes, lanes)), x, i * lanes)
        for function in (math.lgamma, math.digamma):
            f.store(function(f.load(x, 0, lanes)), x)
        for function in (math.pow, math.atan2, math.fmod):
            f.store(function(f.load(x, 0, lanes), f.load(x, 7, lanes)), x)
    numbers = [f.index(number) for number in (1, 2, 3)]
    f.store(bits(math.philox(*numbers, f.load(f.cast(x, INT64)), max(lanes, 4)), INT32), f.cast(x, INT32))
    f.end()
    used = {line.split()[0] for line in jit.assembly(module).splitlines() if line.strip()}
    assert not used & {"call", "callq", "bl", "blr"}
