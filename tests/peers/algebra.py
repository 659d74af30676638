"""Products of matrices, sums of products, decompositions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler import Value, ops
from peers.spelling import Call, peer, unless


@peer("matmul", "matmul")
def matmul(a: Value, b: Value) -> Value:
    """PyTorch's and NumPy's: a vector stands for a row on the left and for a column on the right."""
    left = a if a.rank > 1 else ops.unsqueeze(a, axis=(0,))
    right = b if b.rank > 1 else ops.unsqueeze(b, axis=(1,))
    y = ops.matmul(left, right)
    y = y if b.rank > 1 else ops.squeeze(y, axis=(-1,))
    return y if a.rank > 1 else ops.squeeze(y, axis=(-1 if b.rank == 1 else -2,))


@peer("__rmatmul__", "matmul")
def rmatmul(a: Value, b: Value) -> Value:
    return matmul(b, a)


@peer("mm", "matmul")
@peer("bmm", "matmul")
def mm(a: Value, b: Value) -> Value:
    return ops.matmul(a, b)


@peer("addmm", "matmul", "add")
def addmm(x: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return x * beta + ops.matmul(a, b) * alpha


@peer("linalg.multi_dot", "matmul")
def multi_dot(xs: Sequence[Value]) -> Value:
    y = xs[0]
    for x in xs[1:]:
        y = matmul(y, x)
    return y


@peer("nn.functional.linear", "matmul")
def linear(x: Value, w: Value, bias: Value | None = None) -> Value:
    rows = x if x.rank > 1 else ops.unsqueeze(x, axis=(0,))
    matrix = w if w.rank > 1 else ops.unsqueeze(w, axis=(0,))
    y = ops.matmul(rows, matrix, transpose_b=True)
    y = y if w.rank > 1 else ops.squeeze(y, axis=(-1,))
    y = y if x.rank > 1 else ops.squeeze(y, axis=(0,))
    return y if bias is None else y + bias


@peer("outer", "outer")
def outer(a: Value, b: Value) -> Value:
    return ops.outer(a, b)


@peer("inner", "mul", "sum")
def inner(a: Value, b: Value) -> Value:
    unless(a.rank != 1 or b.rank != 1, "inner products of tensors that are no vectors; einsum has them")
    return ops.sum(a * b)


@peer("einsum", "einsum")
def einsum(xs: Sequence[Value], equation: str) -> Value:
    return ops.einsum(equation, *xs)


def _outer_inputs(rng: np.random.Generator) -> list[Call]:
    return [
        (["ni,nj->ij", rng.normal(size=(4, 3)), rng.normal(size=(4, 2))], {}),
        (["kni,knj->ij", rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 5))], {}),
    ]


@peer("einsum", "outer_sum", inputs=_outer_inputs)
def outer_sum(equation: str, a: Value, b: Value) -> Value:
    return ops.outer_sum(a, b)


@peer("cholesky", "cholesky")
@peer("linalg.cholesky", "cholesky")
def cholesky(x: Value, upper: bool = False) -> Value:
    y = ops.cholesky(x)
    return _transposed(y) if upper else y


def _transposed(x: Value) -> Value:
    return ops.transpose(x, axis=(*range(x.rank - 2), -1, -2))


@peer("linalg.inv", "inverse")
def inv(x: Value) -> Value:
    return ops.inverse(x)


@peer("linalg.qr", "qr")
def qr(x: Value, mode: str = "reduced") -> list[Value]:
    unless(mode == "r", "PyTorch has no gradient of r alone")
    unless(mode == "complete" and x.shape[-2] > x.shape[-1], "the complete q of a tall matrix, which has no gradient")
    return list(ops.qr(x, complete=mode == "complete"))


@peer("linalg.svdvals", "svd")
def svdvals(x: Value) -> Value:
    """Vectors are left out, as their signs differ from LAPACK's."""
    return ops.svd(x)[1]


@peer("linalg.eigvalsh", "eigh")
def eigvalsh(x: Value, UPLO: str = "L") -> Value:  # noqa: N803 - PyTorch's name
    triangle, inner = (ops.tril(x), ops.tril(x, offset=-1)) if UPLO == "L" else (ops.triu(x), ops.triu(x, offset=1))
    return ops.eigh(x + ops.stop_gradient(triangle + _transposed(inner) - x))[0]


@peer("linalg.pinv", "pseudo_inverse")
def pinv(x: Value, *, rtol: float = 0.0) -> Value:
    return ops.pseudo_inverse(x, relative=rtol)


@peer("linalg.det", "determinant")
def det(x: Value) -> Value:
    return ops.determinant(x)


@peer("linalg.slogdet", "log_determinant")
def slogdet(x: Value) -> list[Value]:
    sign, logarithm = ops.log_determinant(x)
    return [ops.stop_gradient(sign), logarithm]


@peer("logdet", "log_determinant")
def logdet(x: Value) -> Value:
    sign, logarithm = ops.log_determinant(x)
    return ops.where(sign > 0, logarithm, float("nan"))


@peer("linalg.solve", "solve")
def solve(a: Value, b: Value, *, left: bool = True) -> Value:
    """PyTorch takes b for vectors if it has an axis less than a, or a's leading extents and the last one."""
    vector = b.rank == 1 or (b.rank == a.rank - 1 and b.shape == a.shape[:-1])
    if vector:
        return ops.squeeze(ops.solve(a, ops.unsqueeze(b, axis=(-1,))), axis=(-1,))
    return ops.solve(a, b) if left else _transposed(ops.solve(_transposed(a), _transposed(b)))


@peer("linalg.solve_triangular", "triangular_solve")
def solve_triangular(a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Value:
    if left:
        return ops.triangular_solve(a, b, lower=not upper, unit_diagonal=unitriangular)
    y = ops.triangular_solve(a, _transposed(b), lower=not upper, transpose=True, unit_diagonal=unitriangular)
    return _transposed(y)


@peer("triangular_solve", "triangular_solve")
def triangular_solve(
    b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Value]:
    """The second result is the triangle that was read."""
    y = ops.triangular_solve(a, b, lower=not upper, transpose=transpose, unit_diagonal=unitriangular)
    return [y, a]
