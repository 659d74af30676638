"""Broadcasting by NumPy's rule: shapes, values and gradients of pointwise operators, for any shapes."""

import math
import operator
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from subjects.evaluate import evaluate, gradient

from prograd_proto import TensorType
from registry import Block, OpError, Value, ops
from registry.ops.reduce import sum_to

SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)
ANY_SHAPE = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)

ON_NUMBERS: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": math.pow,
    "maximum": max,
    "minimum": min,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


@given(a=ANY_SHAPE, b=ANY_SHAPE)
def test_the_inferred_shape_is_numpys_or_an_error_where_numpy_has_none(a: tuple[int, ...], b: tuple[int, ...]):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(OpError, match="do not broadcast"):
            added(a, b)
    else:
        assert added(a, b).shape == expected


@given(SHAPES)
def test_a_symbol_broadcasts_like_a_size_of_its_own(shapes: hnp.BroadcastableShapes):
    with_symbols = [tuple("n" if extent == 3 else extent for extent in shape) for shape in shapes.input_shapes]
    expected = tuple("n" if extent == 3 else extent for extent in shapes.result_shape)
    assert added(*with_symbols).shape == expected


def test_a_symbol_does_not_broadcast_to_another_or_to_a_number():
    for other in ("m", 2):
        with pytest.raises(OpError, match=f"n is not {other}"):
            added(("n",), (other,))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ON_NUMBERS)
@given(SHAPES, st.randoms(use_true_random=False))
def test_each_element_is_the_function_of_the_elements_it_comes_from(name, shapes, random):
    a, b = (
        np.array([random.choice([0.5, 1.0, 2.0, 3.25]) for _ in range(math.prod(shape))]).reshape(shape)
        for shape in shapes.input_shapes
    )
    y = evaluate(getattr(ops, name), a, b)
    assert y.shape == shapes.result_shape
    for index in product(*map(range, y.shape)):
        assert y[index] == pytest.approx(
            ON_NUMBERS[name](float(a[lent(index, a)]), float(b[lent(index, b)])), rel=1e-14
        )


@given(SHAPES)
def test_each_operand_gets_the_sum_of_the_gradients_of_the_elements_it_was_lent_to(shapes):
    a, b = (np.arange(math.prod(shape), dtype="float64").reshape(shape) for shape in shapes.input_shapes)
    da, db = gradient(ops.mul, a, b)
    expected = np.zeros(a.shape), np.zeros(b.shape)
    for index in product(*map(range, shapes.result_shape)):
        expected[0][lent(index, a)] += b[lent(index, b)]
        expected[1][lent(index, b)] += a[lent(index, a)]
    np.testing.assert_array_equal(da, expected[0], strict=True)
    np.testing.assert_array_equal(db, expected[1], strict=True)


@given(SHAPES)
def test_broadcast_to_and_sum_to_are_each_others_gradient(shapes):
    shape, result = shapes.input_shapes[0], np.broadcast_shapes(*shapes.input_shapes)
    x, y = np.ones(shape), np.ones(result)
    assert evaluate(lambda x: ops.broadcast_to(x, shape=result), x).shape == result
    times = np.full(shape, float(math.prod(result) // max(math.prod(shape), 1)))
    np.testing.assert_array_equal(evaluate(lambda x, y: sum_to(y, x), x, y), times, strict=True)
    np.testing.assert_array_equal(gradient(lambda x: ops.broadcast_to(x, shape=result), x)[0], times, strict=True)
    np.testing.assert_array_equal(gradient(lambda x, y: sum_to(y, x), x, y)[1], y, strict=True)


def added(a: tuple[int | str, ...], b: tuple[int | str, ...]) -> Value:
    block = Block()
    return block.define("a", TensorType("float32", a)) + block.define("b", TensorType("float32", b))


def lent(index: tuple[int, ...], x: np.ndarray) -> tuple[int, ...]:
    """Return the index of the element of x that broadcasting maps to `index`."""
    return tuple(0 if size == 1 else i for i, size in zip(index[len(index) - x.ndim :], x.shape, strict=True))
