"""Pointwise operators: arithmetic, comparisons, functions, choice, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from compiler.frontends.arranged import Arranged, arranged, pointwise
from compiler.frontends.elements import cast_to
from compiler.frontends.torch.operators.call import (
    Call,
    Mapping,
    Operand,
    binary,
    comparison,
    logical,
    promoted,
    unary,
)
from prograd_proto.dtypes import FLOATS
from registry import Value, ops


def _scaled(x: Operand, alpha: float, dtype: str) -> Operand:
    if alpha == 1:
        return x
    return alpha * x if not isinstance(x, Arranged) else pointwise(ops.mul, *promoted((x, alpha), dtype))


def _add(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Arranged:
    if call.dtype == "bool":
        return pointwise(ops.logical_or, a, b)
    return pointwise(ops.add, *promoted((a, _scaled(b, alpha, call.dtype)), call.dtype))


def _sub(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Arranged:
    return pointwise(ops.sub, *promoted((a, _scaled(b, alpha, call.dtype)), call.dtype))


def _mul(call: Call, a: Operand, b: Operand) -> Arranged:
    if call.dtype == "bool":
        return pointwise(ops.logical_and, a, b)
    return pointwise(ops.mul, *promoted((a, b), call.dtype))


def _div(call: Call, a: Operand, b: Operand, rounding_mode: str | None = None) -> Arranged:
    x, y = promoted((a, b), call.dtype)
    if rounding_mode == "floor":
        return pointwise(ops.floor_div, x, y)
    if rounding_mode == "trunc":
        if call.dtype in FLOATS:
            return pointwise(lambda p, q: ops.trunc(ops.div(p, q)), x, y)
        return pointwise(lambda p, q: ops.floor_div(p - ops.fmod(p, q), q), x, y)
    return pointwise(ops.div, x, y)


def _pow(call: Call, a: Operand, b: Operand) -> Arranged:
    if b == 2:
        return pointwise(ops.square, *promoted((a,), call.dtype))
    if b == 3:  # as PyTorch computes it; pow takes a logarithm
        return pointwise(lambda x: ops.square(x) * x, *promoted((a,), call.dtype))
    if b == 0.5:
        return pointwise(ops.sqrt, *promoted((a,), call.dtype))
    if call.dtype not in FLOATS and isinstance(b, int) and 0 < b < 9 and isinstance(a, Arranged):
        return pointwise(lambda x: _product([x] * b), a)
    if call.dtype not in FLOATS:
        wide = pointwise(ops.pow, *promoted((a, b), "float64"))
        return cast_to(wide, call.dtype)
    return pointwise(ops.pow, *promoted((a, b), call.dtype))


def _product(xs: list[Any]) -> Any:
    made = xs[0]
    for x in xs[1:]:
        made = made * x
    return made


def _where(call: Call, condition: Arranged, a: Operand, b: Operand) -> Arranged:
    x, y = promoted((a, b), call.dtype)
    if not isinstance(x, Arranged) and not isinstance(y, Arranged):
        x = arranged(ops.full.on(call.block)(shape=(), value=x, dtype=call.dtype))
    return pointwise(ops.where, cast_to(condition, "bool"), x, y)


def _clamp(call: Call, x: Arranged, min: Operand | None = None, max: Operand | None = None) -> Arranged:
    x = cast_to(x, call.dtype)
    named = {"min": min, "max": max}
    bounds = {name: bound for name, bound in named.items() if bound is not None}
    if not any(isinstance(bound, Arranged) for bound in bounds.values()):
        return pointwise(lambda v: ops.clip(v, **bounds), x)  # pyright: ignore[reportArgumentType]: numbers
    return pointwise(lambda v, *limits: ops.clip(v, **dict(zip(bounds, limits, strict=True))), x, *bounds.values())


def _copy(call: Call, x: Arranged, *rest: Any, **more: Any) -> Arranged:
    """Return x in the dtype of the result; device and memory format mean nothing here."""
    return cast_to(x, call.dtype)


def _detach(call: Call, x: Arranged) -> Arranged:
    return pointwise(ops.stop_gradient, x) if x.dtype in FLOATS else x


def _bitwise(name: str) -> Mapping:
    def mapped(call: Call, *xs: Operand) -> Arranged:
        kind = "logical" if call.dtype == "bool" else "bitwise"
        return pointwise(getattr(ops, f"{kind}_{name}"), *promoted(xs, call.dtype))

    return mapped


def _rounded(function: Any) -> Mapping:
    """Return the mapping of a rounding step, which leaves integers as they are."""
    return lambda call, x: pointwise(function, x) if x.dtype in FLOATS else x


def _of_numbers(is_first: Callable[[Value, Value], Value]) -> Mapping:
    """Return the mapping of a choice between two tensors, in which a number wins over NaN."""

    def chosen(a: Value, b: Value) -> Value:
        return ops.where(ops.logical_or(is_first(a, b), ops.isnan(b)), a, b)

    return lambda call, a, b: pointwise(chosen, *promoted((a, b), call.dtype))


def _logit(call: Call, x: Arranged, epsilon: float | None = None) -> Arranged:
    x = cast_to(x, call.dtype)
    x = x if epsilon is None else pointwise(lambda v: ops.clip(v, epsilon, 1.0 - epsilon), x)
    return pointwise(lambda v: ops.log(v) - ops.log1p(-v), x)  # v / (1 - v) has no slope at 1


def _both(name: str, mapping: Mapping, forms: str = "Tensor Scalar") -> dict[str, Mapping]:
    return {f"aten.{name}.{form}": mapping for form in forms.split()}


FUNCTIONS: Final = (
    ops.neg, ops.abs, ops.square, ops.sqrt, ops.rsqrt, ops.reciprocal, ops.exp, ops.exp2, ops.expm1, ops.log,
    ops.log2, ops.log1p, ops.sin, ops.cos, ops.tan, ops.asin, ops.acos, ops.atan, ops.sinh, ops.cosh, ops.asinh,
    ops.acosh, ops.atanh, ops.erf, ops.erfc, ops.lgamma, ops.digamma, ops.sign, ops.isnan, ops.isinf, ops.isfinite,
)  # fmt: skip
"""Functions of one tensor that have the same name in ATen."""

OPERATORS: Final[dict[str, Mapping]] = {
    **_both("add", _add),
    **_both("sub", _sub),
    **_both("rsub", lambda call, a, b, alpha=1: _sub(call, b, a, alpha)),
    **_both("mul", _mul),
    **_both("div", _div, "Tensor Scalar Tensor_mode Scalar_mode"),
    **_both("pow", _pow, "Tensor_Tensor Tensor_Scalar Scalar"),
    "aten.floor_divide.default": lambda call, a, b: _div(call, a, b, "floor"),
    **_both("fmod", binary(ops.fmod)),
    **_both("remainder", binary(ops.remainder), "Tensor Scalar Scalar_Tensor"),
    **_both("eq", comparison(ops.equal)),
    **_both("ne", comparison(ops.not_equal)),
    **_both("lt", comparison(ops.less)),
    **_both("le", comparison(ops.less_equal)),
    **_both("gt", comparison(ops.greater)),
    **_both("ge", comparison(ops.greater_equal)),
    "aten.maximum.default": binary(ops.maximum),
    "aten.minimum.default": binary(ops.minimum),
    "aten.max.other": binary(ops.maximum),
    "aten.min.other": binary(ops.minimum),
    "aten.fmax.default": _of_numbers(ops.greater_equal),
    "aten.fmin.default": _of_numbers(ops.less_equal),
    "aten.atan2.default": binary(ops.atan2),
    "aten.logical_and.default": logical(ops.logical_and),
    "aten.logical_or.default": logical(ops.logical_or),
    "aten.logical_xor.default": logical(ops.logical_xor),
    "aten.logical_not.default": logical(ops.logical_not),
    **_both("bitwise_and", _bitwise("and")),
    **_both("bitwise_or", _bitwise("or")),
    **_both("bitwise_xor", _bitwise("xor")),
    **_both("__and__", _bitwise("and")),
    **_both("__or__", _bitwise("or")),
    **_both("__xor__", _bitwise("xor")),
    "aten.bitwise_not.default": _bitwise("not"),
    "aten.where.self": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.ScalarOther": _where,
    "aten.where.Scalar": _where,
    **_both("masked_fill", lambda call, x, mask, value: _where(call, mask, value, x)),
    "aten.clamp.default": _clamp,
    "aten.clamp.Tensor": _clamp,
    "aten.clamp_min.default": lambda call, x, bound: _clamp(call, x, min=bound),
    "aten.clamp_max.default": lambda call, x, bound: _clamp(call, x, max=bound),
    "aten.clip.default": _clamp,
    "aten.clamp_min.Tensor": lambda call, x, bound: _clamp(call, x, min=bound),
    "aten.clamp_max.Tensor": lambda call, x, bound: _clamp(call, x, max=bound),
    "aten.lerp.Scalar": lambda call, a, b, weight: pointwise(lambda p, q: ops.lerp(p, q, weight), a, b),
    "aten.lerp.Tensor": lambda call, a, b, weight: pointwise(ops.lerp, a, b, weight),
    "aten.addcmul.default": lambda call, x, a, b, value=1: _add(call, x, _mul(call, a, b), alpha=value),
    "aten.addcdiv.default": lambda call, x, a, b, value=1: _add(call, x, _div(call, a, b), alpha=value),
    **{f"aten.{function.name}.default": unary(function) for function in FUNCTIONS},
    "aten.sgn.default": unary(ops.sign),
    "aten.floor.default": _rounded(ops.floor),
    "aten.ceil.default": _rounded(ops.ceil),
    "aten.round.default": _rounded(ops.round),
    "aten.trunc.default": _rounded(ops.trunc),
    "aten.isposinf.default": unary(lambda v: ops.equal(v, math.inf)),
    "aten.isneginf.default": unary(lambda v: ops.equal(v, -math.inf)),
    "aten.logit.default": _logit,
    "aten.clone.default": _copy,
    "aten.alias.default": _copy,
    "aten.contiguous.default": _copy,
    "aten.lift_fresh_copy.default": _copy,
    "aten._to_copy.default": _copy,
    "aten.to.dtype": _copy,
    "aten.to.dtype_layout": _copy,
    "aten.to.device": _copy,
    "aten.type_as.default": _copy,
    "aten.detach.default": _detach,
    "aten.detach_.default": _detach,
}
