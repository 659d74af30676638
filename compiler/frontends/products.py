"""Products of matrices of any rank."""

from __future__ import annotations

from compiler.frontends.arranged import (
    Arranged,
    aligned,
    arranged,
    permuted,
    plain,
    pointwise,
    squeezed,
    trailing,
    unsqueezed,
    viewed,
)
from compiler.frontends.extents import Extent
from registry import Value, ops


def affine(x: Arranged, w: Arranged, bias: Arranged | None, *, drop: bool = False) -> Arranged:
    """Return x [..., c] @ w [c, o] + bias; axes before the last stay where they are."""
    if x.rank == 1:
        return squeezed(affine(unsqueezed(x, 0), w, bias, drop=drop), [0])
    value, rebuilt = trailing(x, 1)
    if value.rank == 1:  # the other axes have extent 1 and are not held
        value, rebuilt = ops.reshape(value, shape=(1, *value.shape)), arranged
    y = rebuilt(_product(value, w))
    if value.rank != x.rank and y.rank != x.rank:
        y = Arranged(y.value, ((),) * (x.rank - 1) + ((1,),), (*x.shape[:-1], y.shape[-1]))
    y = squeezed(y, [y.rank - 1]) if drop else y
    return y if bias is None else pointwise(ops.add, y, bias)


def _product(x: Value, w: Arranged) -> Value:
    """Return x @ w, with the weights as they are stored."""
    flipped = _is_flipped(w)
    weights = plain(permuted(w, (1, 0)) if flipped else w)
    return ops.matmul(x, weights, transpose_b=flipped)


def _is_flipped(x: Arranged) -> bool:
    """Return True if the last axis of a matrix lies before the one before it."""
    rows, columns = x.axes[-2], x.axes[-1]
    return bool(rows and columns) and min(columns) < min(rows)


def matmul(a: Arranged, b: Arranged) -> Arranged:
    """Return NumPy's matmul of tensors of any rank."""
    if a.rank == 1:
        return squeezed(matmul(unsqueezed(a, 0), b), [max(b.rank - 2, 0)])
    if b.rank == 1:
        y = matmul(a, unsqueezed(b, 1))
        return squeezed(y, [y.rank - 1])
    if b.rank == 2 and a.rank >= 2:
        return affine(a, b, None)
    if not (rows := a.shape[-2]).is_plain:  # 2 * batch rows, say, are two axes
        cut = viewed(a, (*a.shape[:-2], Extent(1, rows.symbols), Extent(rows.number), a.shape[-1]))
        y = matmul(cut, unsqueezed(b, b.rank - 2))
        return viewed(y, (*y.shape[:-3], rows, y.shape[-1]))
    flips = _is_flipped(a), _is_flipped(b)
    a, b = (flipped(x) if flip else x for x, flip in zip((a, b), flips, strict=True))
    (x, y), rebuilt = aligned([a, b], last=2)
    return rebuilt(ops.matmul(x, y, transpose_a=flips[0], transpose_b=flips[1]))


def flipped(x: Arranged) -> Arranged:
    """Return matrices with their last two axes swapped."""
    return permuted(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))
