"""Division with a remainder against NumPy's, for operands of every size; and loops that go on while there is work."""

import numpy as np
import pytest
from native.building import call, every_target, pointwise

from runtime.codegen import math
from runtime.codegen.ir.words import any_lane, where

ODD = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 1e-30, np.inf, -np.inf, np.nan, 7.0, -0.1]


def wide_pairs(dtype, count=400):
    """Numbers of all exponents, subnormal ones included, and pairs whose quotient is small or whole."""
    rng, info = np.random.default_rng(5), np.finfo(dtype)
    a, b = (
        np.ldexp(rng.uniform(-1, 1, count), rng.integers(info.minexp - info.nmant, info.maxexp, count)).astype(dtype)
        for _ in range(2)
    )
    near = (b[:100] * rng.uniform(-9, 9, 100)).astype(dtype)
    odd = [x.ravel() for x in np.meshgrid(np.array(ODD, dtype), np.array(ODD, dtype))]
    whole = rng.integers(-20, 20, (2, 99)).astype(dtype)
    return (np.concatenate(x) for x in ((a, near, odd[0], whole[0]), (b, b[:100], odd[1], whole[1])))


@every_target
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_left_is_exact_for_quotients_of_any_size(target, dtype):
    with np.errstate(all="ignore"):
        a, b = wide_pairs(dtype)
        left, with_sign, down = pointwise(target, [math.fmod, math.remainder, math.floor_divide], a.dtype, a, b)
        for got, want in ((left, np.fmod(a, b)), (with_sign, np.remainder(a, b))):
            np.testing.assert_array_equal(got, want)
            assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
        np.testing.assert_allclose(down, np.floor_divide(a, b), rtol=2 * np.finfo(dtype).eps)
        small = np.abs(a / b) < 1e5
        np.testing.assert_array_equal(down[small], np.floor_divide(a, b)[small])


@every_target
@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
def test_whole_numbers_are_divided_as_numpy_does_it_and_never_stop_the_machine(target, dtype):
    info = np.iinfo(dtype)
    some = np.array(
        [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100, *([-1, -2, -7] * (info.min < 0))]
    )
    a, b = (x.ravel().astype(dtype) for x in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        results = pointwise(target, [math.fmod, math.remainder, math.floor_divide], a.dtype, a, b)
        for got, ufunc in zip(results, (np.fmod, np.remainder, np.floor_divide), strict=True):
            np.testing.assert_array_equal(got, ufunc(a, b), err_msg=ufunc.__name__)


@every_target
def test_a_repetition_goes_on_while_any_lane_has_work(target):
    lanes = target.lanes(64)

    def build(f, x, y):
        loop = f.repeat([f.load(x, 0, lanes), f.constant(x.type.element.of(lanes), 0)])
        for left, turns in loop:
            more = left > 0
            loop.carry([left - 1, where(more, turns + 1, turns)], any_lane(left > 1))
        f.store(loop.results[1], y)

    x = np.arange(lanes) * 3 - 3
    assert (call(target, build, [x, np.zeros_like(x)])[1] == np.maximum(x, 0)).all()
