"""Values, edges and kinks of the array operators, against numbers written out, `math` and plain Python."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient, ops_of

from compiler.train.backward import gradients
from registry import OpError, Value, ops
from runtime.errors import ExecutionError

INF, NAN = math.inf, math.nan

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "square": lambda x: x * x,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "sign": lambda x: math.copysign(1.0, x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_one_tensor_is_that_of_each_element(name: str, dtype: str):
    x = np.array([[0.3, 1.0, 2.7], [5.5, 0.01, 11.0]], dtype)
    if name not in ("sqrt", "log"):
        x[0] *= -1
    y = evaluate(getattr(ops, name), x)
    expected = [[FUNCTIONS[name](float(element)) for element in row] for row in x]
    np.testing.assert_allclose(
        y, np.array(expected, dtype), rtol={"float32": 5e-7, "float64": 1e-14}[dtype], strict=True
    )


def test_sigmoid_keeps_its_precision_at_both_ends():
    y = evaluate(ops.sigmoid, np.array([-1000.0, -700.0, -40.0, 40.0, 1000.0, -INF, INF, NAN]))
    np.testing.assert_allclose(y[1:3], [math.exp(-700), math.exp(-40)], rtol=1e-13)
    assert [*y[[0, 3, 4, 5, 6]]] == [0.0, 1.0, 1.0, 0.0, 1.0]
    assert math.isnan(y[7])


def test_nan_wins_in_maximum_minimum_max_and_relu():
    x = np.array([NAN, 1.0])
    for y in (evaluate(ops.maximum, x, x[::-1].copy()), evaluate(ops.minimum, x, x[::-1].copy())):
        assert np.isnan(y).all()
    assert math.isnan(evaluate(ops.max, x))
    assert np.isnan(evaluate(ops.relu, x)).tolist() == [True, False]


def test_integers_wrap_and_floats_lose_their_fraction_in_them():
    assert evaluate(ops.add, np.uint8([200]), np.uint8([100])).tolist() == [44]
    assert evaluate(lambda x: ops.cast(x, dtype="int32"), np.array([2.7, -2.7])).tolist() == [2, -2]
    assert evaluate(lambda x: ops.cast(x, dtype="bool"), np.array([0.0, -0.5])).tolist() == [False, True]


def test_kinks_have_the_gradient_zero_and_sqrt_of_zero_an_infinite_one():
    zero = np.zeros(1)
    assert gradient(ops.relu, zero)[0] == 0
    assert gradient(ops.abs, zero)[0] == 0
    assert gradient(ops.sqrt, zero)[0] == INF


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_equal_operands_halve_the_gradient(name: str):
    da, db = gradient(getattr(ops, name), np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    first = [0.0, 0.5, 1.0] if name == "maximum" else [1.0, 0.5, 0.0]
    assert da.tolist() == first
    assert db.tolist() == first[::-1]


def test_equal_maxima_share_the_gradient():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])
    assert gradient(lambda x: ops.max(x, axis=(1,)), x)[0].tolist() == [[0, 0.5, 0.5], [1, 0, 0]]
    assert gradient(ops.max, x)[0].tolist() == [[0, 0.5, 0.5], [0, 0, 0]]


def test_the_gradient_of_pow_is_finite_where_a_factor_is_not():
    a, b = np.array([0.0, 0.0, 0.0, 2.0, -2.0]), np.array([0.0, 1.0, 2.0, 0.0, 2.0])
    da, db = gradient(ops.pow, a, b)
    assert da.tolist() == [0.0, 1.0, 0.0, 0.0, -4.0]
    assert db[:4].tolist() == [0.0, 0.0, 0.0, math.log(2)]


def test_the_second_gradient_of_pow_is_that_of_the_power():
    def slope(a: Value, b: Value) -> Value:
        return gradients(ops.pow(a, b), [a])[0]

    a, b = np.array([0.0, 0.0, 2.0, -3.0, 2.0]), np.array([2.0, 3.0, 3.0, 2.0, 0.0])
    daa, dab = gradient(slope, a, b)
    assert daa.tolist() == [2.0, 0.0, 12.0, 2.0, 0.0]
    assert dab[[0, 1, 4]].tolist() == [0.0, 0.0, 0.5]
    np.testing.assert_allclose(dab[2], 4 + 3 * 4 * math.log(2))


def test_a_python_exponent_of_two_is_a_square():
    assert ops_of(lambda x: x**2, np.ones(2)) == ["square"]
    assert evaluate(lambda x: x**3, np.array([2.0, -2.0])).tolist() == [8.0, -8.0]
    assert evaluate(lambda x: 2**x, np.array([3.0])).tolist() == [8.0]


def test_where_keeps_what_it_did_not_choose_out_of_the_gradient():
    def safe_log(x: Value) -> Value:
        return ops.where(x > 0.0, ops.log(ops.where(x > 0.0, x, 1.0)), 0.0)

    assert gradient(safe_log, np.array([-1.0, 0.0, 2.0]))[0].tolist() == [0.0, 0.0, 0.5]


def test_a_number_in_where_takes_the_dtype_of_the_other_choice():
    y = evaluate(lambda c, x: ops.where(c, x, -1), np.array([True, False]), np.float32([3, 4]))
    assert (y.dtype, y.tolist()) == (np.float32, [3, -1])


def test_no_gradient_flows_through_stop_gradient_sign_and_integers():
    x = np.array([1.0, -2.0])
    for cut in (ops.stop_gradient, ops.sign, lambda x: ops.cast(ops.cast(x, dtype="int64"), dtype="float64")):
        assert gradient(lambda x, cut=cut: x * cut(x), x)[0].tolist() == evaluate(cut, x).tolist()


def test_the_gradient_goes_back_through_a_cast_between_floats():
    [dx] = gradient(lambda x: ops.square(ops.cast(x, dtype="float64")), np.float32([3]))
    assert (dx.dtype, dx.tolist()) == (np.float32, [6])


def test_bools_and_integers_sum_to_int64():
    for dtype in ("bool", "uint8", "int32", "int64"):
        y = evaluate(lambda x: ops.sum(x, axis=(0,)), np.full((300, 2), 1, dtype))
        assert (y.dtype, y.tolist()) == (np.int64, [300, 300])


def test_reductions_agree_with_loops():
    x = np.arange(24, dtype="float64").reshape(2, 3, 4)[:, ::-1].copy()
    rows = [[x[i, :, k].tolist() for k in range(4)] for i in range(2)]
    for name, function in (("sum", sum), ("max", max), ("mean", lambda row: sum(row) / len(row))):
        y = evaluate(lambda x, name=name: getattr(ops, name)(x, axis=(1,)), x)
        assert y.tolist() == [[function(row) for row in columns] for columns in rows]
    assert evaluate(lambda x: ops.argmax(x, axis=1), x).tolist() == [[0] * 4] * 2


def test_argmax_takes_the_first_of_equal_maxima():
    x = np.array([[1.0, 2.0, 2.0], [5.0, 5.0, 0.0]])
    assert evaluate(ops.argmax, x).tolist() == [1, 0]
    assert evaluate(lambda x: ops.argmax(x, axis=0), x).tolist() == [1, 1, 0]


def test_a_reduction_of_no_elements_is_zero_or_an_error():
    empty = np.empty((0, 2))
    assert evaluate(lambda x: ops.sum(x, axis=(0,)), empty).tolist() == [0, 0]
    with pytest.raises(OpError, match="axis 0 has no elements and so no maximum"):
        evaluate(lambda x: ops.max(x, axis=(0,)), empty)


KEYS = [
    0,
    -1,
    (1, 2),
    (slice(None), 1),
    (slice(1, None), slice(None, None, 2)),
    (..., -1),
    (0, ..., slice(None, None, -1)),
    (slice(None, None, -2), slice(2, 0, -1)),
    (None, 1, ..., None),
    (slice(5, 9), 0),
    (slice(-100, 100),),
    slice(2, 1),
    ...,
    None,
    (np.int64(1), slice(np.int32(0), 2)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_numpys(key: object):
    x = np.arange(24, dtype="float64").reshape(2, 3, 4)
    np.testing.assert_array_equal(evaluate(lambda x: x[key], x), x[key], strict=True)
    expected = np.zeros_like(x)
    expected[key] = 1
    [dx] = gradient(lambda x: x[key], x)
    np.testing.assert_array_equal(dx, expected, strict=True)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (3, "index 3 is out of range for axis 0 of %x0: float64[3, 4]"),
        ((0, -5), "index -5 is out of range for axis 1 of %x0: float64[3, 4]"),
        ((0, 0, 0), "3 indices are too many for %x0: float64[3, 4]"),
        ((..., ...), "more than one ... in the index of %x0: float64[3, 4]"),
        (True, "True cannot index %x0: float64[3, 4]; use numbers, slices, ... and None, or ops.gather"),
        (1.0, "1.0 cannot index %x0: float64[3, 4]; use numbers, slices, ... and None, or ops.gather"),
    ],
)
def test_an_index_that_does_not_fit_is_an_error(key: object, sentence: str):
    assert told(OpError, lambda: evaluate(lambda x: x[key], np.zeros((3, 4)))) == sentence


def test_an_axis_without_a_size_is_taken_whole():
    block, [x] = block_of((np.zeros((3, 4)),))
    x = block.define("y", x.type._replace(shape=("n", 4)))
    assert x[:, 1].shape == ("n",)
    assert x[..., None].shape == ("n", 4, 1)
    assert told(OpError, lambda: x[1:]) == "axis 0 of %y: float64[n, 4] is the symbol 'n'; here it must be a number"


def test_reshape_and_transpose_are_stored_resolved():
    block, [x] = block_of((np.zeros((3, 4)),))
    for made in (ops.reshape(x, shape=(2, -1)), ops.transpose(x), ops.transpose(x, axis=(-1, -2))):
        assert made.shape in ((2, 6), (4, 3))
    shape, *axes = (desc.attributes[0] for desc in block.desc.ops)
    assert [dim.size for dim in shape.shape_value.dims] == [2, 6]
    assert [list(attribute.ints_value.values) for attribute in axes] == [[1, 0]] * 2


def test_split_then_concat_gives_the_tensor_back():
    x = np.arange(12.0).reshape(2, 6)
    pieces = evaluate(lambda x: ops.split(x, sizes=(1, 3, 2), axis=1), x)
    assert [piece.tolist() for piece in pieces] == [x[:, :1].tolist(), x[:, 1:4].tolist(), x[:, 4:].tolist()]
    back = evaluate(lambda x: ops.concat(*ops.split(x, sizes=(1, 3, 2), axis=1), axis=1), x)
    np.testing.assert_array_equal(back, x, strict=True)


@pytest.mark.parametrize("used", [(0,), (1,), (3,), (0, 1), (0, 3), (1, 2), (0, 2, 3), (0, 1, 2, 3)], ids=str)
def test_pieces_without_gradient_become_padding(used: tuple[int, ...]):
    def some(x: Value) -> Value:
        pieces = ops.split(x, sizes=(2, 1, 3, 1))
        return ops.concat(*(pieces[i] for i in used))

    x = np.arange(7.0)
    starts = [0, 2, 3, 6, 7]
    expected = [float(any(starts[i] <= place < starts[i + 1] for i in used)) for place in range(7)]
    assert gradient(some, x)[0].tolist() == expected
    kinds = ops_of(some, x, differentiate=True)
    assert kinds.count("full") == 1, "only the seed"
    assert "add" not in kinds


def test_gather_and_one_hot_follow_the_numbers():
    x = np.arange(12.0).reshape(4, 3)
    for dtype in ("int32", "int64"):
        i = np.array([[3, 0], [1, 1]], dtype)
        assert evaluate(ops.gather, x, i).tolist() == [[x[3].tolist(), x[0].tolist()], [x[1].tolist()] * 2]
        assert evaluate(lambda i: ops.one_hot(i, depth=4), i).tolist() == [
            [[0, 0, 0, 1], [1, 0, 0, 0]],
            [[0, 1, 0, 0]] * 2,
        ]
    assert evaluate(lambda x, i: ops.gather(x, i, axis=1), x, np.array(2)).tolist() == x[:, 2].tolist()


def test_updates_of_one_place_add_up_in_order():
    x, i = np.float32([0, 10]), np.array([0, 1, 0, 0])
    updates = np.float32([1, 5, 2**24, -(2**24)])  # 1 + 2**24 loses the 1 in float32
    assert evaluate(ops.scatter_add, x, i, updates).tolist() == [0.0, 15.0]
    assert gradient(lambda x: ops.gather(x, ops.cast(x, dtype="int64") * 0), np.array([3.0, 4.0]))[0].tolist() == [2, 0]


@pytest.mark.parametrize(("index", "shown"), [(-1, -1), (4, 4), (10**12, 10**12)])
def test_an_index_out_of_range_stops_the_run(index: int, shown: int):
    x, i = np.zeros((4, 2)), np.array([0, index, 3])
    for function in (
        ops.gather,
        lambda x, i: ops.scatter_add(x, i, ops.gather(x, i)),
        lambda x, i: ops.one_hot(i, depth=4),
    ):
        with pytest.raises(ExecutionError) as caught:
            evaluate(function, x, i)
        assert str(caught.value) == f"index {shown} is out of range: there are 4 places, from 0"


def test_numpys_numbers_are_numbers():
    for two in (np.float32(2), np.int64(2), np.float64(2)):
        assert evaluate(lambda x, two=two: two * x + two, np.array([3.0])).tolist() == [8.0]


CALLS = [
    (lambda x, n: ops.div(n, n), "div(a: int64[3], b: int64[3]): needs float32 or float64, not int64; cast it first"),
    (lambda x, n: x + n, "add(a: float64[2, 3], b: int64[3]): dtypes differ: float64 and int64; cast one of them"),
    (lambda x, n: n + 0.5, "add: 0.5 is not a whole number, as int64 needs"),
    (
        lambda x, n: ops.maximum(2.0, 3.0),
        "maximum: no operand is a tensor of a program; use ops.maximum.on(program)(...)",
    ),
    (lambda x, n: ops.where(x > 0.0, 1.0, 0.0), "where: no tensor beside 1.0 gives it a dtype; make one with ops.full"),
    (
        lambda x, n: ops.where(x, x, x),
        "where(condition: float64[2, 3], a: float64[2, 3], b: float64[2, 3]): the condition is float64, not bool",
    ),
    (
        lambda x, n: ops.reshape(x, shape=(4, -1)),
        "reshape(x: float64[2, 3]): no size for -1 makes [4, -1] hold the elements of [2, 3]",
    ),
    (
        lambda x, n: ops.transpose(x, axis=(0, 0)),
        "transpose(x: float64[2, 3]): axes (0, 0) do not name each of the 2 axes once",
    ),
    (lambda x, n: ops.sum(x, axis=(0, -2)), "sum(x: float64[2, 3]): axes (0, -2) name an axis twice"),
    (lambda x, n: ops.sum(x, axis=(2,)), "sum(x: float64[2, 3]): axis 2 is out of range for rank 2"),
    (lambda x, n: ops.split(x, sizes=(1, 2), axis=0), "split(x: float64[2, 3]): the sizes make 3, axis 0 has 2"),
    (
        lambda x, n: ops.concat(x, x[:, 1:], axis=0),
        "concat(xs[0]: float64[2, 3], xs[1]: float64[2, 2]): float64[2, 2] and float64[2, 3] differ beside axis 0",
    ),
    (
        lambda x, n: ops.broadcast_to(x, shape=(3, 3)),
        "broadcast_to(x: float64[2, 3]): shapes [2, 3] and [3, 3] do not broadcast: 2 is not 3",
    ),
    (
        lambda x, n: ops.slice(x, axis=(1,), starts=(0,), stops=(4,), strides=(1,)),
        "slice(x: float64[2, 3]): axis 1 has 3 elements; 0:4:1 leaves it",
    ),
    (
        lambda x, n: ops.pad(n, before=(1,), after=(0,), value=0.5),
        "pad(x: int64[3]): 0.5 is not a whole number, as int64 needs",
    ),
    (
        lambda x, n: ops.pad(n, before=(1,), after=(0,), value=2.0**63),
        "pad(x: int64[3]): the value 9.22337e+18 is no int64",
    ),
    (
        lambda x, n: ops.gather(x, x),
        "gather(x: float64[2, 3], indices: float64[2, 3]): indices are uint8, int32 or int64, not float64",
    ),
    (
        lambda x, n: ops.scatter_add(x > 0.0, n, x > 0.0),
        "scatter_add(x: bool[2, 3], indices: int64[3], updates: bool[2, 3]): "
        "needs float32 or float64 or int32 or int64 or uint8, not bool; cast it first",
    ),
    (
        lambda x, n: ops.neg(ops.cast(n, dtype="uint8")),
        "neg(x: uint8[3]): needs float32 or float64 or int32 or int64, not uint8; cast it first",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split("(")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value, Value], Value], sentence: str):
    _, values = block_of((np.zeros((2, 3)), np.zeros(3, "int64")))
    assert told(OpError, lambda: call(*values)) == sentence
