"""Products of matrices: linear layers, matmul in all its ranks."""

from __future__ import annotations

from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.arranged import (
    Arranged,
    arranged,
    permuted,
    plain,
    pointwise,
    unsqueezed,
)
from compiler.frontends.products import affine, matmul
from compiler.frontends.reductions import reduced
from compiler.frontends.torch.operators.call import Call, Mapping
from registry import Value, ops


def linear(call: Call, x: Arranged, w: Arranged, bias: Arranged | None = None) -> Arranged:
    """Return x [..., c] times the transpose of w [o, c], plus bias."""
    return affine(x, permuted(w, (1, 0)) if w.rank == 2 else unsqueezed(w, 1), bias, drop=w.rank == 1)


def _addmm(call: Call, bias: Arranged, a: Arranged, b: Arranged, beta: float = 1, alpha: float = 1) -> Arranged:
    y = matmul(a, b)
    y = y if alpha == 1 else pointwise(lambda v: v * alpha, y)
    bias = bias if beta == 1 else pointwise(lambda v: v * beta, bias)
    return y if beta == 0 else pointwise(ops.add, y, bias)


def _matmul(call: Call, a: Arranged, b: Arranged) -> Arranged:
    return matmul(a, b)


def _einsum(call: Call, equation: str, xs: list[Arranged], **more: object) -> Arranged:
    return arranged(ops.einsum(equation.replace(" ", ""), *map(plain, xs)))


def _bilinear(call: Call, a: Arranged, b: Arranged, w: Arranged, bias: Arranged | None = None) -> Arranged:
    y = arranged(ops.einsum("...i,oij,...j->...o", plain(a), plain(w), plain(b)))
    return y if bias is None else pointwise(ops.add, y, bias)


def _distances(call: Call, x: Arranged, y: Arranged, power: float = 2.0, *rest: Any) -> Arranged:
    """Return the distances of all pairs of rows; that of equal rows has no gradient."""
    if power not in (1, 2):
        raise CompileError(f"distances with p={power} are not imported; p is 1 or 2")
    difference = pointwise(ops.sub, unsqueezed(x, x.rank - 1), unsqueezed(y, y.rank - 2))
    norm = ops.abs if power == 1 else ops.square
    total = reduced(lambda v, axes: ops.sum(norm(v), axis=axes, keepdims=True), difference, -1)
    return total if power == 1 else pointwise(_root, total)


def _root(squares: Value) -> Value:
    is_apart = squares > 0.0
    return ops.where(is_apart, ops.sqrt(ops.where(is_apart, squares, 1.0)), 0.0)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.linear.default": linear,
    "aten.matmul.default": _matmul,
    "aten.mm.default": _matmul,
    "aten.bmm.default": _matmul,
    "aten.mv.default": _matmul,
    "aten.dot.default": _matmul,
    "aten.addmm.default": _addmm,
    "aten.addmv.default": _addmm,
    "aten.baddbmm.default": _addmm,
    "aten.outer.default": lambda call, a, b: pointwise(ops.mul, unsqueezed(a, 1), b),
    "aten.einsum.default": _einsum,
    "aten.bilinear.default": _bilinear,
    "aten._cdist_forward.default": _distances,
    "aten._euclidean_dist.default": _distances,
}
