"""Activation functions."""

from __future__ import annotations

from math import pi, sqrt
from typing import Final

from compiler.exporters.onnx.call import Call, Export, exported, exporting
from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.onnx.node import Mapping, Node, cast, in_floats, is_integer, unary, with_attributes
from compiler.onnx_operators.conv import channels
from registry import Value, ops
from registry.ops.activation import SELU_ALPHA, SELU_SCALE


def _relu(node: Node) -> Arranged:
    x = node.tensor(0)
    return pointwise(lambda v: ops.maximum(v, 0), x) if is_integer(x) else pointwise(ops.relu, x)


def _selu(node: Node) -> Arranged:
    alpha, gamma = node.attribute("alpha", 1.6732632423543772), node.attribute("gamma", 1.0507009873554805)
    return pointwise(lambda v: ops.elu(v, alpha=alpha) * gamma, node.tensor(0))


def _swish(node: Node) -> Arranged:
    alpha = node.attribute("alpha", 1.0)
    return pointwise(lambda v: ops.silu(v) if alpha == 1 else v * ops.sigmoid(v * alpha), node.tensor(0))


def _shrink(node: Node) -> Arranged:
    edge, bias = node.attribute("lambd", 0.5), node.attribute("bias", 0.0)

    def function(v: Value) -> Value:
        return ops.where(v < -edge, v + bias, ops.where(v > edge, v - bias, v * 0.0))

    return pointwise(in_floats(function), node.tensor(0))


def _prelu(node: Node) -> Arranged:
    x, slope = node.tensor(0), node.tensor(1)
    is_per_channel = slope.rank == 1 and x.rank > 2 and slope.shape[0] == x.shape[1]
    if is_per_channel and (node.version < 7 or x.shape[1] != x.shape[-1]):  # so old files have it
        slope = channels(slope, x.rank)
    if is_integer(x):
        return pointwise(lambda v, s: ops.where(v < 0, v * s, v), x, slope)
    return pointwise(ops.prelu, x, slope)


def _clip(node: Node) -> Arranged:
    """Return a clipped tensor; one between 0 and 6 is relu6, whose gradient at the ends is 0 as in PyTorch."""
    x = node.tensor(0)
    if node.version < 11:
        least, most = node.attribute("min"), node.attribute("max")
    else:
        least, most = (node.number_or_tensor(i) for i in (1, 2))
    if (least, most) == (0, 6) and x.dtype.startswith("float"):
        return pointwise(ops.relu6, x)
    bounds = {name: bound for name, bound in (("min", least), ("max", most)) if bound is not None}
    if not bounds:
        return x
    tensors = [bound for bound in bounds.values() if isinstance(bound, Arranged)]

    def function(v: Value, *limits: Value) -> Value:
        queue = iter(limits)
        return ops.clip(v, **{k: next(queue) if isinstance(b, Arranged) else b for k, b in bounds.items()})

    return pointwise(function, x, *tensors)


def _clip_out(call: Call, x: str, *bounds: str) -> str:
    """Return a clip between numbers, or between tensors that are broadcast."""
    given = call.operands[1:]
    queue = iter(bounds)
    names = [next(queue) if bound is not None else "" for bound in given]
    if all(bound is None or bound.rank == 0 for bound in given):
        return call.add("Clip", x, *(names if bounds and names[-1] else bounds))
    for name, op_type in zip(names, ("Max", "Min"), strict=False):
        x = call.add(op_type, x, name) if name else x
    return x


def _gelu_out(call: Call, x: str) -> str:
    if call.opset >= 20:
        return call.add("Gelu", x, approximate=call.attributes["approximate"])
    if call.attributes["approximate"] == "tanh":
        cube = call.add("Mul", x, call.add("Mul", x, x))
        inner = call.add("Add", x, call.add("Mul", cube, call.number(0.044715)))
        share = call.add("Tanh", call.add("Mul", inner, call.number(sqrt(2 / pi))))
    else:
        share = call.add("Erf", call.add("Div", x, call.number(sqrt(2))))
    return call.add("Mul", call.add("Mul", x, call.number(0.5)), call.add("Add", share, call.number(1)))


def _mish_out(call: Call, x: str) -> str:
    return call.add("Mish", x) if call.opset >= 18 else call.add("Mul", x, call.add("Tanh", call.add("Softplus", x)))


def _hard_swish_out(call: Call, x: str) -> str:
    if call.opset >= 14:
        return call.add("HardSwish", x)
    return call.add("Mul", x, call.add("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _softplus_out(call: Call, x: str) -> str:
    beta = call.attributes["beta"]
    if beta == 1:
        return call.add("Softplus", x)
    return call.add("Div", call.add("Softplus", call.add("Mul", x, call.number(beta))), call.number(beta))


def _threshold_out(call: Call, x: str) -> str:
    edge, value = call.number(call.attributes["threshold"]), call.number(call.attributes["value"])
    return call.add("Where", call.add("LessOrEqual", x, edge), value, x)


def _glu_out(call: Call) -> str:
    x, axis = call.plain(0), int(call.attributes["axis"])
    half = int(call.type.shape[axis])
    a, b = call.graph.several("Split", x, call.integers(half, half), count=2, axis=axis)
    return call.add("Mul", a, call.add("Sigmoid", b))


def _celu_out(call: Call, x: str) -> str:
    """Return the node, which knows float32 only, or alpha times the Elu of x / alpha."""
    alpha = float(call.attributes["alpha"])
    if call.type.dtype == "float32":
        return call.add("Celu", x, alpha=alpha)
    return call.add("Mul", call.add("Elu", call.add("Div", x, call.number(alpha))), call.number(alpha))


IMPORTS: Final[dict[str, Mapping]] = {
    "Relu": _relu,
    "Clip": _clip,
    "LeakyRelu": with_attributes(ops.leaky_relu, alpha=0.01),
    "PRelu": _prelu,
    "Elu": with_attributes(ops.elu, alpha=1.0),
    "Selu": _selu,
    "Celu": with_attributes(ops.celu, alpha=1.0),
    "Gelu": with_attributes(ops.gelu, approximate="none"),
    "com.microsoft.Gelu": unary(ops.gelu),
    "com.microsoft.FastGelu": lambda node: pointwise(
        lambda v, *bias: ops.gelu(v + bias[0] if bias else v, approximate="tanh"), *node.tensors()
    ),
    "com.microsoft.BiasGelu": lambda node: pointwise(lambda v, b: ops.gelu(v + b), *node.tensors()),
    "com.microsoft.QuickGelu": lambda node: pointwise(
        lambda v: v * ops.sigmoid(v * node.attribute("alpha", 1.702)), node.tensor(0)
    ),
    "Sigmoid": unary(ops.sigmoid),
    "HardSigmoid": with_attributes(ops.hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": unary(ops.hard_swish),
    "Mish": unary(ops.mish),
    "Swish": _swish,
    "Softplus": unary(ops.softplus),
    "Softsign": unary(ops.softsign),
    "Tanh": unary(ops.tanh),
    "ThresholdedRelu": lambda node: pointwise(
        lambda v: ops.threshold(v, threshold=node.attribute("alpha", 1.0), value=0.0), node.tensor(0)
    ),
    "Shrink": _shrink,
    "ai.onnx.ml.Binarizer": lambda node: pointwise(
        lambda v: cast(v > node.attribute("threshold", 0.0), v.dtype), node.tensor(0)
    ),
}

EXPORTS: Final[dict[str, Export]] = {
    "relu": exporting("Relu"),
    "relu6": exported(lambda call, x: call.add("Clip", x, call.number(0), call.number(6))),
    "clip": exported(_clip_out),
    "hard_tanh": exported(
        lambda call, x: call.add("Clip", x, *(call.number(call.attributes[name]) for name in ("min", "max")))
    ),
    "leaky_relu": exporting("LeakyRelu", alpha="alpha"),
    "prelu": exporting("PRelu"),
    "elu": exporting("Elu", alpha="alpha"),
    "selu": exported(lambda call, x: call.add("Selu", x, alpha=SELU_ALPHA, gamma=SELU_SCALE)),
    "celu": exported(_celu_out),
    "gelu": exported(_gelu_out),
    "sigmoid": exporting("Sigmoid"),
    "log_sigmoid": exported(lambda call, x: call.add("Neg", call.add("Softplus", call.add("Neg", x)))),
    "hard_sigmoid": exporting("HardSigmoid", alpha="alpha", beta="beta"),
    "hard_swish": exported(_hard_swish_out),
    "mish": exported(_mish_out),
    "silu": exported(
        lambda call, x: call.add("Swish", x) if call.opset >= 24 else call.add("Mul", x, call.add("Sigmoid", x))
    ),
    "softplus": exported(_softplus_out),
    "softsign": exporting("Softsign"),
    "tanh": exporting("Tanh"),
    "threshold": exported(_threshold_out),
    "glu": _glu_out,
}
