"""Pointwise operators: arithmetic, comparisons, functions, choice, bits, casts."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.onnx.dtypes import dtype_name
from compiler.frontends.onnx.node import Mapping, Node, binary, carried_dtype, cast_to, folded, is_integer, unary
from registry import Value, ops

BITS: Final = {"int8": 8, "int16": 16, "uint16": 16, "uint32": 32}
"""Narrow integers, which wider ones carry, and their bits."""


def _div(node: Node) -> Arranged:
    a, b = node.pair()
    if is_integer(a):  # truncates
        return pointwise(lambda p, q: ops.floor_div(p - ops.fmod(p, q), q), a, b)
    return pointwise(ops.div, a, b)


def _mod(node: Node) -> Arranged:
    return pointwise(ops.fmod if node.attribute("fmod", 0) else ops.remainder, node.tensor(0), node.tensor(1))


def _pow(node: Node) -> Arranged:
    a, b = node.pair()
    exponent = None if isinstance(node.operands[1], Arranged) else node.operands[1].trials[0]
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
    return wrapped(node, pointwise(function, node.tensor(0), node.tensor(1)), node.dtypes[0])


def _bitwise_not(node: Node) -> Arranged:
    return wrapped(node, pointwise(ops.bitwise_not, node.tensor(0)), node.dtypes[0])


def wrapped(node: Node, x: Arranged, dtype: str | None) -> Arranged:
    """Return integers modulo the range of a narrow dtype, as the dtype that carries it."""
    if dtype not in BITS:
        return x
    mask = node.new((1 << BITS[dtype]) - 1, x.dtype)
    y = pointwise(lambda v: ops.bitwise_and(v, mask), x)
    if dtype.startswith("u"):
        return y
    half = node.new(1 << (BITS[dtype] - 1), x.dtype)
    return pointwise(lambda v: ops.sub(ops.bitwise_xor(v, half), half), y)


def _cast(node: Node) -> Arranged:
    dtype = dtype_name(node.walk.onnx, int(node.attribute("to", 0)))
    return converted(node, node.tensor(0), dtype)


def _cast_like(node: Node) -> Arranged:
    dtype = node.dtypes[1]
    if dtype is None:
        raise CompileError("the dtype of operand 1 is unknown")
    return converted(node, node.tensor(0), dtype)


def converted(node: Node, x: Arranged, dtype: str) -> Arranged:
    """Return a tensor in a dtype of the model."""
    target = carried_dtype(dtype)
    if dtype in BITS and x.dtype.startswith("float"):
        return wrapped(node, cast_to(cast_to(x, "int64"), target), dtype)
    y = cast_to(x, target)
    return wrapped(node, y, dtype) if node.dtypes[0] != dtype else y


IMPORTS: Final[dict[str, Mapping]] = {
    "Add": binary(ops.add),
    "Sub": binary(ops.sub),
    "Mul": binary(ops.mul),
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "Neg": unary(ops.neg),
    "Abs": unary(ops.abs),
    "Sign": unary(ops.sign),
    "Reciprocal": unary(ops.reciprocal),
    "Sqrt": unary(ops.sqrt),
    "Exp": unary(ops.exp),
    "Log": unary(ops.log),
    "Erf": unary(ops.erf),
    "Sin": unary(ops.sin),
    "Cos": unary(ops.cos),
    "Tan": unary(ops.tan),
    "Asin": unary(ops.asin),
    "Acos": unary(ops.acos),
    "Atan": unary(ops.atan),
    "Sinh": unary(ops.sinh),
    "Cosh": unary(ops.cosh),
    "Asinh": unary(ops.asinh),
    "Acosh": unary(ops.acosh),
    "Atanh": unary(ops.atanh),
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
    "BitwiseNot": _bitwise_not,
    "BitShift": _shift,
    "IsNaN": unary(ops.isnan),
    "IsInf": _isinf,
    "Where": lambda node: pointwise(ops.where, *node.tensors()),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Identity": lambda node: node.operands[0],
    "ai.onnx.ml.Scaler": lambda node: pointwise(
        lambda v: (
            (v - node.new(np.float32(node.attribute("offset", [0.0]))))
            * node.new(np.float32(node.attribute("scale", [1.0])))
        ),
        node.tensor(0),
    ),
}
