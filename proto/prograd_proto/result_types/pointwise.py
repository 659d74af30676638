"""Pointwise functions, activations, copies, and choices between two tensors."""

from __future__ import annotations

from prograd_proto import dtypes
from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES, DTypeName
from prograd_proto.errors import require
from prograd_proto.result_types.rule import of_one, of_two, rule, rule_of, rule_with_halves
from prograd_proto.result_types.shapes import (
    Typed,
    broadcast_shapes,
    broadcast_type,
    normal_axis,
    require_dtype,
    require_float,
    size_known,
)
from prograd_proto.tensor_types import TensorType

NUMERIC = FLOATS | INTEGERS

of_two("add", "sub", "mul", "maximum", "minimum", among=NUMERIC)
of_two("floor_div", "remainder", "fmod", among=NUMERIC)
of_two("div", "pow", "atan2", among=FLOATS)
of_two("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", among=ITEM_BYTES, result="bool")
of_two("logical_and", "logical_or", "logical_xor", among={"bool"})
of_two("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", among=INTEGERS)
of_one("logical_not", among={"bool"})
of_one("bitwise_not", among=INTEGERS)
of_one("isnan", "isinf", "isfinite", among=FLOATS, result="bool")
of_one("neg", among=NUMERIC - {"uint8"})
of_one("abs", "sign", "square", among=NUMERIC)
of_one("floor", "ceil", "round", "trunc", among=FLOATS)
of_one("sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log1p", among=FLOATS)
of_one("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", among=FLOATS)
of_one("asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "digamma", among=FLOATS)
of_one("relu", "relu6", "sigmoid", "log_sigmoid", "selu", "silu", "mish", "softsign", "hard_swish", among=FLOATS)


@rule
def clip(x: TensorType, min: TensorType | None = None, max: TensorType | None = None) -> TensorType:
    return broadcast_type(*(operand for operand in (x, min, max) if operand is not None), among=NUMERIC)


@rule
def lerp(a: TensorType, b: TensorType, weight: TensorType) -> TensorType:
    return broadcast_type(a, b, weight, among=FLOATS)


@rule_with_halves
def where(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    require(condition.dtype == "bool", f"the condition is {condition.dtype}, not bool")
    chosen = broadcast_type(a, b)
    return TensorType(chosen.dtype, broadcast_shapes(condition.shape, chosen.shape))


@rule_of("leaky_relu", "elu")
def one_of_a_scale(x: TensorType, *, alpha: float) -> TensorType:
    require_float(x)
    return x


@rule
def prelu(x: TensorType, slope: TensorType) -> TensorType:
    y = broadcast_type(x, slope, among=FLOATS)
    require(y == x, f"the slope does not broadcast to x but makes it {y}")
    return y


@rule
def celu(x: TensorType, *, alpha: float) -> TensorType:
    require_float(x)
    require(alpha > 0, f"alpha is {alpha}, not positive")
    return x


@rule
def gelu(x: TensorType, *, approximate: str) -> TensorType:
    require_float(x)
    require(approximate in ("none", "tanh"), f"approximate is {approximate!r}, neither 'none' nor 'tanh'")
    return x


@rule
def softplus(x: TensorType, *, beta: float) -> TensorType:
    require_float(x)
    require(beta > 0, f"beta is {beta}, not positive")
    return x


@rule
def hard_sigmoid(x: TensorType, *, alpha: float, beta: float) -> TensorType:
    require_float(x)
    return x


@rule
def hard_tanh(x: TensorType, *, min: float, max: float) -> TensorType:
    require_float(x)
    require(min <= max, f"min is {min}, which is above max, {max}")
    return x


@rule
def threshold(x: TensorType, *, threshold: float, value: float) -> TensorType:
    require_float(x)
    return x


@rule
def glu(x: TensorType, *, axis: int) -> TensorType:
    require_float(x)
    axis = normal_axis(axis, x.rank)
    half = half_extent(x, axis)
    return TensorType(x.dtype, (*x.shape[:axis], half, *x.shape[axis + 1 :]))


@rule
def polygamma(x: TensorType, *, n: int) -> TensorType:
    require_float(x)
    require(1 <= n <= 100, f"n is {n}, not in 1 ... 100")
    return x


@rule_with_halves
def cast(x: TensorType, *, dtype: DTypeName) -> TensorType:
    require(dtype in dtypes.ITEM_BYTES, f"{dtype!r} is not a dtype")
    return TensorType(dtype, x.shape)


@rule
def bitcast(x: TensorType) -> TensorType:
    require_dtype(x, dtypes.SAME_BITS)
    return TensorType(dtypes.SAME_BITS[x.dtype], x.shape)


@rule_of("identity", "stop_gradient", "spill", "reload", halves=True)
def identity(x: TensorType) -> TensorType:
    return x


@rule_with_halves
def when_training(training: TensorType, prediction: TensorType) -> TensorType:
    require(prediction == training, f"prediction is {prediction}, not {training} as training is")
    return training


def half_extent(x: Typed, axis: int) -> int:
    """Return half of an extent; raise OpError if it is odd or unknown."""
    extent = size_known(x.shape[axis], "the extent of a halved axis")
    require(extent % 2 == 0, f"axis {axis} has {extent} elements, which no two halves make")
    return extent // 2
