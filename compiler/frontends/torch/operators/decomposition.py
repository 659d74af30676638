"""Linear algebra of square matrices: solutions, factors, inverses, determinants, exponentials, reflections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged, expanded, plain
from compiler.frontends.torch.operators.call import Call, Mapping, on_plain
from registry import Value, ops

TERMS: Final = 20
"""Terms of the series of the exponential of a matrix whose norm is at most 1: the next one is below 1e-18."""

MAX_SQUARINGS: Final = 16
"""The exponential is that of matrices with a norm of at most 2 to this power."""


def turned(x: Value) -> Value:
    """Return a matrix with its last two axes exchanged."""
    return ops.transpose(x, axis=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _identity(x: Value, rows: int | None = None) -> Value:
    size = _size(x) if rows is None else rows
    return ops.eye.on(x.block)(shape=(size, size), dtype=x.dtype)


def _size(x: Value) -> int:
    size = x.shape[-1]
    if not isinstance(size, int):
        raise CompileError(f"matrices of {size} columns need a number; import without that symbol")
    return size


def _solve_ex(call: Call, a: Arranged, b: Arranged, left: bool = True, **more: Any) -> tuple[Arranged, ...]:
    """Return the solution of a @ y = b, or of y @ a = b; b is a vector if it has the rows of a and no columns."""
    x, y = plain(a), plain(b)
    is_vector = y.rank == 1 or (y.rank == x.rank - 1 and tuple(y.shape) == tuple(x.shape[:-1]))
    y = ops.unsqueeze(y, axis=(-1,)) if is_vector else y
    made = ops.solve(x, y) if left else turned(ops.solve(turned(x), turned(y)))
    return arranged(ops.squeeze(made, axis=(-1,)) if is_vector else made), a, a, _no_fault(call, 3)


def _cholesky(x: Value, upper: bool = False, **more: Any) -> Value:
    made = ops.cholesky(symmetric(x, upper))
    return turned(made) if upper else made


def symmetric(x: Value, upper: bool) -> Value:
    """Return the symmetric matrix that has a triangle of x; its gradient is x's as a whole, as in PyTorch."""
    triangle = ops.triu(x) if upper else ops.tril(x)
    inner = ops.triu(x, offset=1) if upper else ops.tril(x, offset=-1)
    return x + ops.stop_gradient(triangle + turned(inner) - x)


def _cholesky_solve(b: Value, factor: Value, upper: bool = False) -> Value:
    lower = turned(factor) if upper else factor
    inner = ops.triangular_solve(lower, b, lower=True)
    return ops.triangular_solve(lower, inner, lower=True, transpose=True)


def _solve_triangular(a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Value:
    if left:
        return ops.triangular_solve(a, b, lower=not upper, unit_diagonal=unitriangular)
    return turned(ops.triangular_solve(turned(a), turned(b), lower=upper, unit_diagonal=unitriangular))


def _triangular_solve(
    b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    return ops.triangular_solve(a, b, lower=not upper, transpose=transpose, unit_diagonal=unitriangular), a


def _log_determinant(call: Call, x: Arranged) -> tuple[Arranged, ...]:
    sign, logarithm = ops.log_determinant(plain(x))
    return arranged(ops.stop_gradient(sign)), arranged(logarithm), x, x


def _exponential(x: Value) -> Value:
    """Return the exponential of a matrix: the series of x / 2 ** k, squared k times, where k follows from the norm."""
    norm = ops.stop_gradient(ops.max(ops.sum(ops.abs(x), axis=(-2,), keepdims=True), axis=(-1,), keepdims=True))
    halvings = ops.minimum(ops.ceil(ops.log2(ops.maximum(norm, 1.0))), float(MAX_SQUARINGS))
    x = x * ops.exp2(-halvings)
    powers = [_identity(x), x]
    powers += [x @ x]
    powers += [powers[2] @ x]
    fourth = powers[2] @ powers[2]
    made: Value | None = None
    for first in reversed(range(0, TERMS, 4)):
        part = powers[0] * (1 / math.factorial(first))
        for k in (1, 2, 3):
            part = part + powers[k] * (1 / math.factorial(first + k))
        made = part if made is None else made @ fourth + part
    assert made is not None
    for k in range(MAX_SQUARINGS):
        is_due = halvings > float(k)
        kept = ops.where(is_due, made, 0.0)  # what is not squared could overflow
        made = ops.where(is_due, kept @ kept, made)
    return made


def _reflections(x: Value, scales: Value) -> Value:
    """Return the first columns of the product of Householder reflections, by their compact form I - V T V'.

    The inverse of T is diag(1 / scales) and the upper triangle U of V' V, so (I + diag(scales) U) T is diag(scales).
    """
    rows, columns = int(x.shape[-2]), _size(x)
    v = ops.tril(x, offset=-1) + ops.eye.on(x.block)(shape=(rows, columns), dtype=x.dtype)
    count = int(scales.shape[-1])
    v = v[(*(slice(None),) * (v.rank - 1), slice(0, count))]
    scaled = ops.unsqueeze(scales, axis=(-1,))
    unit = _identity(x, count)
    t = ops.triangular_solve(
        unit + scaled * ops.triu(turned(v) @ v, offset=1), unit * scaled, lower=False, unit_diagonal=True
    )
    whole = _identity(x, rows) - v @ (t @ turned(v))
    return whole[(*(slice(None),) * (whole.rank - 1), slice(0, columns))]


def _with_check(function: Callable[..., Value]) -> Mapping:
    """Return the mapping of a function of one matrix whose ATen form also tells what failed."""

    def mapped(call: Call, x: Arranged, *rest: Any, **more: Any) -> tuple[Any, ...]:
        return arranged(function(plain(x), *rest, **more)), _no_fault(call, 1)

    return mapped


def _no_fault(call: Call, number: int) -> Arranged:
    """Return zeros as the result `number`, the faults of matrices: a matrix with a fault stops the run."""
    zero = arranged(ops.full.on(call.block)(shape=(), value=0, dtype="int32"))
    return expanded(zero, call.results[number].shape)


REMEDIES: Final = {
    "aten.linalg_eig.default": "for symmetric matrices use torch.linalg.eigh; else compute it outside of forward, and "
    "give the result as an input or a buffer",
}
"""Remedies for decompositions without a counterpart, for the sentences that refuse them."""

OPERATORS: Final[dict[str, Mapping]] = {
    "aten._linalg_solve_ex.default": _solve_ex,
    "aten.linalg_inv_ex.default": _with_check(lambda x, *rest, **more: ops.inverse(x)),
    "aten.linalg_cholesky_ex.default": _with_check(_cholesky),
    "aten.cholesky.default": on_plain(lambda call, x, upper=False: _cholesky(x, upper)),
    "aten.cholesky_solve.default": on_plain(lambda call, *xs: _cholesky_solve(*xs)),
    "aten.cholesky_inverse.default": on_plain(lambda call, x, upper=False: _cholesky_solve(_identity(x), x, upper)),
    "aten.linalg_solve_triangular.default": on_plain(lambda call, a, b, **more: _solve_triangular(a, b, **more)),
    "aten.triangular_solve.default": on_plain(lambda call, *xs: _triangular_solve(*xs)),
    "aten._linalg_det.default": lambda call, x: (arranged(ops.determinant(plain(x))), x, x),
    "aten._linalg_slogdet.default": _log_determinant,
    "aten.linalg_matrix_exp.default": on_plain(lambda call, x: _exponential(x)),
    "aten.linalg_householder_product.default": on_plain(lambda call, x, scales: _reflections(x, scales)),
}
