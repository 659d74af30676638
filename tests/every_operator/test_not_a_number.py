"""NaN and infinity through operators with kinks, ties and ends: expectations written by hand, values and gradients.

docs/decisions/0018-nan-propagates-through-extremes.md has the table of gradients at NaN.
"""

from collections.abc import Callable
from math import inf, nan

import numpy as np
import pytest
from subjects.evaluate import evaluate, gradient

import runtime
from compiler import Program
from registry import OPS, Value, ops

AT_NAN: dict[str, tuple[Callable[[Value], Value], float]] = {
    "relu": (ops.relu, 1),
    "threshold": (lambda x: ops.threshold(x, threshold=0.5, value=7.0), 1),
    "clip": (lambda x: ops.clip(x, -1.0, 1.0), 1),
    "leaky_relu": (lambda x: ops.leaky_relu(x, alpha=0.25), 0.25),
    "prelu": (lambda x: ops.prelu(x, ops.full_like(x, 0.25)), 0.25),
    "relu6": (ops.relu6, 0),
    "hard_tanh": (ops.hard_tanh, 0),
    "hard_sigmoid": (ops.hard_sigmoid, 0),
    **{name: (OPS[name], nan) for name in ("hard_swish", "elu", "celu", "selu", "softsign", "abs", "silu", "gelu")},
    **{name: (OPS[name], nan) for name in ("square", "sqrt", "exp", "log", "tanh", "sigmoid", "softplus", "mish")},
    **{name: (OPS[name], 1) for name in ("identity", "neg")},
}
"""The gradient where x is NaN, by operator; the sign of `neg` apart."""


@pytest.mark.parametrize("name", AT_NAN)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_stays_and_has_the_gradient_that_is_written_down(name: str, dtype: str):
    function, slope = AT_NAN[name]
    x = np.array([0.25, nan, 0.75], dtype)
    assert np.isnan(evaluate(function, x)).tolist() == [False, True, False]
    [dx] = gradient(function, x)
    assert dx is not None
    np.testing.assert_array_equal(abs(dx[1]), slope)
    assert np.isfinite(dx[[0, 2]]).all()


@pytest.mark.parametrize("function", [ops.maximum, ops.minimum])
def test_beside_nan_both_operands_have_the_whole_gradient(function: Callable[..., Value]):
    a, b = np.array([nan, 1.0, nan, -inf, inf]), np.array([1.0, nan, nan, nan, inf])
    assert np.isnan(evaluate(function, a, b)).tolist() == [True] * 4 + [False]
    da, db = gradient(function, a, b)
    np.testing.assert_array_equal([da, db], [[1, 1, 1, 1, 0.5]] * 2)


@pytest.mark.parametrize(
    ("function", "x", "y", "dx"),
    [
        (ops.relu, [inf, -inf, 0.0, -0.0], [inf, 0, 0, 0], [1, 0, 0, 0]),
        (ops.relu6, [inf, -inf, 6.0, 0.0], [6, 0, 6, 0], [0, 0, 0, 0]),
        (lambda x: ops.clip(x, -1.0, 1.0), [inf, -inf, 1.0, -1.0], [1, -1, 1, -1], [0, 0, 1, 1]),
        (ops.hard_tanh, [inf, -inf, 1.0, -1.0], [1, -1, 1, -1], [0, 0, 0, 0]),
        (ops.hard_sigmoid, [inf, -inf, 3.0, -3.0], [1, 0, 1, 0], [0, 0, 0, 0]),
        (lambda x: ops.leaky_relu(x, alpha=0.5), [inf, -inf, 0.0], [inf, -inf, 0], [1, 0.5, 0.5]),
        (ops.elu, [inf, -inf, 800.0, -800.0], [inf, -1, 800, -1], [1, 0, 1, 0]),
        (ops.abs, [inf, -inf, 0.0, -0.0], [inf, inf, 0, 0], [1, -1, 0, 0]),
        (ops.softplus, [inf, -inf, 800.0, -800.0], [inf, 0, 800, 0], [1, 0, 1, 0]),
        (ops.log_sigmoid, [inf, -inf, 800.0, -800.0], [0, -inf, 0, -800], [0, 1, 0, 1]),
        (ops.sigmoid, [inf, -inf, 800.0, -800.0], [1, 0, 1, 0], [0, 0, 0, 0]),
        (ops.tanh, [inf, -inf, 800.0, -800.0], [1, -1, 1, -1], [0, 0, 0, 0]),
        (ops.erf, [inf, -inf, 800.0, -800.0], [1, -1, 1, -1], [0, 0, 0, 0]),
        (ops.atan, [inf, -inf], [np.pi / 2, -np.pi / 2], [0, 0]),
        (ops.silu, [inf, 800.0, -800.0], [inf, 800, 0], [nan, 1, 0]),
        (ops.gelu, [inf, 800.0, -800.0], [inf, 800, 0], [nan, 1, 0]),
        (ops.mish, [inf, 800.0, -800.0], [inf, 800, 0], [nan, 1, 0]),
    ],
)
def test_infinities_and_ends(function: Callable[[Value], Value], x: list[float], y: list[float], dx: list[float]):
    for dtype in ("float64", "float32"):
        numbers = np.array(x, dtype)
        np.testing.assert_allclose(evaluate(function, numbers), np.array(y, dtype), rtol=1e-6)
        np.testing.assert_allclose(gradient(function, numbers)[0], np.array(dx, dtype), rtol=1e-6, atol=1e-300)


ROWS = np.array([[nan, 1, 2, 3], [1, nan, 3, nan], [inf, 1, inf, 2], [-inf, -inf, -inf, -inf]])


@pytest.mark.parametrize(
    ("function", "dx"),
    [
        (ops.max, [[nan] * 4, [nan] * 4, [0.5, 0, 0.5, 0], [0.25] * 4]),
        (ops.min, [[nan] * 4, [nan] * 4, [0, 1, 0, 0], [0.25] * 4]),
        (lambda x, axis: ops.sort(x)[:, 3], [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]),
        (lambda x, axis: ops.topk(x, k=1)[0], [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]),
        (ops.logsumexp, [[nan] * 4, [nan] * 4, [nan, 0, nan, 0], [0] * 4]),
    ],
)
def test_gradients_of_reductions_of_nan_and_infinity(function: Callable[..., Value], dx: list[list[float]]):
    np.testing.assert_array_equal(gradient(lambda x: function(x, axis=1), ROWS)[0], dx)


def pooled(x: np.ndarray, **attributes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray | None]:
    def function(x: Value) -> Value:
        return ops.max_pool(x, **attributes)

    return evaluate(function, x[:, :, None])[:, :, 0], gradient(function, x[:, :, None])[0][:, :, 0]


def test_the_maximum_under_a_window_is_nan_where_one_is_seen_and_the_last_has_the_gradient():
    y, dx = pooled(ROWS, window=(2,), stride=(1,))
    np.testing.assert_array_equal(y[:2], [[nan, 2, 3], [nan] * 3])
    np.testing.assert_array_equal(dx, [[1, 0, 1, 1], [0, 2, 0, 1], [1, 0, 2, 0], [1, 1, 1, 0]])


def test_padding_does_not_win_against_minus_infinity():
    y, dx = pooled(ROWS[3:], window=(3,), stride=(2,), padding=(1,))
    np.testing.assert_array_equal(y, [[-inf, -inf]])
    np.testing.assert_array_equal(dx, [[1, 1, 0, 0]])


ZERO_BELOW: list[tuple[str, Callable[[Value], Value], list[float]]] = [
    ("leaky_relu", lambda x: ops.leaky_relu(x, alpha=0.0), [inf, 2, 0, -0.0, -0.0, nan, nan]),
    ("leaky_relu, rounded", lambda x: ops.leaky_relu(x, alpha=1e-60), [inf, 2, 0, -0.0, -0.0, nan, nan]),
    ("leaky_relu, negative", lambda x: ops.leaky_relu(x, alpha=-1.0), [inf, 2, -0.0, 0, 2, inf, nan]),
    ("leaky_relu, steep", lambda x: ops.leaky_relu(x, alpha=2.0), [inf, 2, 0, -0.0, -4, -inf, nan]),
    ("prelu", lambda x: ops.prelu(x, ops.full_like(x, 0.0)), [inf, 2, 0, -0.0, -0.0, nan, nan]),
    ("elu", lambda x: ops.elu(x, alpha=0.0), [inf, 2, 0, -0.0, -0.0, -0.0, nan]),
    ("hard_swish", ops.hard_swish, [inf, 5 / 3, 0, -0.0, -1 / 3, nan, nan]),
    ("relu", ops.relu, [inf, 2, 0, 0, 0, 0, nan]),
]


@pytest.mark.parametrize(("name", "function", "expected"), ZERO_BELOW, ids=[case[0] for case in ZERO_BELOW])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_infinity_stays_above_a_slope_of_0(
    name: str, function: Callable[[Value], Value], expected: list[float], engine: str
):
    """Return x where x is positive, and slope * x elsewhere, as PyTorch does."""
    program = Program("p")
    x = program.input("x", "float32", ("n", 7))
    program.outputs(y=function(x))
    given = np.tile(np.float32([inf, 2, 0, -0.0, -2, -inf, nan]), (32, 1))
    found = runtime.Run(program.compile(n=32).desc, engine=engine).predict({"x": given})["y"]
    np.testing.assert_allclose(found, np.tile(np.float32(expected), (32, 1)), rtol=1e-6)
    if name.startswith("leaky_relu"):
        zero = np.float32(expected) == 0
        assert (np.signbit(found) == np.signbit(np.float32(expected)))[:, zero].all()
