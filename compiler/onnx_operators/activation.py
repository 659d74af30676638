"""Activation functions."""

# pyright: basic
# onnx is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from typing import Final

from compiler.frontends.arranged import Arranged, pointwise, unsqueezed
from compiler.frontends.onnx.node import Mapping, Node, cast, in_floats, is_integer, unary, with_attributes
from registry import Value, ops


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
        for _ in range(x.rank - 2):
            slope = unsqueezed(slope, slope.rank)
    if is_integer(x):
        return pointwise(lambda v, s: ops.where(v < 0, v * s, v), x, slope)
    return pointwise(ops.prelu, x, slope)


def _clip(node: Node) -> Arranged:
    """Return a clipped tensor; one between 0 and 6 is relu6, whose gradient at the ends is 0 as in PyTorch."""
    x = node.tensor(0)
    if node.version < 11:
        least, most = node.attribute("min"), node.attribute("max")
    else:
        least, most = (_bound(node, i) for i in (1, 2))
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


def _bound(node: Node, number: int) -> float | int | Arranged | None:
    if not node.has(number):
        return None
    x = node.operands[number]
    if isinstance(x, Arranged):
        return x
    return x.array().reshape(-1)[0].item()


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
