"""Matrix decompositions by elimination in blocks.

NumPy's own functions allocate their results and work space. Here the loops over the n rows of a matrix are Python's,
each step for the whole batch at once. Most of the work is products of blocks, which BLAS computes. A single large
matrix with row exchanges takes several times as long as LAPACK (500 x 500: 30 ms), because of the calls for each of its
columns; batches and triangles come close to it.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.index import count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.errors import ExecutionError
from runtime.kernel import Array, kernel, require

BLOCK = 32
"""Number of rows that are eliminated one by one before a product updates the rest of the matrix."""


def elimination_scratch(x: TensorType) -> list[TensorType]:
    """Return the types of the fields of Elimination."""
    batch, n = square(x)
    return [
        TensorType(x.dtype, (batch, n, n)),
        TensorType("int64", (batch, n)),
        TensorType("bool", (batch,)),
        TensorType("int64", (batch,)),
        TensorType("int64", (batch,)),
        TensorType("bool", (batch,)),
        TensorType(x.dtype, (batch * n,)),
        TensorType(x.dtype, (2, batch, n)),
        TensorType("int64", (2, batch, 1)),
        work_for(x, batch, n),
    ]


def cubed(x: TensorType) -> int:
    """Return the operations of a decomposition: n * n * n for each matrix."""
    return prod(x.static_shape) * x.static_shape[-1]


def cholesky_scratch(x: TensorType) -> list[TensorType]:
    batch, n = square(x)
    return [work_for(x, batch, n), TensorType("bool", (batch,))]


@kernel(scratch=cholesky_scratch, operations=cubed)
@small_buffers()
def cholesky(x: Array, *, out: Array, scratch: list[Array]) -> None:
    work, positive = scratch
    n = x.shape[-1]
    np.add(x, x.swapaxes(-1, -2), out)
    np.multiply(out, 0.5, out)
    y = out.reshape(positive.size, n, n)
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        subtract_product(y[:, start:, start:stop], y[:, start:, :start], y[:, start:stop, :start].mT, work)
        for k in range(start, stop):
            subtract_product(y[:, k:, k : k + 1], y[:, k:, start:k], y[:, k : k + 1, start:k].mT, work)
            pivots = y[:, k, k]
            np.greater(pivots, 0, positive)
            if not positive.all():
                at = int(np.argmin(positive))
                raise ExecutionError(
                    f"{matrix('x', x, at)} is not positive definite: pivot {k} is {pivots[at]:g}, not above 0"
                )
            np.sqrt(pivots, pivots)
            np.divide(y[:, k + 1 :, k], pivots.reshape(-1, 1), y[:, k + 1 :, k])
            y[:, k, k + 1 :] = 0


def solve_operations(a: TensorType, out: TensorType) -> int:
    return (prod(a.static_shape) + 2 * prod(out.static_shape)) * a.static_shape[-1]


def triangular_solve_scratch(out: TensorType) -> list[TensorType]:
    return [work_for(out, prod(out.static_shape[:-2]), out.static_shape[-1])]


@kernel(scratch=triangular_solve_scratch, operations=solve_operations)
@small_buffers()
def triangular_solve(
    a: Array, b: Array, *, lower: bool, transpose: bool, unit_diagonal: bool, out: Array, scratch: list[Array]
) -> None:
    np.copyto(out, b)
    substitute(a.mT if transpose else a, out, lower=lower != transpose, unit=unit_diagonal, work=scratch[0])


def solve_scratch(a: TensorType, b: TensorType, out: TensorType) -> list[TensorType]:
    batch, rows, columns = prod(out.static_shape[:-2]), *out.static_shape[-2:]
    places = [TensorType("int64", (batch, rows)), TensorType("int64", b.shape[:-2])]
    return [*elimination_scratch(a), *places, work_for(out, batch, columns)]


@kernel(scratch=solve_scratch, operations=solve_operations)
@small_buffers()
def solve(a: Array, b: Array, *, out: Array, scratch: list[Array]) -> None:
    *own, places, batches, work = scratch
    made = eliminate(a, Elimination(*own))
    require_regular("a", a, made.factors)
    if not out.size:
        return
    n = a.shape[-1]
    rows = places.reshape(out.shape[:-1])
    count_up(batches.reshape(-1), n)
    np.add(batches.reshape(*b.shape[:-2], 1), made.order.reshape(a.shape[:-1]), rows)
    np.take(b.reshape(batches.size * n, -1), places.reshape(-1), 0, out.reshape(places.size, -1), "clip")
    factors = made.factors.reshape(a.shape)
    substitute(factors, out, lower=True, unit=True, work=work)
    substitute(factors, out, lower=False, unit=False, work=work)


def inverse_scratch(x: TensorType) -> list[TensorType]:
    return [*elimination_scratch(x), TensorType("int64", square(x))]


@kernel(scratch=inverse_scratch, operations=cubed)
@small_buffers()
def inverse(x: Array, *, out: Array, scratch: list[Array]) -> None:
    *own, ones = scratch
    made = eliminate(x, Elimination(*own))
    require_regular("x", x, made.factors)
    y = out.reshape(made.factors.shape)
    count_up(ones.reshape(-1), x.shape[-1])
    np.add(ones, made.order, ones)
    y.fill(0)
    y.reshape(-1)[ones.reshape(-1)] = 1  # the identity with its rows in the order of the factors
    substitute(made.factors, y, lower=True, unit=True, work=made.work)
    substitute(made.factors, y, lower=False, unit=False, work=made.work)


@kernel(scratch=elimination_scratch, operations=cubed)
@small_buffers()
def determinant(x: Array, *, out: Array, scratch: list[Array]) -> None:
    made = eliminate(x, Elimination(*scratch))
    y = out.reshape(-1)
    np.multiply.reduce(made.factors.diagonal(0, 1, 2), axis=1, out=y)
    np.negative(y, y, where=made.odd)


@kernel(scratch=elimination_scratch, operations=cubed)
@small_buffers()
def log_determinant(x: Array, *, out: list[Array], scratch: list[Array]) -> None:
    made = eliminate(x, Elimination(*scratch))
    sign, logarithm = (y.reshape(-1) for y in out)
    pivots, terms = made.factors.diagonal(0, 1, 2), made.column.reshape(made.order.shape)
    np.sign(pivots, terms)
    np.multiply.reduce(terms, axis=1, out=sign)
    np.negative(sign, sign, where=made.odd)
    np.add(sign, 0, sign)  # -0 becomes 0
    np.absolute(pivots, terms)
    np.log(terms, terms)
    np.add.reduce(terms, axis=1, out=logarithm)


class Elimination(NamedTuple):
    """Rows of matrices in pivot order, as a lower and an upper factor, with the scratch to compute them."""

    factors: Array  # [batch, n, n], both factors; the diagonal of the lower one is ones and not kept
    order: Array  # [batch, n], the row at each position
    odd: Array  # [batch], True for an odd permutation
    starts: Array  # [batch], the number of each matrix's first row
    pivots: Array  # [batch], numbers of rows
    flag: Array  # [batch]
    column: Array  # batch * n elements
    lines: Array  # [2, batch, n]
    numbers: Array  # [2, batch, 1]
    work: Array


def eliminate(x: Array, made: Elimination) -> Elimination:
    """Fill in the factors column by column, exchanging the row with the largest element to the front."""
    y, work, flag = made.factors, made.work, made.flag
    batch, n = made.order.shape
    np.copyto(y, x.reshape(y.shape))
    made.odd.fill(False)
    count_up(made.starts, n)
    count_up(made.order.reshape(-1), 1)
    np.subtract(made.order, made.starts.reshape(-1, 1), made.order)
    for start in range(0, n if batch else 0, BLOCK):
        stop = min(n, start + BLOCK)
        subtract_product(y[:, start:, start:stop], y[:, start:, :start], y[:, :start, start:stop], work)
        for k in range(start, stop):
            line, below = y[:, k : k + 1, k + 1 : stop], y[:, k + 1 :, k]
            subtract_product(y[:, k:, k : k + 1], y[:, k:, start:k], y[:, start:k, k : k + 1], work)
            bring_largest_up(k, made)
            subtract_product(line, y[:, k : k + 1, start:k], y[:, start:k, k + 1 : stop], work)
            np.not_equal(y[:, k, k], 0, flag)
            np.divide(below, y[:, k, k : k + 1], below, where=flag.reshape(-1, 1))  # all are 0 under a pivot of 0
        right = y[:, start:stop, stop:]
        subtract_product(right, y[:, start:stop, :start], y[:, :start, stop:], work)
        substitute(y[:, start:stop, start:stop], right, lower=True, unit=True, work=work)
    return made


def bring_largest_up(k: int, made: Elimination) -> None:
    """Exchange row k of each matrix with the row below that has the largest element in column k."""
    batch, n = made.order.shape
    column = made.column[: batch * (n - k)].reshape(batch, n - k)
    np.absolute(made.factors[:, k:, k], column)
    np.argmax(column, 1, made.pivots)
    np.not_equal(made.pivots, 0, made.flag)
    np.not_equal(made.odd, made.flag, made.odd)
    np.add(made.pivots, made.starts, made.pivots)
    np.add(made.pivots, k, made.pivots)
    exchange(made.factors, k, made.pivots, made.lines)
    exchange(made.order.reshape(batch, n, 1), k, made.pivots, made.numbers)


def exchange(rows: Array, k: int, others: Array, lines: Array) -> None:
    """Exchange row k of each matrix with the row of that number, counted over all matrices."""
    upper, lower = lines
    flat = rows.reshape(-1, rows.shape[2])
    np.copyto(upper, rows[:, k])
    np.take(flat, others, 0, lower, "clip")
    flat[others] = upper
    np.copyto(rows[:, k], lower)


def substitute(a: Array, y: Array, *, lower: bool, unit: bool, work: Array) -> None:
    """Solve a @ x = y for triangular a in place, one block of rows after the other."""
    n = y.shape[-2]
    for start in range(0, n, BLOCK) if lower else reversed(range(0, n, BLOCK)):
        stop = min(n, start + BLOCK)
        done = slice(0, start) if lower else slice(stop, n)
        subtract_product(y[..., start:stop, :], a[..., start:stop, done], y[..., done, :], work)
        for row in range(start, stop) if lower else reversed(range(start, stop)):
            done = slice(start, row) if lower else slice(row + 1, stop)
            line = y[..., row : row + 1, :]
            subtract_product(line, a[..., row : row + 1, done], y[..., done, :], work)
            if not unit:
                np.divide(line, a[..., row : row + 1, row : row + 1], line)


def subtract_product(y: Array, a: Array, b: Array, work: Array) -> None:
    """Subtract a @ b from y."""
    if a.shape[-1] and y.size:
        part = work[: y.size].reshape(y.shape)
        np.matmul(a, b, part)
        np.subtract(y, part, y)


def require_regular(name: str, x: Array, factors: Array) -> None:
    """Raise ExecutionError if a pivot of the factors is 0."""
    pivots = factors.diagonal(0, 1, 2)
    if np.count_nonzero(pivots) < pivots.size:
        at, k = (int(i) for i in np.argwhere(pivots == 0)[0])
        raise ExecutionError(f"{matrix(name, x, at)} is singular: pivot {k} is 0")


def matrix(name: str, x: Array, number: int) -> str:
    """Return the name of one matrix of a batch for an error message."""
    return name if x.ndim == 2 else f"matrix {[int(i) for i in np.unravel_index(number, x.shape[:-2])]} of {name}"


def square(x: TensorType) -> tuple[int, int]:
    """Return the number of matrices in x, and the number of rows of each."""
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    require(x.rank >= 2 and x.shape[-1] == x.shape[-2], f"{x} has no square matrices")
    return prod(x.static_shape[:-2]), x.static_shape[-1]


def work_for(x: TensorType, batch: int, columns: int) -> TensorType:
    """Return scratch for a product that is one block high, or wide."""
    return TensorType(x.dtype, (batch * BLOCK * columns,))
