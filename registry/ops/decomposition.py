"""Matrix decompositions: triangular factors, solutions of linear equations, inverses and determinants.

Matrices are the last two axes, [n, n]; leading axes are a batch. Gradients are those of Giles, "Collected matrix
derivative results for forward and reverse mode algorithmic differentiation", 2008, and of Murray, "Differentiation of
the Cholesky decomposition", 2016.
"""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.ops.diagonals import tril, triu
from registry.ops.linalg import matmul
from registry.ops.reduce import sum_to
from registry.ops.shape import reshape, transpose
from registry.traits import stops
from registry.value import Value


@stops
@op
def cholesky(x: Value) -> TensorType:
    """Return the lower triangular matrix y with positive diagonal for which y @ transposed y is x.

    The factored matrix is the mean of x and its transpose, so the gradient is symmetric, as in PyTorch. A matrix that
    is not positive definite stops the run.
    """
    ...


@cholesky.gradient
def cholesky_gradient(y: Value, dy: Value) -> Value:
    product = matmul(y, dy, transpose_a=True)
    half = (tril(product) + tril(product, offset=-1)) * 0.5
    left = triangular_solve(y, half, transpose=True)
    dx = triangular_solve(y, turned(left), transpose=True)
    return (dx + turned(dx)) * 0.5


@op
def triangular_solve(
    a: Value, b: Value, *, lower: bool = True, transpose: bool = False, unit_diagonal: bool = False
) -> TensorType:
    """Return the solution y of a @ y = b, or of transposed a @ y = b, for triangular a [n, n] and b [n, k].

    The other triangle of a is not read, nor is the diagonal with `unit_diagonal`. Leading axes broadcast. A zero on the
    diagonal gives the result of a division by zero.
    """
    ...


@triangular_solve.gradient
def triangular_solve_gradient(
    a: Value, b: Value, y: Value, dy: Value, *, lower: bool, transpose: bool, unit_diagonal: bool
) -> tuple[Value, Value]:
    db = triangular_solve(a, dy, lower=lower, transpose=not transpose, unit_diagonal=unit_diagonal)
    da = matmul(y, db, transpose_b=True) if transpose else matmul(db, y, transpose_b=True)
    inner = int(unit_diagonal)
    da = sum_to(-da, a)
    return tril(da, offset=-inner) if lower else triu(da, offset=inner), sum_to(db, b)


@stops
@op
def solve(a: Value, b: Value) -> TensorType:
    """Return the solution y of a @ y = b, for a [n, n] and b [n, k]; leading axes broadcast.

    The method is elimination with row exchanges; a singular matrix stops the run.
    """
    ...


@solve.gradient
def solve_gradient(a: Value, b: Value, y: Value, dy: Value) -> tuple[Value, Value]:
    db = solve(turned(a), dy)
    return sum_to(-matmul(db, y, transpose_b=True), a), sum_to(db, b)


@stops
@op
def inverse(x: Value) -> TensorType:
    """Return the matrix inverse; a singular x stops the run. Use `solve` for linear equations."""
    ...


@inverse.gradient
def inverse_gradient(y: Value, dy: Value) -> Value:
    return -matmul(matmul(y, dy, transpose_a=True), y, transpose_b=True)


@op
def determinant(x: Value) -> TensorType:
    """Return the determinant; its gradient needs the inverse, and a singular x stops the run there."""
    ...


@determinant.gradient
def determinant_gradient(x: Value, y: Value, dy: Value) -> Value:
    return reshape(y * dy, shape=(*y.shape, 1, 1)) * turned(inverse(x))


@op("sign", "logarithm", no_gradient=("sign",))
def log_determinant(x: Value) -> tuple[TensorType, TensorType]:
    """Return the sign of the determinant and the log of its absolute value: 0 and -inf for a singular x."""
    ...


@log_determinant.gradient
def log_determinant_gradient(x: Value, dlogarithm: Value) -> Value:
    return reshape(dlogarithm, shape=(*dlogarithm.shape, 1, 1)) * turned(inverse(x))


def turned(x: Value) -> Value:
    """Return the matrices transposed."""
    return transpose(x, axis=(*range(x.rank - 2), x.rank - 1, x.rank - 2))
