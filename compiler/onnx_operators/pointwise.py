"""Pointwise operators: arithmetic, comparisons, functions, choice, bits, casts."""

from __future__ import annotations

from typing import Final

import numpy as np

from compiler.errors import CompileError
from compiler.exporters.onnx.call import Call, Export, Unmapped, arithmetic, either, exported, exporting
from compiler.exporters.onnx.tensors import Tensor
from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.elements import cast_to
from compiler.frontends.onnx.dtypes import DTYPES, NARROW, dtype_name, wrapping
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import Mapping, Node, binary, carried_dtype, folded, is_integer, unary
from compiler.frontends.onnx.small_floats import FORMATS, rounded
from compiler.onnx_operators.conv import with_bias
from compiler.onnx_operators.integers import scaled_product, scaled_with_bias
from compiler.onnx_operators.norm import batch_norm_out
from registry import OPS, Value, ops

BITCAST_SINCE: Final = 26
"""First opset that has BitCast."""


def _div(node: Node) -> Arranged:
    a, b = node.pair()
    if is_integer(a):  # truncates
        return pointwise(lambda p, q: ops.floor_div(p - ops.fmod(p, q), q), a, b)
    return pointwise(ops.div, a, b)


def _pow(node: Node) -> Arranged:
    a, b = node.pair()
    is_known = isinstance(node.operands[1], Constant) and node.operands[1].is_array
    exponent = node.constant(1) if is_known else None
    if exponent is not None and exponent.size == 1 and b.rank <= a.rank and not is_integer(a):
        number = float(exponent.reshape(-1)[0])
        if number == 2:
            return pointwise(ops.square, a)
        if number == 0.5:
            return pointwise(ops.sqrt, a)
    if is_integer(a) or a.dtype != b.dtype:
        return cast_to(pointwise(ops.pow, cast_to(a, "float64"), cast_to(b, "float64")), a.dtype)
    return pointwise(ops.pow, a, b)


def _mean(node: Node) -> Arranged:
    count = float(len(node.operands))
    return pointwise(lambda v: v / count, folded(ops.add)(node))


def _isinf(node: Node) -> Arranged:
    signs = bool(node.attribute("detect_negative", 1)), bool(node.attribute("detect_positive", 1))

    def function(v: Value) -> Value:
        found = ops.isinf(v)
        if signs == (False, True):
            return ops.logical_and(found, v > 0)
        if signs == (True, False):
            return ops.logical_and(found, v < 0)
        return found if signs[0] else ops.logical_and(found, v != v)

    return pointwise(function, node.tensor(0))


def _shift(node: Node) -> Arranged:
    function = ops.left_shift if node.attribute("direction") == "LEFT" else ops.right_shift
    return wrapped(binary(function)(node), node.dtypes[0])


def wrapped(x: Arranged, dtype: str | None) -> Arranged:
    """Return integers modulo the range of a narrow dtype, as the dtype that carries it."""
    return pointwise(wrapping(dtype), x) if dtype in NARROW else x


def _cast(node: Node) -> Arranged:
    dtype = dtype_name(node.walk.onnx, int(node.attribute("to", 0)))
    return converted(node, node.tensor(0), dtype)


def _cast_like(node: Node) -> Arranged:
    dtype = node.dtypes[1]
    if dtype is None:
        raise CompileError("the dtype of operand 1 is unknown")
    return converted(node, node.tensor(0), dtype)


def _bitcast(node: Node) -> Arranged:
    """Return the bits of a tensor in another dtype; narrow integers, which wider ones carry, wrap."""
    x, dtype = node.tensor(0), dtype_name(node.walk.onnx, int(node.attribute("to", 0)))
    if any(each in FORMATS for each in (dtype, node.dtypes[0])) and dtype != node.dtypes[0]:
        raise CompileError(f"the bits of {node.dtypes[0]} as {dtype}, which prograd has not")
    if dtype in NARROW or node.dtypes[0] in NARROW or dtype == node.dtypes[0]:
        return converted(node, x, dtype)
    y = pointwise(ops.bitcast, x)
    if y.dtype != carried_dtype(dtype):
        raise CompileError(f"the bits of {node.dtypes[0]} as {dtype}, which prograd has not")
    return y


def _bitcast_out(call: Call, x: str) -> str:
    """Return the bits in another dtype, which opset 26 brought; truth values have those of bytes."""
    if call.tensor(0).dtype == "bool":
        return call.cast(x, "uint8")
    if call.opset < BITCAST_SINCE:
        raise Unmapped(
            f"reads bits in another dtype, which opset {BITCAST_SINCE} brought; export with --opset {BITCAST_SINCE}"
        )
    return call.add("BitCast", x, to=DTYPES[call.type.dtype])


def converted(node: Node, x: Arranged, dtype: str) -> Arranged:
    """Return a tensor in a dtype of the model."""
    target = carried_dtype(dtype)
    if dtype in FORMATS and dtype != node.dtypes[0]:
        saturates = bool(node.attribute("saturate", 1))
        return pointwise(lambda v: rounded(v, dtype, saturates=saturates), cast_to(x, target))
    if dtype in NARROW and x.dtype.startswith("float"):
        return wrapped(cast_to(cast_to(x, "int64"), target), dtype)
    y = cast_to(x, target)
    return wrapped(y, dtype) if node.dtypes[0] != dtype else y


def _truncated(call: Call, x: str) -> str:
    """Return x rounded towards 0; ONNX has no operator for it."""
    if not call.type.dtype.startswith("float"):
        return call.add("Identity", x)
    return call.add("Where", call.add("Less", x, call.number(0)), call.add("Ceil", x), call.add("Floor", x))


def _unless_integer(op_type: str) -> Export:
    """Return the mapping of a rounding step, which leaves integers as they are."""
    return exported(lambda call, x: call.add(op_type if call.type.dtype.startswith("float") else "Identity", x))


def _safe_divisor(call: Call, b: str) -> tuple[str, str]:
    """Return where an integer divisor is 0, and the divisor with 1 in place of 0."""
    is_zero = call.add("Equal", b, call.number(0))
    return is_zero, call.add("Where", is_zero, call.number(1), b)


def _floor_div(call: Call, a: str, b: str) -> str:
    if call.type.dtype.startswith("float"):
        return call.add("Floor", call.add("Div", a, b))
    is_zero, safe = _safe_divisor(call, b)
    rest = call.add("Mod", a, safe)  # with the sign of b
    return call.add("Where", is_zero, call.number(0), call.add("Div", call.add("Sub", a, rest), safe))


def _remainder(call: Call, a: str, b: str) -> str:
    if not call.type.dtype.startswith("float"):
        is_zero, safe = _safe_divisor(call, b)
        return call.add("Where", is_zero, call.number(0), call.add("Mod", a, safe))
    zero, rest = call.number(0), call.add("Mod", a, b, fmod=1)
    other = call.add("Less", call.add("Mul", call.add("Sign", rest), call.add("Sign", b)), zero)
    return call.add("Where", other, call.add("Add", rest, b), rest)


def _fmod(call: Call, a: str, b: str) -> str:
    if call.type.dtype.startswith("float"):
        return call.add("Mod", a, b, fmod=1)
    is_zero, safe = _safe_divisor(call, b)
    return call.add("Where", is_zero, call.number(0), call.add("Mod", a, safe, fmod=1))


def _shift_out(call: Call, a: str, b: str) -> str:
    """Return shifted bits; those of signed integers, which ONNX does not shift, by a power of 2 in int64.

    A shift to the right divides by it, rounding down, which keeps the sign.
    """
    is_left, dtype, zero = call.op_type == "left_shift", call.type.dtype, call.number(0)
    if dtype == "uint8":
        shifted = call.add("BitShift", a, b, direction="LEFT" if is_left else "RIGHT")
        return call.add("Where", call.add("Greater", b, call.number(7)), zero, shifted)
    wide, shift, nothing = call.cast(a, "int64"), call.cast(b, "int64"), call.number(0, "int64")
    small = call.add("Min", call.add("Max", shift, nothing), call.number(62, "int64"))
    power = call.add("Pow", call.number(2, "int64"), small)
    last = call.add("Equal", shift, call.number(63, "int64"))  # 2 to the power of 63 is no int64
    above = call.add("Greater", shift, call.number({"int32": 31, "int64": 63}[dtype], "int64"))
    beyond = call.add("Or", above, call.add("Less", shift, nothing))
    if is_left:
        made = call.add("Mul", wide, power)
        made = call.add("Where", last, call.add("Mul", made, call.number(2, "int64")), made)
        return call.add("Where", beyond, zero, call.cast(made, dtype))
    sign = call.add("Where", call.add("Less", a, zero), call.number(-1), zero)
    made = call.add("Div", call.add("Sub", wide, call.add("Mod", wide, power)), power)
    return call.add("Where", call.add("Or", beyond, last), sign, call.cast(made, dtype))


def _expm1(call: Call, x: str) -> str:
    """Return exp(x) - 1, near 0 as 2 t / (1 - t) with t = tanh(x / 2)."""
    one = call.number(1)
    t = call.add("Tanh", call.add("Mul", call.add("Clip", x, call.number(-1), one), call.number(0.5)))
    near = call.add("Div", call.add("Mul", t, call.number(2)), call.add("Sub", one, t))
    is_near = call.add("Less", call.add("Abs", x), call.number(0.5))
    return call.add("Where", is_near, near, call.add("Sub", call.add("Exp", x), one))


def _log1p(call: Call, x: str) -> str:
    """Return log(1 + x) as x log(u) / (u - 1) with u = 1 + x rounded; Kahan."""
    one = call.number(1)
    u = call.add("Add", x, one)
    same = call.add("Or", call.add("Equal", u, one), call.add("IsInf", u))
    below = call.add("Where", same, one, call.add("Sub", u, one))
    log = call.add("Log", u)
    scaled = call.add("Mul", log, call.add("Div", x, below))
    return call.add("Where", call.add("Equal", u, one), x, call.add("Where", same, log, scaled))


def _atan2(call: Call, y: str, x: str) -> str:
    """Return the angle of a point: the arc tangent of the quotient, turned by pi where x is negative."""
    zero, pi = call.number(0), call.number(np.pi)

    def signed(size: str) -> str:
        return call.add("Where", _is_negative(call, y), call.add("Neg", size), size)

    whole = call.add("Atan", call.add("Div", y, x))
    turned = call.add("Where", _is_negative(call, x), call.add("Add", whole, signed(pi)), whole)
    at_pole = call.add("And", call.add("Equal", x, zero), call.add("Equal", y, zero))
    pole = call.add("Where", _is_negative(call, x), signed(pi), y)
    far = call.add("And", call.add("IsInf", x), call.add("IsInf", y))
    corner = call.add("Where", _is_negative(call, x), call.number(3 * np.pi / 4), call.number(np.pi / 4))
    return call.add("Where", at_pole, pole, call.add("Where", far, signed(corner), turned))


def _is_negative(call: Call, x: str) -> str:
    """Return where x has a sign, as -0 has."""
    zero = call.number(0)
    below = call.add("Less", x, zero)
    return call.add("Or", below, call.add("Less", call.add("Reciprocal", x), zero))


def _compared(op_type: str, *without: str, negated: bool = False) -> Export:
    """Return the mapping of a comparison; dtypes that ONNX does not compare are compared as int32."""

    def function(call: Call, a: str, b: str) -> str:
        if call.tensor(0).dtype in without:
            a, b = call.cast(a, "int32"), call.cast(b, "int32")
        made = call.add(op_type, a, b)
        return call.add("Not", made) if negated else made

    return exported(function)


def _constant_out(call: Call) -> Tensor:
    return call.tensor(0)


FUNCTIONS: Final = (
    "Neg", "Abs", "Sign", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
    "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "IsNaN",
)  # fmt: skip
"""Functions of one tensor that have the same name here, in lower case."""

IMPORTS: Final[dict[str, Mapping]] = {
    "Add": binary(ops.add),
    "Sub": binary(ops.sub),
    "Mul": binary(ops.mul),
    "Div": _div,
    "Mod": lambda node: pointwise(
        ops.fmod if node.attribute("fmod", 0) else ops.remainder, node.tensor(0), node.tensor(1)
    ),
    "Pow": _pow,
    **{name: unary(OPS[name.lower()]) for name in FUNCTIONS},
    "Erfc": unary(ops.erfc),  # of TensorFlow, whose name tf2onnx leaves
    "Floor": unary(ops.floor),
    "Ceil": unary(ops.ceil),
    "Round": unary(ops.round),
    "Sum": folded(ops.add),
    "Mean": _mean,
    "Max": folded(ops.maximum),
    "Min": folded(ops.minimum),
    "Equal": binary(ops.equal),
    "Less": binary(ops.less),
    "LessOrEqual": binary(ops.less_equal),
    "Greater": binary(ops.greater),
    "GreaterOrEqual": binary(ops.greater_equal),
    "Not": unary(ops.logical_not),
    "And": binary(ops.logical_and),
    "Or": binary(ops.logical_or),
    "Xor": binary(ops.logical_xor),
    "BitwiseAnd": binary(ops.bitwise_and),
    "BitwiseOr": binary(ops.bitwise_or),
    "BitwiseXor": binary(ops.bitwise_xor),
    "BitwiseNot": lambda node: wrapped(unary(ops.bitwise_not)(node), node.dtypes[0]),
    "BitShift": _shift,
    "IsInf": _isinf,
    "Where": lambda node: pointwise(ops.where, *node.tensors()),
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _bitcast,
    "Identity": lambda node: node.operands[0],
}

EXPORTS: Final[dict[str, Export]] = {
    "add": either(batch_norm_out, with_bias, scaled_with_bias, arithmetic(exporting("Add"))),
    "sub": arithmetic(exporting("Sub")),
    "mul": either(scaled_product, arithmetic(exporting("Mul"))),
    "div": arithmetic(exporting("Div")),
    "pow": exporting("Pow"),
    **{name.lower(): exporting(name) for name in FUNCTIONS},
    "rsqrt": exported(lambda call, x: call.add("Reciprocal", call.add("Sqrt", x))),
    "square": arithmetic(exported(lambda call, x: call.add("Mul", x, x))),
    "exp2": exported(lambda call, x: call.add("Pow", call.number(2), x)),
    "expm1": exported(_expm1),
    "log2": exported(lambda call, x: call.add("Div", call.add("Log", x), call.number(np.log(2)))),
    "log1p": exported(_log1p),
    "erfc": exported(lambda call, x: call.add("Sub", call.number(1), call.add("Erf", x))),
    "atan2": exported(_atan2),
    "floor": _unless_integer("Floor"),
    "ceil": _unless_integer("Ceil"),
    "round": _unless_integer("Round"),
    "trunc": exported(_truncated),
    "floor_div": exported(_floor_div),
    "remainder": exported(_remainder),
    "fmod": exported(_fmod),
    "maximum": exporting("Max"),
    "minimum": exporting("Min"),
    "lerp": exported(lambda call, a, b, weight: call.add("Add", a, call.add("Mul", weight, call.add("Sub", b, a)))),
    "equal": _compared("Equal", "uint8"),
    "not_equal": _compared("Equal", "uint8", negated=True),
    "less": _compared("Less", "uint8", "bool"),
    "less_equal": _compared("LessOrEqual", "uint8", "bool"),
    "greater": _compared("Greater", "uint8", "bool"),
    "greater_equal": _compared("GreaterOrEqual", "uint8", "bool"),
    **{f"logical_{word.lower()}": exporting(word) for word in ("Not", "And", "Or", "Xor")},
    **{f"bitwise_{word.lower()}": exporting(f"Bitwise{word}", since=18) for word in ("And", "Or", "Xor", "Not")},
    "left_shift": exported(_shift_out),
    "right_shift": exported(_shift_out),
    "isinf": exporting("IsInf"),
    "isfinite": exported(lambda call, x: call.add("Not", call.add("Or", call.add("IsInf", x), call.add("IsNaN", x)))),
    "where": exporting("Where"),
    "cast": exported(lambda call, x: call.cast(x, call.type.dtype)),
    "bitcast": exported(_bitcast_out),
    "identity": _constant_out,
    "stop_gradient": _constant_out,
    "over_shards": _constant_out,
}
