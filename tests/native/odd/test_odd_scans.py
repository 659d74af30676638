"""Recurrences and running products of what is not finite: both engines agree, and gradients have the limits."""

from math import inf, nan

import numpy as np
import pytest
from native.building import every_target
from native.made import check
from subjects.evaluate import gradient

from registry import OPS
from runtime.engines.native.cpu import this_machine

ODD = [nan, inf, -inf, 0.0, -0.0, 1e-45, 1.0, -2.0]


def odd(shape: tuple[int, ...], dtype: str, seed: int, share: float) -> np.ndarray:
    """Ordinary numbers, a share of which is odd."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, shape)
    where = rng.random(shape) < share
    x[where] = rng.choice(ODD, where.sum())
    return x.astype(dtype)


@every_target
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_recurrence_of_odd_numbers(target, dtype: str, reverse: bool):
    for axis, share in ((0, 0.02), (1, 0.005), (1, 0.1)):
        a, b = (odd((32, 64), dtype, seed, share) for seed in (1, 2))
        [y] = check(lambda a, b: OPS["linear_scan"](a, b, axis=axis, reverse=reverse), [a, b], target)  # noqa: B023
        assert not np.isfinite(y).all()


def test_factors_that_overflow_together_make_no_infinity():
    a, b = np.tile(np.array([1e-30, 1e30, 1e30, 1e-30], "f4"), (32, 16)), np.zeros((32, 64), "f4")
    b[:, 0] = 1e-37
    [y] = check(lambda a, b: OPS["linear_scan"](a, b, axis=1), [a, b], this_machine())
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("x", "dx"),
    [
        ([-inf, -inf, -inf], [inf, inf, inf]),
        ([inf, inf, inf], [inf, inf, inf]),
        ([2.0, -inf, 3.0], [-inf, 8.0, -inf]),
        ([nan, 1.0, 2.0], [4.0, nan, nan]),
    ],
)
def test_the_gradient_of_a_running_product_has_its_limits(x: list[float], dx: list[float]):
    """Return for -inf the limit of -n as n grows, element by element; docs/accuracy.md has PyTorch's result."""
    np.testing.assert_array_equal(gradient(lambda x: OPS["cumprod"](x), np.array(x))[0], dx)


def test_the_gradient_of_a_running_product_of_odd_numbers():
    x = odd((32, 64), "float32", 3, 0.01)

    def write(x, dy):
        before = OPS["cumprod"](x, exclusive=True)
        return before * OPS["linear_scan"](x, dy, reverse=True)

    check(write, [x, np.ones((32, 64), "f4")], this_machine(), near=1e-4)
