"""Orthogonal decompositions: QR, singular values, eigenvalues of symmetric matrices, pseudo-inverses.

Matrices are the last two axes, [m, n]; leading axes are a batch. Gradients are those of Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions with application in optimum experimental design", 2012 (QR), of
Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008
(eigenvalues), of Townsend, "Differentiating the singular value decomposition", 2016, and of Golub and Pereyra, "The
differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate", 1973.
"""

from __future__ import annotations

from prograd_proto import TensorType
from prograd_proto.result_types.matrices import matrix_extents
from prograd_proto.result_types.shapes import size_known
from registry.errors import require
from registry.op import op
from registry.ops.arrange import unsqueeze
from registry.ops.decomposition import triangular_solve, turned
from registry.ops.diagonals import eye, triu
from registry.ops.linalg import matmul
from registry.ops.shape import concat
from registry.traits import stops
from registry.value import Value


@op("q", "r")
def qr(x: Value, *, complete: bool = False) -> tuple[TensorType, TensorType]:
    """Return q with orthonormal columns [m, k] and upper triangular r [k, n] for which q @ r is x; k is min(m, n).

    With `complete`, k is m. The method is reflections, and the signs are those of LAPACK and PyTorch. Without rank n,
    q has arbitrary columns, and the gradient is that of a division by zero. Columns of q beyond n have no gradient.
    """
    ...


@qr.gradient
def qr_gradient(x: Value, q: Value, r: Value, dq: Value | None, dr: Value | None, *, complete: bool) -> Value:
    rows, columns = matrix_extents(x)
    if not columns:
        return x * 0.0
    require(
        rows <= columns or not complete,
        f"the complete q of {rows} rows and {columns} columns has no gradient; use complete=False",
    )
    if rows >= columns:
        return _tall_gradient(q, r, dq, dr)
    if dr is None:
        left = _tall_gradient(q, r[..., :rows], dq, None)
        return concat(left, x[..., rows:] * 0.0, axis=-1)
    right = dr[..., rows:]
    dq = _added(matmul(x[..., rows:], right, transpose_b=True), dq)
    return concat(_tall_gradient(q, r[..., :rows], dq, dr[..., :rows]), q @ right, axis=-1)


@stops
@op("u", "s", "v")
def svd(x: Value) -> tuple[TensorType, TensorType, TensorType]:
    """Return u [m, k], s [k] from the largest to the smallest, and v [n, k], for which u @ diag(s) @ transposed v is x.

    k is min(m, n); u and v have orthonormal columns. The method is one-sided Jacobi rotations. The element of a column
    of v, or of u for m < n, with the largest absolute value is positive. NaN or Inf stops the run.

    The gradient of s is that of PyTorch. That of u and v divides by differences of squared singular values and is not
    finite for equal ones, and for m != n it divides by s.
    """
    ...


@svd.gradient
def svd_gradient(x: Value, u: Value, s: Value, v: Value, du: Value | None, ds: Value | None, dv: Value | None) -> Value:
    rows, columns = matrix_extents(x)
    row = unsqueeze(s, axis=(-2,))
    inner: Value | None = None if ds is None else _diagonal(ds)
    if du is not None or dv is not None:
        squares = row * row
        apart = squares - turned(squares) + _identity(s)
        if du is not None:
            inner = _added(_skew(matmul(u, du, transpose_a=True)) / apart * row, inner)
        if dv is not None:
            inner = _added(turned(row) * (_skew(matmul(v, dv, transpose_a=True)) / apart), inner)
    assert inner is not None
    left = u @ inner
    if du is not None and rows > columns:
        left = left + _outside(u, du / row)
    dx = matmul(left, v, transpose_b=True)
    return dx if dv is None or columns <= rows else dx + matmul(u, _outside(v, dv / row), transpose_b=True)


@stops
@op("values", "vectors")
def eigh(x: Value) -> tuple[TensorType, TensorType]:
    """Return the eigenvalues [n] of a symmetric matrix, from the smallest, and its eigenvectors [n, n] as columns.

    The matrix is the mean of x and its transpose. The method is one-sided Jacobi rotations. The element of an
    eigenvector with the largest absolute value is positive. NaN or Inf stops the run. The gradient of vectors divides
    by differences of eigenvalues, and is not finite for equal ones, as in PyTorch.
    """
    ...


@eigh.gradient
def eigh_gradient(values: Value, vectors: Value, dvalues: Value | None, dvectors: Value | None) -> Value:
    inner: Value | None = None if dvalues is None else _diagonal(dvalues)
    if dvectors is not None:
        row = unsqueeze(values, axis=(-2,))
        apart = row - turned(row) + _identity(values)
        inner = _added(_skew(matmul(vectors, dvectors, transpose_a=True)) * 0.5 / apart, inner)
    assert inner is not None
    return matmul(vectors @ inner, vectors, transpose_b=True)


@stops
@op
def pseudo_inverse(x: Value, *, relative: float = 0.0, absolute: float = 0.0) -> TensorType:
    """Return the inverse of Moore and Penrose [n, m], computed from the singular values.

    Singular values of at most max(absolute, relative * the largest) are taken for 0. If both are 0, `relative` is
    max(m, n) times the distance from 1 to the next number of the dtype. NaN or Inf stops the run. The gradient takes
    the rank for constant.
    """
    ...


@pseudo_inverse.gradient
def pseudo_inverse_gradient(x: Value, y: Value, dy: Value) -> Value:
    z, dz = turned(y), turned(dy)
    left, right = dz @ y @ z, z @ y @ dz
    return left - x @ (y @ left) + right - right @ y @ x - z @ dy @ z


def _tall_gradient(q: Value, r: Value, dq: Value | None, dr: Value | None) -> Value:
    """Return the gradient of a matrix of at least as many rows as columns."""
    inner: Value | None = None if dq is None else -matmul(q, dq, transpose_a=True)
    if dr is not None:
        inner = _added(matmul(dr, r, transpose_b=True), inner)
    assert inner is not None
    whole = _added(q @ (triu(inner) + turned(triu(inner, offset=1))), dq)
    return turned(triangular_solve(r, turned(whole), lower=False))


def _added(x: Value, y: Value | None) -> Value:
    return x if y is None else x + y


def _skew(x: Value) -> Value:
    """Return x without its symmetric part, twice."""
    return x - turned(x)


def _diagonal(x: Value) -> Value:
    """Return matrices with x [..., n] on their diagonals."""
    return unsqueeze(x, axis=(-1,)) * _identity(x)


def _identity(x: Value) -> Value:
    n = size_known(x.shape[-1], "the extent of a matrix")
    return eye.on(x.block)(shape=(n, n), dtype=x.dtype)


def _outside(u: Value, x: Value) -> Value:
    """Return the part of x that is orthogonal to the orthonormal columns of u."""
    return x - u @ matmul(u, x, transpose_a=True)
