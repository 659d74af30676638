"""Values, edges and kinks of functions element by element, against `math` and Python's own operators."""

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of

from registry import OpError, ops

INF, NAN = math.inf, math.nan

FUNCTIONS: dict[str, tuple[Callable[[float], float], list[float]]] = {
    "rsqrt": (lambda x: 1 / math.sqrt(x), [0.01, 1.0, 7.5, 1e300]),
    "reciprocal": (lambda x: 1 / x, [-3.0, 0.01, 7.5]),
    "log1p": (math.log1p, [-0.9, 1e-12, 3.0]),
    "expm1": (math.expm1, [-40.0, 1e-12, 3.0]),
    "log2": (math.log2, [0.1, 1.0, 1024.0]),
    "exp2": (lambda x: 2.0**x, [-3.5, 0.0, 10.0]),
    "tan": (math.tan, [-1.5, 0.3, 4.0]),
    "asin": (math.asin, [-1.0, 0.3, 1.0]),
    "acos": (math.acos, [-1.0, 0.3, 0.99]),
    "atan": (math.atan, [-100.0, 0.3, INF]),
    "sinh": (math.sinh, [-3.0, 1e-9, 20.0]),
    "cosh": (math.cosh, [-3.0, 1e-9, 20.0]),
    "asinh": (math.asinh, [-3.0, 1e-9, 1e200]),
    "acosh": (math.acosh, [1.0, 1.5, 1e200]),
    "atanh": (math.atanh, [-0.99, 1e-9, 0.5]),
    "floor": (math.floor, [-2.5, -2.0, 2.5, 3.5]),
    "ceil": (math.ceil, [-2.5, -2.0, 2.5, 3.5]),
    "round": (round, [-2.5, -1.5, 0.5, 1.5, 2.4, 2.6]),
    "trunc": (math.trunc, [-2.5, -2.0, 2.5, 3.5]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_that_of_math(name: str, dtype: str):
    function, points = FUNCTIONS[name]
    x = np.array([point for point in points if abs(point) < 1e30 or dtype == "float64"], dtype)
    expected = np.array([function(float(point)) for point in x], dtype)
    rtol = {"float32": 5e-7, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(evaluate(getattr(ops, name), x), expected, rtol=rtol, strict=True)


def test_atan2_knows_the_quadrant():
    a, b = np.array([1.0, 1.0, -1.0, -1.0, 0.0, -0.0]), np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0])
    expected = [math.atan2(y, x) for y, x in zip(a, b, strict=True)]
    np.testing.assert_allclose(evaluate(ops.atan2, a, b), expected, rtol=1e-15)
    zero = np.zeros(1)
    assert gradient(ops.atan2, zero, zero) == [0, 0], "at the origin, where it is not continuous"


SIGNS = np.array([7.0, -7.0, 7.0, -7.0]), np.array([3.0, 3.0, -3.0, -3.0])


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_floor_div_and_remainder_are_pythons_and_fmod_is_cs(dtype: str):
    a, b = (x.astype(dtype) for x in SIGNS)
    assert evaluate(operator.floordiv, a, b).tolist() == [2, -3, -3, 2]
    assert evaluate(operator.mod, a, b).tolist() == [1, 2, -2, -1]
    assert evaluate(ops.fmod, a, b).tolist() == [1, -1, 1, -1]
    assert evaluate(lambda b: 7 % b, b).tolist() == [1, 1, -2, -2]
    assert evaluate(lambda b: 7 // b, b).tolist() == [2, 2, -3, -3]


@pytest.mark.parametrize("name", ["floor_div", "remainder", "fmod"])
def test_an_integer_divided_by_zero_gives_zero(name: str):
    zero, x = np.array([0, 0]), np.array([5, -5])
    assert evaluate(getattr(ops, name), x, zero).tolist() == [0, 0]


def test_the_gradient_of_a_remainder_is_the_quotient_it_leaves_out():
    for name, quotients in (("remainder", [2.0, -3.0, -3.0, 2.0]), ("fmod", [2.0, -2.0, -2.0, 2.0])):
        da, db = gradient(getattr(ops, name), *SIGNS)
        assert da.tolist() == [1.0] * 4
        assert db.tolist() == [-q for q in quotients]


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_no_gradient_flows_through_a_step(name: str):
    assert gradient(getattr(ops, name), np.array([0.5, 1.5])) == [None]


def test_bits_are_those_of_pythons_integers():
    pairs = [(5, 3), (-5, 3), (12, -7), (0, 1), (255, 4)]
    for dtype in ("int32", "int64"):
        a, b = np.array(pairs, dtype).T.copy()
        for op in (operator.and_, operator.or_, operator.xor):
            assert evaluate(op, a, b).tolist() == [op(x, y) for x, y in pairs]
        assert evaluate(operator.invert, a).tolist() == [~x for x, _ in pairs]
        assert evaluate(lambda a: (a << 3) >> 1, a).tolist() == [(x << 3) >> 1 for x, _ in pairs]
    assert evaluate(operator.invert, np.uint8([0, 1])).tolist() == [255, 254]


def test_a_shift_by_all_bits_or_a_negative_number_moves_all_bits_out():
    a, b = np.array([5, -5, 5, -5]), np.array([64, 64, -1, -1])
    assert evaluate(ops.left_shift, a, b).tolist() == [0, 0, 0, 0]
    assert evaluate(ops.right_shift, a, b).tolist() == [0, -1, 0, -1]


def test_signs_between_bools_mean_truth():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert evaluate(operator.xor, a, b).tolist() == [False, True, True, False]
    assert ops_of(lambda a, b: (a & b) | (a ^ ~b), a, b) == ["logical_and", "logical_not", "logical_xor", "logical_or"]


def test_kinds_of_numbers_are_told_apart():
    x = np.array([0.0, -1e308, INF, -INF, NAN])
    assert evaluate(ops.isnan, x).tolist() == [False] * 4 + [True]
    assert evaluate(ops.isinf, x).tolist() == [False, False, True, True, False]
    assert evaluate(ops.isfinite, x).tolist() == [True, True, False, False, False]


def test_clip_takes_either_bound_or_both():
    x = np.array([-2.0, 0.5, 3.0, NAN])
    for low, high, expected in ((0, 1, [0, 0.5, 1]), (None, 1, [-2, 0.5, 1]), (0, None, [0, 0.5, 3])):
        y = evaluate(lambda x, low=low, high=high: ops.clip(x, min=low, max=high), x)
        assert y[:3].tolist() == expected
        assert math.isnan(y[3])
    assert evaluate(lambda x: ops.clip(x, 2, 1), x)[:3].tolist() == [1.0] * 3, "bounds that cross give the upper"


def test_on_a_bound_the_gradient_of_clip_goes_to_x_and_beyond_it_to_the_bound():
    x, low, high = np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), np.zeros(()), np.ones(())
    dx, dlow, dhigh = gradient(ops.clip, x, low, high)
    assert dx.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert (dlow, dhigh) == (1.0, 1.0)


def test_bounds_that_meet_or_cross_leave_x_no_gradient():
    x, low, high = np.array([0.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0])
    dx, dlow, dhigh = gradient(ops.clip, x, low, high)
    assert [dx.tolist(), dlow.tolist(), dhigh.tolist()] == [[0, 0, 0], [1, 0, 0], [0, 1, 1]]


def test_lerp_meets_both_ends_exactly():
    a, b = np.array([1e16, 0.1, -3.0]), np.array([1.0, 0.7, 1e-8])
    assert evaluate(lambda a, b: ops.lerp(a, b, 0.0), a, b).tolist() == a.tolist()
    assert evaluate(lambda a, b: ops.lerp(a, b, 1.0), a, b).tolist() == b.tolist()
    assert evaluate(lambda a, b: ops.lerp(a, b, 0.25), np.array([1.0]), np.array([3.0])).tolist() == [1.5]


CALLS = [
    (lambda x, n: ops.floor(n), "floor(x: int64[3]): needs float32 or float64, not int64; cast it first"),
    (lambda x, n: x << 1.0, "left_shift(a: float64[3], b: float64[]): needs int32 or int64 or uint8, not float64"),
    (lambda x, n: ~x, "logical_not(x: float64[3]): needs bool, not float64; cast it first"),
    (lambda x, n: n ^ 0.5, "bitwise_xor: 0.5 is not a whole number, as int64 needs"),
    (lambda x, n: ops.clip(x, n), "clip(x: float64[3], min: int64[3]): dtypes differ: float64 and int64"),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split("(")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[..., object], sentence: str):
    _, values = block_of((np.zeros(3), np.zeros(3, "int64")))
    assert told(OpError, lambda: call(*values)).startswith(sentence)


SPREAD = np.concatenate([np.linspace(-5, 5, 401), np.logspace(-30, 1.9, 200), -np.logspace(-30, 1.9, 200), [0.0]])

OF_SINGLE: dict[str, tuple[Callable[[float], float], np.ndarray]] = {
    "log1p": (math.log1p, SPREAD[SPREAD > -1]),
    "expm1": (math.expm1, SPREAD),
    "tan": (math.tan, SPREAD),
    "atan": (math.atan, SPREAD),
    "sinh": (math.sinh, SPREAD),
    "cosh": (math.cosh, SPREAD),
    "atanh": (math.atanh, SPREAD[abs(SPREAD) < 1]),
}


@pytest.mark.parametrize("name", OF_SINGLE)
def test_float32_is_right_to_a_few_units_in_the_last_place_everywhere(name: str):
    function, points = OF_SINGLE[name]
    x = points.astype("float32")
    expected = np.array([function(point) for point in x.tolist()])
    y = evaluate(getattr(ops, name), x)
    assert y.dtype == np.float32
    assert (abs(y - expected) <= 6 * np.spacing(abs(expected).astype("float32"))).all()


def test_float32_functions_know_their_ends():
    ends = np.float32([-INF, INF, NAN])
    for name, expected in {
        "log1p": [NAN, INF, NAN],
        "expm1": [-1, INF, NAN],
        "atan": [-math.pi / 2, math.pi / 2, NAN],
        "sinh": [-INF, INF, NAN],
        "cosh": [INF, INF, NAN],
        "atanh": [NAN, NAN, NAN],
    }.items():
        np.testing.assert_allclose(evaluate(getattr(ops, name), ends), np.float32(expected), rtol=1e-6, err_msg=name)
    inner = np.float32([-1, 1])
    assert evaluate(ops.log1p, inner)[0] == -INF
    assert evaluate(ops.atanh, inner).tolist() == [-INF, INF]
    assert np.isfinite(evaluate(ops.sinh, np.float32([89.2, -89.2]))).all()


def test_atan2_of_float32_knows_all_octants_and_ends():
    values = np.float32([-INF, -3e38, -2, -1, -1e-30, -0.0, 0.0, 1e-30, 1, 2, 3e38, INF])
    for some in (values, values[abs(values) < 1e38]):
        a, b = some.reshape(-1, 1), some
        expected = [[math.atan2(y, x) for x in some.tolist()] for y in some.tolist()]
        np.testing.assert_allclose(evaluate(ops.atan2, a, b), np.float32(expected), rtol=5e-7)


@pytest.mark.parametrize("name", ["floor_div", "remainder", "fmod"])
def test_float32_is_divided_exactly_at_every_size(name: str):
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(-20, 40, (40, 500)))
    a = (rng.normal(size=(40, 500)) * sizes).astype("float32")
    a[:5] = np.rint(rng.normal(size=(5, 500)) * 9)
    b = np.float32([3, -3, 0.1, INF, -7, 1e-20, 0, NAN] + [2.5] * 32).reshape(-1, 1)
    function = {"floor_div": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}[name]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(getattr(ops, name), a, b), function(a, b))


def test_long_tensors_are_chosen_from_chunk_by_chunk():
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=(3, 7, 2500)).astype("float32") for _ in "ab")
    weight = rng.uniform(size=(7, 1)).astype("float32")
    near, far = a + (b - a) * weight, b - (b - a) * (1 - weight)
    np.testing.assert_array_equal(evaluate(ops.lerp, a, b, weight), np.where(weight < 0.5, near, far))
    for share in np.float32([0, 0.3, 0.5, 1]):
        expected = a + (b - a) * share if share < 0.5 else b - (b - a) * (1 - share)
        np.testing.assert_array_equal(evaluate(ops.lerp, a, b, np.array(share)), expected)
    for slope in (rng.uniform(-1, 1, 2500), rng.uniform(-2, 2, 2500)):
        slope = slope.astype("float32")
        np.testing.assert_array_equal(evaluate(ops.prelu, a, slope), np.where(a > 0, a, slope * a))
    assert evaluate(ops.prelu, np.float32([INF, -1]), np.zeros(1, "float32")).tolist() == [INF, 0]
