"""Products of matrices: linear layers, matmul in all its ranks."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Any, Final

from compiler.errors import CompileError
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
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops


def linear(call: Call, x: Arranged, w: Arranged, bias: Arranged | None = None) -> Arranged:
    """Return x [..., c] times the transpose of w [o, c], plus bias."""
    return _affine(x, permuted(w, (1, 0)) if w.rank == 2 else unsqueezed(w, 1), bias, drop=w.rank == 1)


def _affine(x: Arranged, w: Arranged, bias: Arranged | None, *, drop: bool = False) -> Arranged:
    """Return x [..., c] @ w [c, o] + bias; axes before the last stay where they are."""
    if x.rank == 1:
        return squeezed(_affine(unsqueezed(x, 0), w, bias, drop=drop), [0])
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


def matmul(call: Call, a: Arranged, b: Arranged) -> Arranged:
    """Return NumPy's matmul of tensors of any rank."""
    if a.rank == 1:
        return squeezed(matmul(call, unsqueezed(a, 0), b), [max(b.rank - 2, 0)])
    if b.rank == 1:
        y = matmul(call, a, unsqueezed(b, 1))
        return squeezed(y, [y.rank - 1])
    if b.rank == 2 and a.rank >= 2:
        return _affine(a, b, None)
    if not (rows := a.shape[-2]).is_plain:  # 2 * batch rows, say, are two axes
        cut = viewed(a, (*a.shape[:-2], Extent(1, rows.symbols), Extent(rows.number), a.shape[-1]))
        y = matmul(call, cut, unsqueezed(b, b.rank - 2))
        return viewed(y, (*y.shape[:-3], rows, y.shape[-1]))
    flips = _is_flipped(a), _is_flipped(b)
    a, b = (_flip(x) if flip else x for x, flip in zip((a, b), flips, strict=True))
    (x, y), rebuilt = aligned([a, b], last=2)
    return rebuilt(ops.matmul(x, y, transpose_a=flips[0], transpose_b=flips[1]))


def _flip(x: Arranged) -> Arranged:
    return permuted(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _addmm(call: Call, bias: Arranged, a: Arranged, b: Arranged, beta: float = 1, alpha: float = 1) -> Arranged:
    y = matmul(call, a, b)
    y = y if alpha == 1 else pointwise(lambda v: v * alpha, y)
    bias = bias if beta == 1 else pointwise(lambda v: v * beta, bias)
    return y if beta == 0 else pointwise(ops.add, y, bias)


def _dot(call: Call, a: Arranged, b: Arranged) -> Arranged:
    return matmul(call, a, b)


def _outer(call: Call, a: Arranged, b: Arranged) -> Arranged:
    return pointwise(ops.mul, unsqueezed(a, 1), b)


def _einsum(call: Call, equation: str, xs: list[Arranged], **more: object) -> Arranged:
    return arranged(ops.einsum(equation.replace(" ", ""), *map(plain, xs)))


def _bilinear(call: Call, a: Arranged, b: Arranged, w: Arranged, bias: Arranged | None = None) -> Arranged:
    y = arranged(ops.einsum("...i,oij,...j->...o", plain(a), plain(w), plain(b)))
    return y if bias is None else pointwise(ops.add, y, bias)


def _distances(call: Call, x: Arranged, y: Arranged, power: float = 2.0, *rest: Any) -> Arranged:
    """Return the distances of all pairs of rows; that of equal rows has no gradient."""
    difference = pointwise(ops.sub, unsqueezed(x, x.rank - 1), unsqueezed(y, y.rank - 2))
    values = plain(difference)
    if power == 1:
        return arranged(ops.sum(ops.abs(values), axis=(-1,)))
    if power != 2:
        raise CompileError(f"distances with p={power} are not imported; p is 1 or 2")
    squares = ops.sum(ops.square(values), axis=(-1,))
    is_apart = squares > 0.0
    return arranged(ops.where(is_apart, ops.sqrt(ops.where(is_apart, squares, 1.0)), 0.0))


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.linear.default": linear,
    "aten.matmul.default": matmul,
    "aten.mm.default": matmul,
    "aten.bmm.default": matmul,
    "aten.mv.default": matmul,
    "aten.dot.default": _dot,
    "aten.addmm.default": _addmm,
    "aten.baddbmm.default": _addmm,
    "aten.outer.default": _outer,
    "aten.einsum.default": _einsum,
    "aten.bilinear.default": _bilinear,
    "aten._cdist_forward.default": _distances,
    "aten._euclidean_dist.default": _distances,
}
