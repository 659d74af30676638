"""QR, singular values, eigenvalues and pseudo-inverses, against NumPy's LAPACK and against what they mean."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from subjects.commands import told
from subjects.evaluate import block_of, evaluate, gradient

from prograd_proto import TensorType
from registry import Block, OpError, Value, ops
from runtime.errors import ExecutionError

SHAPES = [(1, 1), (2, 2), (3, 7, 4), (3, 4, 7), (2, 3, 33, 33), (64, 40), (1, 90)]
TOLERANCES = {"float32": 2e-5, "float64": 2e-13}

each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def drawn(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(dtype)


def close(x: np.ndarray, y: np.ndarray):
    np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCES[x.dtype.name] * max(1, abs(y).max()), strict=True)


def require_orthonormal(x: np.ndarray):
    identity = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), (*x.shape[:-2], x.shape[-1], x.shape[-1]))
    close(x.mT @ x, identity)


@each_dtype
@each_shape
@pytest.mark.parametrize("complete", [False, True])
def test_qr_is_lapacks_with_its_signs(shape: tuple[int, ...], dtype: str, complete: bool):
    x = drawn(shape, dtype)
    q, r = evaluate(lambda x: ops.qr(x, complete=complete), x)
    wanted = np.linalg.qr(x, mode="complete" if complete else "reduced")
    close(q, wanted.Q)
    close(r, wanted.R)
    assert not np.tril(r, -1).any()


@each_dtype
@each_shape
def test_singular_values_are_lapacks_and_make_the_matrix(shape: tuple[int, ...], dtype: str):
    x = drawn(shape, dtype)
    u, s, v = evaluate(ops.svd, x)
    close(s, np.linalg.svd(x, compute_uv=False))
    close(u * s[..., None, :] @ v.mT, x)
    require_orthonormal(u)
    require_orthonormal(v)
    shorter = v if shape[-2] >= shape[-1] else u
    assert (np.take_along_axis(shorter, abs(shorter).argmax(-2)[..., None, :], -2) > 0).all()


@each_dtype
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape[-1] == shape[-2]], ids=str)
def test_eigenvalues_are_lapacks_and_make_the_mean_with_the_transpose(shape: tuple[int, ...], dtype: str):
    x = drawn(shape, dtype)
    mean = (x + x.mT) / 2
    values, vectors = evaluate(ops.eigh, x)
    close(values, np.linalg.eigvalsh(mean))
    close(vectors * values[..., None, :] @ vectors.mT, mean)
    require_orthonormal(vectors)
    assert (np.take_along_axis(vectors, abs(vectors).argmax(-2)[..., None, :], -2) > 0).all()


@each_shape
def test_the_pseudo_inverse_is_numpys(shape: tuple[int, ...]):
    x = drawn(shape)
    y = evaluate(ops.pseudo_inverse, x)
    np.testing.assert_allclose(y, np.linalg.pinv(x), rtol=0, atol=1e-11 * abs(y).max(), strict=True)


def test_tolerances_take_small_singular_values_for_zero():
    x = np.diag([4.0, 1.0, 0.5])
    assert np.diag(evaluate(lambda x: ops.pseudo_inverse(x, relative=0.125), x)).tolist() == [0.25, 1, 0]
    assert np.diag(evaluate(lambda x: ops.pseudo_inverse(x, absolute=1.0), x)).tolist() == [0.25, 0, 0]
    assert np.diag(evaluate(ops.pseudo_inverse, x)).tolist() == [0.25, 1, 2]


DEFICIENT = {
    "zeros": np.zeros((4, 3)),
    "ones": np.ones((5, 5)),
    "a product of rank 2": drawn((6, 2)) @ drawn((2, 6)),
    "equal values": np.eye(4),
    "values of both signs": np.diag([1.0, -1.0, 1.0, -1.0]),
    "large and small numbers": np.diag([1e200, 1.0, 1e-200]),
    "denormals": np.full((3, 3), 1e-310),
    "almost dependent columns": np.vander(np.linspace(0, 1, 12)),
}


@pytest.mark.parametrize("name", DEFICIENT)
def test_vectors_are_orthonormal_without_full_rank_too(name: str):
    x = DEFICIENT[name]
    size = abs(x).max() or 1.0
    u, s, v = evaluate(ops.svd, x)
    q, r = evaluate(ops.qr, x)
    for factor in (u, v, q):
        require_orthonormal(factor)
    for product in (u * s @ v.T, q @ r):
        np.testing.assert_allclose(product / size, x / size, atol=1e-14)
    assert (np.diff(s) <= 0).all()
    if x.shape[0] == x.shape[1]:
        values, vectors = evaluate(ops.eigh, x)
        require_orthonormal(vectors)
        np.testing.assert_allclose((vectors * values @ vectors.T) / size, (x + x.T) / 2 / size, atol=1e-14)
        assert (np.diff(values) >= 0).all()


def test_matrices_that_are_diagonal_are_taken_apart_without_rounding():
    x = np.diag([3.0, -7.0, 0.1])
    assert evaluate(ops.svd, x)[1].tolist() == [7, 3, 0.1]
    assert evaluate(ops.eigh, x)[0].tolist() == [-7, 0.1, 3]


def test_a_matrix_has_the_same_bits_alone_and_in_a_batch():
    x = drawn((9, 6, 5))
    for function in (ops.qr, ops.svd):
        for whole, alone in zip(evaluate(function, x), evaluate(function, x[4]), strict=True):
            np.testing.assert_array_equal(whole[4], alone)
    for whole, alone in zip(evaluate(ops.eigh, x[:, :5]), evaluate(ops.eigh, x[4, :5]), strict=True):
        np.testing.assert_array_equal(whole[4], alone)


def test_the_gradient_of_a_sum_of_singular_values_needs_no_distinct_ones():
    [dx] = gradient(lambda x: ops.sum(ops.svd(x)[1]), 2 * np.eye(3))
    np.testing.assert_array_equal(dx, np.eye(3))
    [dx] = gradient(lambda x: ops.sum(ops.eigh(x)[0]), 2 * np.eye(3))
    np.testing.assert_array_equal(dx, np.eye(3))


def test_the_gradient_of_vectors_of_equal_values_is_not_finite():
    for function in (lambda x: ops.svd(x)[0], lambda x: ops.eigh(x)[1]):
        dx, _ = gradient(lambda x, w, function=function: ops.sum(function(x) * w), np.eye(3), drawn((3, 3)))
        assert not np.isfinite(dx).any()


@pytest.mark.parametrize("shape", [(5, 5), (6, 3), (3, 6)], ids=str)
def test_the_pseudo_inverse_without_full_rank_has_a_gradient_along_matrices_of_its_rank(shape: tuple[int, int]):
    left, right, weights = drawn((shape[0], 2)), drawn((2, shape[1])), drawn((shape[1], shape[0]))

    def total(left: Value, right: Value, w: Value) -> Value:
        return ops.sum(ops.pseudo_inverse(left @ right) * w)

    found, *_ = gradient(total, left, right, weights)
    direction = np.random.default_rng(2).normal(size=left.shape)
    step = 1e-6
    ends = [(np.linalg.pinv((left + sign * direction) @ right, rcond=1e-9) * weights).sum() for sign in (step, -step)]
    np.testing.assert_allclose((found * direction).sum(), (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("function", [ops.svd, ops.eigh, ops.pseudo_inverse])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_stop_the_run(function: Callable[..., Any], number: float):
    x = np.stack([np.eye(3), np.eye(3)])
    x[1, 0, 2] = number
    with pytest.raises(ExecutionError) as caught:
        evaluate(function, x)
    assert str(caught.value) == f"matrix [1] of x has no decomposition: its largest element is {number}"


CALLS: list[tuple[Callable[[Value], object], str]] = [
    (lambda x: ops.qr(x[0]), "qr(x: float64[3]): x has 1 axes and needs two or more"),
    (ops.eigh, "eigh(x: float64[2, 3]): x has 2 rows and 3 columns; it must be square"),
    (
        lambda x: ops.svd(ops.cast(x, dtype="int32")),
        "svd(x: int32[2, 3]): needs float32 or float64, not int32; cast it first",
    ),
    (
        lambda x: ops.pseudo_inverse(x, relative=-1.0),
        "pseudo_inverse(x: float64[2, 3]): relative is -1 and absolute is 0; neither may be below 0",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence.split("(")[0] for _, sentence in CALLS])
def test_a_call_that_makes_no_sense_is_an_error(call: Callable[[Value], object], sentence: str):
    _, [x] = block_of((np.zeros((2, 3)),))
    assert told(OpError, lambda: call(x)) == sentence


def test_the_extents_of_a_matrix_are_numbers_and_its_batch_may_be_a_symbol():
    block = Block()
    x = block.define("x", TensorType("float64", ("n", 4, 3)))
    assert [value.shape for value in ops.svd(x)] == [("n", 4, 3), ("n", 3), ("n", 3, 3)]
    assert told(OpError, lambda: ops.svd(block.define("y", TensorType("float64", ("n", 3))))) == (
        "svd(x: float64[n, 3]): the extent of a matrix is the symbol 'n'; here it must be a number"
    )


def test_the_complete_factor_of_a_tall_matrix_has_no_gradient():
    with pytest.raises(OpError) as caught:
        gradient(lambda x: ops.sum(ops.qr(x, complete=True)[0]), drawn((4, 2)))
    assert str(caught.value).endswith("the complete q of 4 rows and 2 columns has no gradient; use complete=False")
