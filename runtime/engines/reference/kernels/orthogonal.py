"""Orthogonal decompositions by reflections and by Jacobi rotations.

As in `decomposition`, loops over columns are Python's, and each step computes the whole batch. One-sided Jacobi
rotations make the columns of a matrix orthogonal in pairs. Each round rotates half of the columns with the other half,
then the columns move on, so that all pairs have met after a sweep. The columns lie in rows here, each followed by its
row of the accumulated rotations. Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958;
Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992. A single matrix of 128 x 128 takes many times as
long as by LAPACK; batches of small matrices come closer.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.decomposition import matrix, square
from runtime.engines.reference.kernels.index import count_up
from runtime.engines.reference.kernels.windows import small_buffers
from runtime.errors import ExecutionError
from runtime.kernel import Array, kernel, require

MAX_SWEEPS = 40
"""Upper bound on the sweeps of rotations; matrices need about log2(n) + 5."""


def rotation_scratch(x: TensorType) -> list[TensorType]:
    """Return the types of the fields of Rotations."""
    batch, rows, columns = extents(x)
    length, count = max(rows, columns), min(rows, columns)
    half = (count + 1) // 2
    whole = TensorType(x.dtype, (batch, 2 * half, length + count))
    return [
        whole,
        whole,
        TensorType(x.dtype, (batch, half, length + count)),
        TensorType(x.dtype, (5, batch, half)),
        TensorType("bool", (batch, half)),
        TensorType("int64", (2 * half,)),
        TensorType("int32", (batch, 1, 1)),
        TensorType("float64", (batch, count, 2)),
        TensorType("int64", (batch, count)),
        TensorType("int64", (batch, count)),
        *reflection_scratch(x.dtype, batch, length, count, count),
    ]


def qr_operations(x: TensorType, out: tuple[TensorType, TensorType]) -> int:
    """Return the operations of the reflections, and of their product."""
    return 2 * (prod(x.static_shape) + prod(out[0].static_shape)) * min(x.static_shape[-2:])


def qr_scratch(x: TensorType, out: tuple[TensorType, TensorType]) -> list[TensorType]:
    batch, rows, columns = extents(x)
    own = [TensorType(x.dtype, (batch, rows, columns)), TensorType("int32", (batch, 1, 1))]
    return [*own, *reflection_scratch(x.dtype, batch, rows, columns, out[0].static_shape[-1])]


@kernel(scratch=qr_scratch, operations=qr_operations)
@small_buffers()
def qr(x: Array, *, complete: bool, out: list[Array], scratch: list[Array]) -> None:
    y, exponent, *own = scratch
    made = Reflections(*own)
    batch, rows, columns = y.shape
    q, r = (array.reshape(batch, *array.shape[-2:]) for array in out)
    if not x.size:
        set_identity(q)
        return
    np.copyto(y, x.reshape(y.shape))
    bring_to_unit(y, exponent, made.line[0], made.work)
    reflect(y, made)
    multiply_reflections(y, made, q)
    r.fill(0)
    for i in range(min(rows, columns)):
        np.copyto(r[:, i, i + 1 :], y[:, i, i + 1 :])
        np.copyto(r[:, i, i], made.diagonal[:, i])
    np.ldexp(r, exponent, r)


def svd_operations(x: TensorType) -> int:
    """Return the operations of eight sweeps of rotations."""
    return 48 * prod(x.static_shape) * min(x.static_shape[-2:])


@kernel(scratch=rotation_scratch, operations=svd_operations)
@small_buffers()
def svd(x: Array, *, out: list[Array], scratch: list[Array]) -> None:
    u, s, v = out
    if s.size:
        batch = prod(x.shape[:-2])
        u, v = (array.reshape(batch, *array.shape[-2:]) for array in (u, v))
        take_apart(x, u, s.reshape(batch, -1), v, Rotations(*scratch))


def pseudo_inverse_scratch(x: TensorType) -> list[TensorType]:
    batch, rows, columns = extents(x)
    count = min(rows, columns)
    shapes = (batch, rows, count), (batch, count), (batch, columns, count), (batch, 1)
    own = [TensorType(x.dtype, shape) for shape in shapes]
    return [*own, TensorType("bool", (batch, count)), *rotation_scratch(x)]


@kernel(scratch=pseudo_inverse_scratch, operations=svd_operations)
@small_buffers()
def pseudo_inverse(x: Array, *, relative: float, absolute: float, out: Array, scratch: list[Array]) -> None:
    u, s, v, limit, kept, *own = scratch
    if not s.size:
        out.fill(0)
        return
    take_apart(x, u, s, v, Rotations(*own))
    if not (relative or absolute):
        relative = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    np.multiply(s[:, :1], relative, limit)
    np.maximum(limit, absolute, out=limit)
    np.greater(s, limit, kept)
    np.divide(1, s, s, where=kept)
    np.multiply(s, kept, s)
    np.multiply(v, s[:, np.newaxis], v)
    np.matmul(v, u.mT, out.reshape(len(s), *out.shape[-2:]))


def eigh_scratch(x: TensorType) -> list[TensorType]:
    batch, n = square(x)
    own = [TensorType(x.dtype, shape) for shape in ((batch, n, n), (batch, 1, 1))]
    return [*own, *rotation_scratch(x)]


@kernel(scratch=eigh_scratch, operations=svd_operations)
@small_buffers()
def eigh(x: Array, *, out: list[Array], scratch: list[Array]) -> None:
    """Rotate the matrix plus a multiple of the identity, which has no eigenvalue below 0 and the same vectors."""
    y, shift, *own = scratch
    made = Rotations(*own)
    if not x.size:
        return
    batch, n, _ = y.shape
    values, vectors = out[0].reshape(batch, n), out[1].reshape(batch, n, n)
    np.add(x, x.mT, y.reshape(x.shape))
    np.multiply(y, 0.5, y)
    bring_to_unit(y, made.exponent, made.line[0], made.rows)
    require_finite(x, made)
    bound_eigenvalues(y, shift, values, made)
    begin_rows(y, made)
    for i in range(n):
        np.add(made.rows[:, i, i], shift[:, 0, 0], made.rows[:, i, i])
    rows, other = make_orthogonal(x, made, n)
    found, product = rows[:, :n, n:], other.reshape(-1)[: y.size].reshape(y.shape)
    np.matmul(found, y, product)
    np.multiply(product, found, product)
    np.add.reduce(product, axis=-1, out=values)
    ordered = in_order(rows, other, values, made)
    turn_signs(ordered[..., n:], made)
    np.copyto(vectors, ordered[..., n:].mT)
    np.ldexp(values, made.exponent[:, 0], values)


def bound_eigenvalues(y: Array, bound: Array, sums: Array, made: Rotations) -> None:
    """Write the fourth root of the largest row sum of |y ** 4|, at most n ** (1 / 8) times the largest eigenvalue."""
    square, fourth = (array.reshape(-1)[: y.size].reshape(y.shape) for array in (made.rows, made.moved))
    np.matmul(y, y, square)
    np.matmul(square, square, fourth)
    np.absolute(fourth, fourth)
    np.add.reduce(fourth, axis=-1, out=sums)
    np.maximum.reduce(sums, axis=-1, keepdims=True, out=bound[..., 0])
    np.sqrt(bound, bound)
    np.sqrt(bound, bound)


class Rotations(NamedTuple):
    """Scratch of the rotations of `count` vectors in `half` pairs, each followed by a row of `count` elements."""

    rows: Array  # [batch, 2 * half, length + count]
    moved: Array  # the same, after a round
    part: Array  # [batch, half, length + count]
    numbers: Array  # [5, batch, half]
    flag: Array  # [batch, half]
    order: Array  # [2 * half]
    exponent: Array  # [batch, 1, 1]
    pairs: Array  # [batch, count], values and their positions as complex numbers
    places: Array  # [batch, count]
    starts: Array  # [batch, count]
    diagonal: Array  # the fields of Reflections
    factor: Array
    line: Array
    positive: Array
    work: Array


def take_apart(x: Array, u: Array, s: Array, v: Array, made: Rotations) -> None:
    """Write the singular values and vectors of non-empty matrices [..., m, n]."""
    if x.shape[-2] < x.shape[-1]:
        take_apart(x.mT, v, s, u, made)
        return
    length, count = u.shape[1:]
    y = made.moved.reshape(-1)[: u.size].reshape(u.shape)
    np.copyto(y.reshape(x.shape), x)
    bring_to_unit(y, made.exponent, made.line[0], made.rows)
    require_finite(x, made)
    begin_rows(y, made)
    rows, other = make_orthogonal(x, made, length)
    product = other[:, :count, :length]
    np.multiply(rows[:, :count, :length], rows[:, :count, :length], product)
    np.add.reduce(product, axis=-1, out=s)
    np.sqrt(s, s)
    np.negative(s, s)
    ordered = in_order(rows, other, s, made)
    np.negative(s, s)
    y = rows.reshape(-1)[: u.size].reshape(u.shape)
    np.copyto(y, ordered[..., :length].mT)
    reflections = Reflections(*made[-5:])
    reflect(y, reflections)  # completes the columns of singular values that are 0
    multiply_reflections(y, reflections, u)
    np.copysign(1, reflections.diagonal, reflections.diagonal)
    np.multiply(u, reflections.diagonal[:, np.newaxis], u)
    signs = turn_signs(ordered[..., length:], made)
    np.multiply(u, signs[:, np.newaxis], u)
    np.copyto(v, ordered[..., length:].mT)
    np.ldexp(s, made.exponent[:, 0], s)


def begin_rows(y: Array, made: Rotations) -> None:
    """Write the columns of y into rows, each followed by its row of the identity; `y` may lie in `moved`."""
    length, count = y.shape[-2:]
    made.rows.fill(0)
    np.copyto(made.rows[:, :count, :length], y.mT)
    for i in range(count):
        made.rows[:, i, length + i] = 1


def make_orthogonal(x: Array, made: Rotations, length: int) -> tuple[Array, Array]:
    """Rotate pairs of rows until their first `length` elements are orthogonal; return the rows, and free memory."""
    rows, other, order = made.rows, made.moved, made.order
    half = len(order) // 2
    count_up(order, 1)
    if half > 1:
        order[1:half] -= 1
        order[1] = half
        order[half:] += 1
        order[-1] = half - 1
    for _ in range(MAX_SWEEPS):
        is_orthogonal = True
        for _ in range(2 * half - 1):
            if rotate(rows, other, length, made):
                is_orthogonal = False
                rows, other = other, rows
            np.take(rows, order, 1, other, "clip")
            rows, other = other, rows
        if is_orthogonal:
            remove_drift(rows, other, length)
            return rows, other
    raise ExecutionError(f"x: no decomposition after {MAX_SWEEPS} sweeps of rotations of {x.shape[-2]} x {x.shape[-1]}")


def remove_drift(rows: Array, work: Array, length: int) -> None:
    """Divide each row by the length of its row of rotations, which is 1 but for the rounding of all of them."""
    turned, square = rows[..., length:], work[..., length:]
    lengths = work[..., :1]
    np.multiply(turned, turned, square)
    np.add.reduce(square, axis=-1, keepdims=True, out=lengths)
    np.sqrt(lengths, lengths)
    np.divide(rows, lengths, rows, where=lengths > 0)  # a row that makes their number even has zeros


def rotate(rows: Array, out: Array, length: int, made: Rotations) -> bool:
    """Write rotated rows, the first half with the second; return False if all pairs were orthogonal before."""
    half = rows.shape[1] // 2
    p, q = rows[:, :half], rows[:, half:]
    a, b, g, limit, t = made.numbers
    product = made.part[..., :length]
    for one, two, total in ((p, p, a), (q, q, b), (p, q, g)):
        np.multiply(one[..., :length], two[..., :length], product)
        np.add.reduce(product, axis=-1, out=total)
    numbers = np.finfo(rows.dtype)
    np.sqrt(a, limit)
    np.sqrt(b, t)
    np.multiply(limit, t, limit)
    np.multiply(limit, 2 * float(numbers.eps) * sqrt(length), limit)
    np.maximum(limit, numbers.tiny, out=limit)  # squares below it are not exact
    np.absolute(g, t)
    np.greater(t, limit, made.flag)
    if not made.flag.any():
        return False
    np.subtract(b, a, a)
    np.add(g, g, g)
    np.hypot(a, g, b)
    np.copysign(b, a, b)
    np.add(a, b, b)
    t.fill(0)
    np.divide(g, b, t, where=made.flag)  # the tangent of the smaller angle
    np.multiply(t, t, a)
    np.add(a, 1, a)
    np.sqrt(a, a)
    np.divide(1, a, a)
    np.multiply(t, a, t)
    cosine, sine = a[..., np.newaxis], t[..., np.newaxis]
    np.multiply(p, cosine, out[:, :half])
    np.multiply(q, sine, made.part)
    np.subtract(out[:, :half], made.part, out[:, :half])
    np.multiply(p, sine, out[:, half:])
    np.multiply(q, cosine, made.part)
    np.add(out[:, half:], made.part, out[:, half:])
    return True


def in_order(rows: Array, out: Array, values: Array, made: Rotations) -> Array:
    """Sort the values, and return the rows in their order, which are written into the memory of `out`."""
    batch, count = values.shape
    places, starts = made.places, made.starts
    pairs = made.pairs.view(np.complex128).reshape(batch, count)
    count_up(starts.reshape(-1), 1)
    np.floor_divide(starts, count, places)
    np.multiply(places, count, places)
    np.subtract(starts, places, starts)
    np.copyto(pairs.real, values)
    np.copyto(pairs.imag, starts)
    pairs.sort(axis=-1)
    np.copyto(values, pairs.real, casting="unsafe")
    np.floor_divide(places, max(count, 1), places)
    np.multiply(places, rows.shape[1], places)
    np.copyto(starts, pairs.imag, casting="unsafe")
    np.add(places, starts, places)
    ordered = out.reshape(-1)[: batch * count * rows.shape[2]].reshape(batch * count, -1)
    np.take(rows.reshape(-1, rows.shape[2]), places.reshape(-1), 0, ordered, "clip")
    return ordered.reshape(batch, count, -1)


def turn_signs(rows: Array, made: Rotations) -> Array:
    """Make the largest element of each row of squares positive; return the signs [batch, count] that it had."""
    batch, count, _ = rows.shape
    sizes = made.part.reshape(-1)[: batch * count * count].reshape(batch, count, count)
    np.absolute(rows, sizes)
    np.argmax(sizes, axis=-1, out=made.places)
    np.copyto(sizes, rows)
    count_up(made.starts.reshape(-1), count)
    np.add(made.places, made.starts, made.places)
    signs = made.diagonal
    np.take(sizes.reshape(-1), made.places, 0, signs, "clip")
    np.copysign(1, signs, signs)
    np.multiply(rows, signs[..., np.newaxis], rows)
    return signs


class Reflections(NamedTuple):
    """Scratch of the reflections that make a matrix triangular."""

    diagonal: Array  # [batch, k], the diagonal of the triangle
    factor: Array  # [batch, k], the factor of each reflection
    line: Array  # [3, batch]
    positive: Array  # [batch]
    work: Array


def reflection_scratch(dtype: str, batch: int, rows: int, columns: int, count: int) -> list[TensorType]:
    """Return the types of the fields of Reflections, for a matrix and `count` columns of the orthogonal factor."""
    k = min(rows, columns)
    return [
        TensorType(dtype, (batch, k)),
        TensorType(dtype, (batch, k)),
        TensorType(dtype, (3, batch)),
        TensorType("bool", (batch,)),
        TensorType(dtype, (batch * (rows + 1) * max(columns, count, 1),)),
    ]


def reflect(y: Array, made: Reflections) -> None:
    """Make y upper triangular; below the diagonal, and on it a 1, are the vectors of the reflections."""
    total, head, difference = made.line
    for k in range(min(y.shape[1:])):
        below, pivot, factor = y[:, k + 1 :, k], y[:, k, k], made.factor[:, k]
        squares = made.work[: below.size].reshape(below.shape)
        np.multiply(below, below, squares)
        np.add.reduce(squares, axis=-1, out=total)
        np.not_equal(total, 0, made.positive)
        np.multiply(pivot, pivot, head)
        np.add(head, total, head)
        np.sqrt(head, head)
        np.copysign(head, pivot, head)
        np.negative(head, head)
        np.copyto(made.diagonal[:, k], pivot)
        np.copyto(made.diagonal[:, k], head, where=made.positive)
        np.subtract(head, pivot, difference)
        factor.fill(0)
        np.divide(difference, head, factor, where=made.positive)
        np.negative(difference, difference)
        np.divide(below, difference[:, np.newaxis], below, where=made.positive[:, np.newaxis])
        pivot.fill(1)
        apply_reflection(y, k, made, y[:, k:, k + 1 :])


def multiply_reflections(y: Array, made: Reflections, q: Array) -> None:
    """Write the product of the reflections into q, from the last to the first."""
    set_identity(q)
    for k in reversed(range(made.factor.shape[1])):
        apply_reflection(y, k, made, q[:, k:, k:])


def apply_reflection(y: Array, k: int, made: Reflections, z: Array) -> None:
    """Multiply z by reflection k from the left."""
    vector, columns = y[:, k:, k : k + 1], z.shape[0] * z.shape[2]
    line = made.work[:columns].reshape(z.shape[0], 1, z.shape[2])
    product = made.work[columns : columns + z.size].reshape(z.shape)
    np.matmul(vector.mT, z, line)
    np.multiply(line, made.factor[:, k, np.newaxis, np.newaxis], line)
    np.multiply(vector, line, product)
    np.subtract(z, product, z)


def set_identity(x: Array) -> None:
    """Fill matrices [batch, m, n] with zeros and a diagonal of ones."""
    x.fill(0)
    for i in range(min(x.shape[1:])):
        x[:, i, i] = 1


def bring_to_unit(x: Array, exponent: Array, peaks: Array, work: Array) -> None:
    """Divide each matrix of x by a power of 2, which is exact, so that its largest element `peaks` is in 0.5 ... 1."""
    sizes = work.reshape(-1)[: x.size].reshape(x.shape)
    np.absolute(x, sizes)
    np.maximum.reduce(sizes, axis=(1, 2), out=peaks)
    np.frexp(peaks, peaks, exponent[:, 0, 0])
    np.negative(exponent, exponent)
    np.ldexp(x, exponent, x)
    np.negative(exponent, exponent)


def require_finite(x: Array, made: Rotations) -> None:
    """Raise ExecutionError if the largest element of a matrix is NaN or Inf."""
    peaks = made.line[0]
    np.isfinite(peaks, made.positive)
    if not made.positive.all():
        at = int(np.argmin(made.positive))
        raise ExecutionError(f"{matrix('x', x, at)} has no decomposition: its largest element is {peaks[at]:g}")


def extents(x: TensorType) -> tuple[int, int, int]:
    """Return the number of matrices in x, their rows and their columns."""
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    require(x.rank >= 2, f"{x} has no matrices")
    return prod(x.static_shape[:-2]), x.static_shape[-2], x.static_shape[-1]
