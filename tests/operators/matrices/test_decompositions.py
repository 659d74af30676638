"""Decompositions of matrices, against NumPy's LAPACK and against what they mean."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples.operands import definite, regular
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient
from subjects.values import check_orders, define

from prograd_proto import TensorType
from registry import Block, OpError, Value, ops
from runtime.errors import ExecutionError

SIZES = [(1, 1), (2, 2), (3, 5, 5), (2, 3, 33, 33), (2, 64, 64), (130, 130)]
"""Smaller and larger than the blocks of rows that are eliminated together."""

each_size = pytest.mark.parametrize("shape", SIZES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def close(x: np.ndarray, y: np.ndarray):
    """Equal but for rounding, in proportion to the largest element."""
    tolerance = {"float32": 1e-4, "float64": 1e-11}[x.dtype.name]
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * abs(y).max(), strict=True)


def random_matrices(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    """Draw matrices without a dominant diagonal, so that rows must be exchanged."""
    return np.random.default_rng(1).normal(size=shape).astype(dtype)


@each_dtype
@each_size
def test_cholesky_is_lapacks(shape: tuple[int, ...], dtype: str):
    x = definite(shape, dtype).make(np.random.default_rng(0))
    y = evaluate(ops.cholesky, x)
    close(y, np.linalg.cholesky(x))
    assert not np.triu(y, 1).any()


@each_dtype
@each_size
def test_solve_inverse_and_determinants_are_lapacks(shape: tuple[int, ...], dtype: str):
    x = random_matrices(shape, dtype)
    b = random_matrices((*shape[:-1], 3), dtype)
    scale = {"float32": 1e-2, "float64": 1e-10}[dtype]
    identity = np.broadcast_to(np.eye(shape[-1], dtype=dtype), shape)
    np.testing.assert_allclose(x @ evaluate(ops.inverse, x), identity, atol=scale, strict=True)
    np.testing.assert_allclose(x @ evaluate(ops.solve, x, b), b, atol=scale, strict=True)
    sign, logarithm = evaluate(ops.log_determinant, x)
    expected = np.linalg.slogdet(x)
    np.testing.assert_array_equal(sign, expected.sign)
    np.testing.assert_allclose(logarithm, expected.logabsdet, rtol=1e-3 if dtype == "float32" else 1e-10)
    with np.errstate(over="ignore"):
        wanted = np.linalg.det(x)
    np.testing.assert_allclose(evaluate(ops.determinant, x), wanted, rtol=1e-2 if dtype == "float32" else 1e-10)


@each_size
def test_an_exchange_of_rows_changes_the_sign_and_no_more(shape: tuple[int, ...]):
    n = shape[-1]
    order = np.random.default_rng(2).permutation(n)
    x = np.eye(n)[order]
    inversions = sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
    assert evaluate(ops.determinant, x) == (-1) ** inversions
    np.testing.assert_array_equal(evaluate(ops.inverse, x), x.T)


@pytest.mark.parametrize("n", [1, 5, 70])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_solve_reads_its_triangle_only(n: int, lower: bool, transpose: bool, unit: bool):
    a = random_matrices((2, n, n)) / n + 2 * np.eye(n)
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        np.einsum("...ii->...i", triangle)[...] = 1
    unread = np.triu(np.ones((n, n)), 1 - unit) if lower else np.tril(np.ones((n, n)), unit - 1)
    a[:, unread.astype(bool)] = np.nan
    b = random_matrices((3, 1, n, 4))
    y = evaluate(lambda a, b: ops.triangular_solve(a, b, lower=lower, transpose=transpose, unit_diagonal=unit), a, b)
    assert y.shape == (3, 2, n, 4)
    np.testing.assert_allclose((triangle.mT if transpose else triangle) @ y, np.broadcast_to(b, y.shape), atol=1e-10)


def test_equations_with_different_batches_are_those_of_each_pair():
    a, b = random_matrices((3, 1, 4, 4)), random_matrices((2, 4, 2))
    y = evaluate(ops.solve, a, b)
    for i, j in np.ndindex(3, 2):
        np.testing.assert_allclose(a[i, 0] @ y[i, j], b[j], atol=1e-12)


def test_singular_matrices_have_the_determinant_zero():
    x = np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    assert evaluate(ops.determinant, x).tolist() == [0, 0, -1]
    sign, logarithm = evaluate(ops.log_determinant, x)
    assert sign.tolist() == [0, 0, -1]
    assert not np.signbit(sign[:2]).any()
    assert logarithm.tolist() == [-np.inf, -np.inf, 0]


STOPS: list[tuple[str, Callable[..., Any], np.ndarray]] = [
    ("x is singular: pivot 1 is 0", ops.inverse, np.array([[1.0, 2.0], [2.0, 4.0]])),
    (
        "matrix [1, 0] of a is singular: pivot 0 is 0",
        lambda a: ops.solve(a, a),
        np.stack([np.eye(2), np.zeros((2, 2))])[:, None],
    ),
    ("x is not positive definite: pivot 1 is -3, not above 0", ops.cholesky, np.array([[1.0, 2.0], [2.0, 1.0]])),
    (
        "matrix [1] of x is not positive definite: pivot 0 is nan, not above 0",
        ops.cholesky,
        np.stack([np.eye(2), np.full((2, 2), np.nan)]),
    ),
]


@pytest.mark.parametrize(("sentence", "function", "x"), STOPS, ids=[sentence for sentence, *_ in STOPS])
def test_a_matrix_that_cannot_be_taken_apart_stops_the_run(sentence: str, function: Callable[..., Any], x: np.ndarray):
    assert told(ExecutionError, lambda: evaluate(function, x)) == sentence


def test_the_gradient_of_cholesky_is_symmetric():
    x = definite((4, 4)).make(np.random.default_rng(3))
    [dx] = gradient(ops.cholesky, x)
    assert dx is not None
    np.testing.assert_allclose(dx, dx.T, rtol=1e-12)


def test_the_density_of_a_normal_distribution_has_known_gradients():
    x = definite((3, 3)).make(np.random.default_rng(4))
    [dx] = gradient(lambda x: ops.log_determinant(x)[1], x)
    np.testing.assert_allclose(dx, np.linalg.inv(x).T, rtol=1e-10)
    b = np.random.default_rng(5).normal(size=(3, 1))
    dx, db = gradient(lambda x, b: ops.matmul(b, ops.solve(x, b), transpose_a=True), x, b)
    y = np.linalg.solve(x, b)
    np.testing.assert_allclose(dx, -y @ y.T, rtol=1e-10)
    np.testing.assert_allclose(db, 2 * y, rtol=1e-10)


def test_decompositions_have_third_gradients():
    block = Block()
    x = define(block, "x", (3, 3))
    y = ops.triangular_solve(ops.cholesky(x @ ops.transpose(x)), ops.inverse(x)) * ops.determinant(x)
    check_orders(y, [x], {"x": regular((3, 3)).make(np.random.default_rng(6))}, 3)


def test_decompositions_leave_a_batch_without_size_alone():
    block = Block()
    x = block.define("x", TensorType("float64", ("n", 4, 4)))
    b = block.define("b", TensorType("float64", (4, 2)))
    assert ops.cholesky(x).shape == ops.inverse(x).shape == x.shape
    assert ops.determinant(x).shape == ("n",)
    assert ops.solve(x, b).shape == ops.triangular_solve(x, b).shape == ("n", 4, 2)


CALLS: list[tuple[Callable[[Value], object], str]] = [
    (ops.inverse, "inverse(x: float64[2, 3]): x has 2 rows and 3 columns; it must be square"),
    (lambda x: ops.determinant(x[0]), "determinant(x: float64[3]): x has 1 axes and needs two or more"),
    (
        lambda x: ops.cholesky(ops.cast(x, dtype="int32")),
        "cholesky(x: int32[2, 3]): needs float32 or float64, not int32; cast it first",
    ),
    (
        lambda x: ops.solve(x[:, :2], x[:, 0]),
        "solve(a: float64[2, 2], b: float64[2]): b has 1 axes and needs two or more; "
        "a vector is a matrix of one column",
    ),
    (lambda x: ops.solve(x[:, :2], x[:1]), "solve(a: float64[2, 2], b: float64[1, 3]): a has 2 rows, b has 1"),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split(":")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value], object], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: call(x)) == sentence
