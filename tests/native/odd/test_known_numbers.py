"""Operands that the code knows: NaN, infinities, zeros of both signs and denormals, as in the reference."""

import numpy as np
import pytest

import runtime
from compiler import Program, ops

ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 0.5, 2.0]
BINARY = ["maximum", "minimum", "add", "sub", "mul", "div", "pow", "fmod", "atan2"]
UNARY = {
    "clip from": lambda x, n: ops.clip(x, n, 1.0),
    "clip to": lambda x, n: ops.clip(x, -1.0, n),
    "where": lambda x, n: ops.where(x > n, x, n),
    "lerp": lambda x, n: ops.lerp(x, n, 0.25),
    "lerp by": lambda x, n: ops.lerp(x, 1.0, n),
}


def by_both(function, number: float) -> tuple[np.ndarray, np.ndarray]:
    """Results of both engines for ordinary and odd numbers beside a known one."""
    program = Program()
    x = program.input("x", "float32", (32, 64))
    program.outputs(y=function(x, number))
    desc = program.compile().desc
    feed = np.random.default_rng(0).normal(0, 2, (32, 64)).astype("f4")
    feed.flat[: 4 * len(ODD)] = ODD * 4
    made = [runtime.Run(desc, engine=name).step({"x": feed}, entry="predict")["y"] for name in ("native", "reference")]
    return made[0], made[1]


def alike(native: np.ndarray, reference: np.ndarray, signs: bool = True):
    np.testing.assert_allclose(native, reference, rtol=2e-6, atol=0)
    if signs:
        there = ~np.isnan(reference)
        np.testing.assert_array_equal(np.signbit(native[there]), np.signbit(reference[there]))


@pytest.mark.sampled(36)
@pytest.mark.parametrize("number", ODD)
@pytest.mark.parametrize("name", BINARY)
def test_a_known_number_beside_a_tensor(name: str, number: float):
    function = getattr(ops, name)
    signs = name not in ("maximum", "minimum") or number != 0  # docs/accuracy.md
    alike(*by_both(lambda x, n: function(x, n), number), signs=signs)
    alike(*by_both(lambda x, n: function(ops.full_like(x, n), x), number), signs=signs)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("number", ODD)
@pytest.mark.parametrize("name", UNARY)
def test_a_known_number_among_others(name: str, number: float):
    alike(*by_both(UNARY[name], number), signs=number != 0)


def test_nothing_is_larger_or_smaller_than_a_known_nan():
    for function in (ops.maximum, ops.minimum, lambda x, n: ops.clip(x, n, 1.0), lambda x, n: ops.clip(x, -1.0, n)):
        for made in by_both(function, np.nan):
            assert np.isnan(made).all()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "logsumexp"])
def test_a_reduction_of_one_known_number(name: str):
    for number in ODD:
        made = by_both(lambda x, n: x + getattr(ops, name)(ops.full.on(x.block)(shape=(), value=n)), number)
        alike(*made, signs=False)


def test_the_sign_of_minus_zero_is_zero():
    for made in by_both(lambda x, n: ops.sign(x * n), -0.0):
        there = ~np.isnan(made)
        np.testing.assert_array_equal(np.signbit(made[there]), False)
