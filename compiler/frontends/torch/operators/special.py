"""Functions with a limit at a point, where PyTorch's decompositions hide a division by 0 and its gradient.

Each chooses its operand before it divides: a gradient through a hidden 0 / 0 would be no number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from compiler.frontends.arranged import Arranged, arranged, pointwise
from compiler.frontends.elements import cast_to
from compiler.frontends.torch.operators.call import Call, Mapping, Operand, promoted
from prograd_proto.dtypes import DTypeName
from registry import Block, Value, ops


def _sinc(call: Call, x: Arranged) -> Arranged:
    """Return sin(pi * x) / (pi * x), and 1 at 0."""

    def value(v: Value) -> Value:
        is_zero = ops.equal(v, 0.0)
        angle = ops.where(is_zero, 1.0, v * math.pi)
        return ops.where(is_zero, 1.0, ops.sin(angle) / angle)

    return pointwise(value, cast_to(x, call.dtype))


def _entropy(call: Call, x: Arranged) -> Arranged:
    """Return -x * log(x), 0 at 0 with an infinite slope, and minus infinity below."""

    def value(v: Value) -> Value:
        is_zero = ops.equal(v, 0.0)
        inside = ops.where(is_zero, 1.0, v)
        rising = ops.sqrt(ops.where(is_zero, v, 1.0))
        made = ops.where(is_zero, rising, -inside * ops.log(inside))
        return ops.where(v < 0.0, -math.inf, made)

    return pointwise(value, cast_to(x, call.dtype))


def _inverse_error(call: Call, x: Arranged) -> Arranged:
    """Return the inverse of the error function, by an approximation and Newton's method.

    Steps outside of -0.5 to 0.5 count from 1, where the error function itself has no digits left. The last step carries
    the gradient. (Winitzki, "A handy approximation for the error function and its inverse", 2008)
    """

    def value(y: Value) -> Value:
        given = ops.stop_gradient(y)
        is_inside = ops.abs(given) < 1.0
        inner = ops.where(is_inside, given, 0.0)
        half = (2 / (math.pi * _WINITZKI)) + 0.5 * ops.log1p(-ops.square(inner))
        made = ops.sign(inner) * ops.sqrt(
            ops.sqrt(ops.square(half) - (half * 2 - 4 / (math.pi * _WINITZKI)) / _WINITZKI) - half
        )
        for _ in range(NEWTON_STEPS):
            made = ops.stop_gradient(_nearer(made, inner))
        made = _nearer(made, ops.where(is_inside, y, 0.0))
        edge = ops.where(ops.equal(ops.abs(given), 1.0), given * math.inf, math.nan)
        return ops.where(is_inside, made, edge)

    return pointwise(value, cast_to(x, call.dtype))


def _nearer(x: Value, y: Value) -> Value:
    """Return x one step of Newton's method nearer to where the error function is y."""
    side = 1.0 - 2.0 * ops.cast(x < 0.0, dtype=x.dtype)
    rest = ops.where(ops.abs(x) < 0.5, ops.erf(x) - y, side * (1.0 - side * y - ops.erfc(side * x)))
    return x - rest * (math.sqrt(math.pi) / 2) * ops.exp(ops.square(x))


def _with_logarithm(logarithm: Callable[[Value], Value], pole: float) -> Mapping:
    """Return the mapping of x * logarithm(y), which is 0 for x = 0, also where the logarithm has no value."""

    def mapped(call: Call, x: Operand, y: Operand) -> Arranged:
        blocks = [each.value.block for each in (x, y) if isinstance(each, Arranged)]
        one, other = (_tensor(blocks[0], each, call.dtype) for each in promoted((x, y), call.dtype))

        def value(a: Value, b: Value) -> Value:
            is_hidden = ops.logical_and(ops.equal(a, 0.0), b <= pole)
            return a * logarithm(ops.where(is_hidden, pole + 1.0, b))

        return pointwise(value, one, other)

    return mapped


def _tensor(block: Block, x: Operand, dtype: DTypeName) -> Arranged:
    if isinstance(x, Arranged):
        return x
    return arranged(ops.full.on(block)(shape=(), value=float(x), dtype=dtype))


_WINITZKI: Final = 0.147
"""Constant of the approximation of the inverse error function, whose relative error is 0.002."""

NEWTON_STEPS: Final = 4
"""Steps from there to the last digits of float64, before the one that carries the gradient."""

_XLOGY: Final = _with_logarithm(ops.log, 0.0)
_XLOG1PY: Final = _with_logarithm(ops.log1p, -1.0)

OPERATORS: Final[dict[str, Mapping]] = {
    "aten.sinc.default": _sinc,
    "aten.erfinv.default": _inverse_error,
    "aten.polygamma.default": lambda call, n, x: pointwise(
        lambda v: ops.polygamma(v, n=n) if n else ops.digamma(v), cast_to(x, call.dtype)
    ),
    "aten.special_entr.default": _entropy,
    **{f"aten.xlogy.{overload}": _XLOGY for overload in ("Tensor", "Scalar_Self", "Scalar_Other")},
    **{f"aten.special_xlog1py.{overload}": _XLOG1PY for overload in ("default", "self_scalar", "other_scalar")},
}
