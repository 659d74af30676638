"""Values, kinks and ends of the activations, against formulas written with `math` and the conventions of PyTorch."""

import cmath
import math
from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of

from registry import OpError, ops

INF, NAN = math.inf, math.nan


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def normal_probability(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def softplus(x: float) -> float:
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


FORMULAS: dict[str, Callable[[float], float]] = {
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "celu": lambda x: max(x, 0) + min(0, math.expm1(x)),
    "selu": lambda x: 1.05070098735548049 * (x if x > 0 else 1.67326324235437728 * math.expm1(x)),
    "gelu": lambda x: x * normal_probability(x),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * math.tanh(softplus(x)),
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
    "softsign": lambda x: x / (1 + abs(x)),
    "hard_sigmoid": lambda x: min(max(x / 6 + 0.5, 0), 1),
    "hard_swish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "hard_tanh": lambda x: min(max(x, -1), 1),
    "relu6": lambda x: min(max(x, 0), 6),
}

WITH_ATTRIBUTES: list[tuple[str, dict, Callable[[float], float]]] = [
    ("leaky_relu", dict(alpha=0.3), lambda x: x if x > 0 else 0.3 * x),
    ("elu", dict(alpha=0.7), lambda x: x if x > 0 else 0.7 * math.expm1(x)),
    ("celu", dict(alpha=1.7), lambda x: x if x > 0 else 1.7 * math.expm1(x / 1.7)),
    ("softplus", dict(beta=2.5), lambda x: softplus(2.5 * x) / 2.5),
    ("hard_sigmoid", dict(alpha=0.2, beta=0.4), lambda x: min(max(0.2 * x + 0.4, 0), 1)),
    ("hard_tanh", dict(min=-0.5, max=2.0), lambda x: min(max(x, -0.5), 2)),
    ("threshold", dict(threshold=0.4, value=-1.5), lambda x: x if x > 0.4 else -1.5),
    (
        "gelu",
        dict(approximate="tanh"),
        lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
]
CASES = [*((name, {}, formula) for name, formula in FORMULAS.items()), *WITH_ATTRIBUTES]
each_case = pytest.mark.parametrize(("name", "attributes", "formula"), CASES, ids=[f"{n}-{a}" for n, a, _ in CASES])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_case
def test_an_activation_is_its_formula(name: str, attributes: dict, formula: Callable[[float], float], dtype: str):
    x = np.concatenate([np.linspace(-7, 7, 4200), [-1e-9, 0.0, 1e-9, -20.0, 20.0]]).astype(dtype)
    expected = np.array([formula(element) for element in x.tolist()], dtype)
    y = evaluate(lambda x: getattr(ops, name)(x, **attributes), x)
    rtol, atol = {"float32": (2e-6, 2e-7), "float64": (1e-14, 1e-15)}[dtype]
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=atol, strict=True)


@each_case
def test_an_activation_is_one_op_of_a_program(name: str, attributes: dict, formula: Callable[[float], float]):
    assert ops_of(lambda x: getattr(ops, name)(x, **attributes), np.ones(3)) == [name]


LIMITS = {
    "leaky_relu": (-INF, INF),
    "elu": (-1, INF),
    "celu": (-1, INF),
    "softplus": (0, INF),
    "log_sigmoid": (-INF, 0),
    "hard_sigmoid": (0, 1),
    "hard_tanh": (-1, 1),
    "relu6": (0, 6),
}


@pytest.mark.parametrize("name", LIMITS)
def test_an_activation_has_limits(name: str):
    assert tuple(evaluate(getattr(ops, name), np.array([-INF, INF]))) == LIMITS[name]


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "elu", "selu", "softplus", "log_sigmoid", "softsign"])
def test_large_numbers_do_not_overflow(name: str):
    y = evaluate(getattr(ops, name), np.array([-1e4, 1e4]))
    [dy] = gradient(getattr(ops, name), np.array([-1e4, 1e4]))
    assert np.isfinite(y).all()
    assert np.isfinite(dy).all()


@each_case
def test_nan_stays_nan(name: str, attributes: dict, formula: Callable[[float], float]):
    assert np.isnan(evaluate(lambda x: getattr(ops, name)(x, **attributes), np.array([NAN, 1.0]))).tolist() == [1, 0]


def test_gelu_of_float32_keeps_its_precision_too():
    x = np.float32([-12, -8, -3, -1e-6, 0, 1e-6, 3, 30, INF])
    expected = [element * math.erfc(-element / math.sqrt(2)) / 2 for element in x.tolist()]
    np.testing.assert_allclose(evaluate(ops.gelu, x), np.float32(expected), rtol=1e-5)


def slope_of_gelu(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2 + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def slope_of_gelu_by_tanh(x: float) -> float:
    """Return the derivative by a step along the imaginary axis."""
    z = complex(x, 1e-30)
    return (z / 2 * (1 + cmath.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))).imag / 1e-30


@pytest.mark.parametrize(("form", "slope"), [("none", slope_of_gelu), ("tanh", slope_of_gelu_by_tanh)])
def test_the_gradient_of_gelu_of_float32_keeps_its_digits_where_it_is_small(form: str, slope: Callable[[float], float]):
    x = np.float32([-5.5, -5, -4, -3, -2, -1, -1e-3, 0, 1e-3, 1, 2, 5])
    [dx] = gradient(lambda x: ops.gelu(x, approximate=form), x)
    np.testing.assert_allclose(dx, np.float32([slope(element) for element in x.tolist()]), rtol=5e-6)


def test_gelu_keeps_its_precision_where_it_is_small():
    x = np.array([-8.0, -20.0, -30.0])
    expected = [element * math.erfc(-element / math.sqrt(2)) / 2 for element in x.tolist()]
    np.testing.assert_allclose(evaluate(ops.gelu, x), expected, rtol=1e-12)


KINKS = [
    ("leaky_relu", {}, 0.0, 0.01),
    ("elu", dict(alpha=0.7), 0.0, 0.7),
    ("celu", dict(alpha=0.7), 0.0, 1.0),
    ("selu", {}, 0.0, 1.05070098735548049 * 1.67326324235437728),
    ("softsign", {}, 0.0, 1.0),
    ("hard_sigmoid", {}, -3.0, 0.0),
    ("hard_sigmoid", {}, 3.0, 0.0),
    ("hard_swish", {}, -3.0, 0.0),
    ("hard_swish", {}, 3.0, 1.0),
    ("hard_tanh", {}, -1.0, 0.0),
    ("hard_tanh", {}, 1.0, 0.0),
    ("relu6", {}, 0.0, 0.0),
    ("relu6", {}, 6.0, 0.0),
    ("threshold", dict(threshold=0.5, value=3.0), 0.5, 0.0),
]


@pytest.mark.parametrize(("name", "attributes", "x", "slope"), KINKS)
def test_the_gradient_at_a_kink_is_pytorchs(name: str, attributes: dict, x: float, slope: float):
    [dx] = gradient(lambda x: getattr(ops, name)(x, **attributes), np.array([x]))
    np.testing.assert_allclose(dx, [slope], rtol=1e-15)


def test_prelu_has_a_slope_for_each_channel():
    x, slope = np.array([[-2.0, -2.0], [0.0, 3.0]]), np.array([0.5, 0.1])
    assert evaluate(ops.prelu, x, slope).tolist() == [[-1.0, -0.2], [0.0, 3.0]]
    dx, dslope = gradient(ops.prelu, x, slope)
    assert dx.tolist() == [[0.5, 0.1], [0.5, 1.0]]
    assert dslope.tolist() == [-2.0, -2.0]


def test_glu_gates_the_first_half_with_the_second():
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    y = evaluate(lambda x: ops.glu(x, axis=1), x)
    gate = 1 / (1 + np.exp(-x[:, 2:]))
    np.testing.assert_allclose(y, x[:, :2] * gate, rtol=1e-14)


CALLS = [
    (lambda x: ops.glu(x), "glu(x: float64[2, 3]): axis 1 has 3 elements, which no two halves make"),
    (lambda x: ops.celu(x, alpha=0), "celu(x: float64[2, 3]): alpha is 0.0, not positive"),
    (lambda x: ops.softplus(x, beta=-1), "softplus(x: float64[2, 3]): beta is -1.0, not positive"),
    (
        lambda x: ops.gelu(x, approximate="yes"),
        "gelu(x: float64[2, 3]): approximate is 'yes', neither 'none' nor 'tanh'",
    ),
    (lambda x: ops.hard_tanh(x, min=1, max=0), "hard_tanh(x: float64[2, 3]): min is 1.0, which is above max, 0.0"),
    (
        lambda x: ops.prelu(x[0], x),
        "prelu(x: float64[3], slope: float64[2, 3]): the slope does not broadcast to x but makes it float64[2, 3]",
    ),
    (
        lambda x: ops.silu(ops.cast(x, dtype="int32")),
        "silu(x: int32[2, 3]): needs float32 or float64, not int32; cast it first",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split("(")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[..., object], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: call(x)) == sentence
