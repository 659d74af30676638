"""Elementary functions against exact values (mpmath), the error in units of the last place; NaN and Inf as NumPy's."""

import math as library
import re

import mpmath
import numpy as np
import pytest
from native.building import every_target, pointwise

from runtime.engines.native import jit, math
from runtime.engines.native.ir import FLOAT32, FLOAT64, Module, pointer
from runtime.engines.native.target import INSTRUCTION_SETS, target

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
}
NUMPYS = {
    name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sinh", "cosh")
} | {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: np.array([library.erf(v) for v in x], x.dtype),
}
POSITIVE = ("log", "log2", "log1p")
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
    assert (np.abs(small - np.exp(below)) <= least).all()
    assert small[0] > 0
    assert small[2] == 0
    x = np.array([least, 3 * least, np.finfo(dtype).tiny / 2], dtype)
    got = pointwise(target, [math.log, math.expm1, math.log1p, math.tanh, math.erf], np.dtype(dtype), x)
    np.testing.assert_allclose(got[0], np.log(x.astype(dtype)), rtol=1e-6)
    for y in got[1:4]:
        assert (np.abs(y - x) <= least).all()


@every_target
def test_powers_are_nearly_as_near_as_can_be(target):
    rng = np.random.default_rng(3)
    x, y = np.exp(rng.uniform(-30, 30, 200)).astype("f4"), rng.uniform(-3, 3, 200).astype("f4")
    x[:50] *= -1
    y[:50] = np.rint(y[:50] * 3)
    [got] = pointwise(target, [math.pow], np.dtype("f4"), x, y)
    with mpmath.workdps(40):
        for value, a, b in zip(got, x, y, strict=True):
            true = mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            if 2.0**-126 < abs(true) < 2.0**127:
                unit = mpmath.mpf(2) ** (int(mpmath.floor(mpmath.log(abs(true), 2))) - 23)
                assert abs(mpmath.mpf(float(value)) - true) <= unit * 0.6, (a, b)


@every_target
def test_powers_of_odd_numbers_are_numpys(target):
    odd = np.array([0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 16777217], "f4")
    x, y = (v.ravel() for v in np.meshgrid(odd, odd))
    [got] = pointwise(target, [math.pow], np.dtype("f4"), x, y)
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@every_target
def test_whole_powers_of_two_are_exact(target):
    x = np.arange(-149, 128).astype("f4")
    assert (pointwise(target, [math.exp2], np.dtype("f4"), x)[0] == np.ldexp(np.float32(1), x.astype(int))).all()
    assert (pointwise(target, [math.log2], np.dtype("f4"), np.ldexp(np.float32(1), x.astype(int)))[0] == x).all()


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_no_function_calls_another(name):
    module = Module(target(name))
    f = module.function("all", [pointer(FLOAT32), pointer(FLOAT64)])
    for x in f.arguments:
        lanes = module.target.lanes(x.type.element.bits)
        for i, function in enumerate(EXACT):
            f.store(getattr(math, function)(f.load(x, i * lanes, lanes)), x, i * lanes)
    x = f.arguments[0]
    f.store(math.pow(f.load(x, 0, module.target.lanes()), 2.5 * f.load(x, 7, module.target.lanes())), x)
    f.end()
    words = {line.split()[0] for line in jit.assembly(module).splitlines() if line.strip()}
    assert not words & {"call", "callq", "bl", "blr"}
