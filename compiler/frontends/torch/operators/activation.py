"""Activation functions."""

from __future__ import annotations

from typing import Final

from compiler.frontends.arranged import Arranged, pointwise, unsqueezed
from compiler.frontends.pieces import split
from compiler.frontends.torch.operators.call import Call, Mapping, attributes_of, axis_of, unary
from registry import Value, ops


def _hard_tanh(call: Call, x: Arranged, min_val: float = -1.0, max_val: float = 1.0) -> Arranged:
    if (min_val, max_val) == (0, 6):
        return pointwise(ops.relu6, x)
    return pointwise(lambda v: ops.hard_tanh(v, min=min_val, max=max_val), x)


def _elu(call: Call, x: Arranged, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Arranged:
    def function(v: Value) -> Value:
        v = v if input_scale == 1 else v * input_scale
        y = ops.elu(v, alpha=alpha)
        return y if scale == 1 else y * scale

    return pointwise(function, x)


def _prelu(call: Call, x: Arranged, slope: Arranged) -> Arranged:
    for _ in range(x.rank - 2):
        slope = unsqueezed(slope, slope.rank)
    return pointwise(ops.prelu, x, slope)


def _glu(call: Call, x: Arranged, dim: int = -1) -> Arranged:
    axis = axis_of(dim, x.rank)
    half = x.shape[axis].known() // 2
    a, b = split(x, [half, half], axis)
    return pointwise(lambda p, q: p * ops.sigmoid(q), a, b)


def _softplus(call: Call, x: Arranged, beta: float = 1.0, threshold: float = 20.0) -> Arranged:
    """Return softplus where beta * x is at most the threshold, and x above it; from 20 on float32 rounds both alike."""

    def function(v: Value) -> Value:
        y = ops.softplus(v, beta=beta)
        return y if threshold >= 20 else ops.where(v * beta > threshold, v, y)

    return pointwise(function, x)


OPERATORS: Final[dict[str, Mapping]] = {
    "aten.relu.default": unary(ops.relu),
    "aten.relu6.default": unary(ops.relu6),
    "aten.gelu.default": attributes_of(ops.gelu, "approximate"),
    "aten.silu.default": unary(ops.silu),
    "aten.mish.default": unary(ops.mish),
    "aten.sigmoid.default": unary(ops.sigmoid),
    "aten.tanh.default": unary(ops.tanh),
    "aten.hardswish.default": unary(ops.hard_swish),
    "aten.hardsigmoid.default": unary(ops.hard_sigmoid),
    "aten.hardtanh.default": _hard_tanh,
    "aten.leaky_relu.default": attributes_of(ops.leaky_relu, "alpha"),
    "aten.elu.default": _elu,
    "aten.selu.default": unary(ops.selu),
    "aten.celu.default": attributes_of(ops.celu, "alpha"),
    "aten.softplus.default": _softplus,
    "aten.log_sigmoid.default": unary(ops.log_sigmoid),
    "aten.prelu.default": _prelu,
    "aten._prelu_kernel.default": lambda call, x, slope: pointwise(ops.prelu, x, slope),
    "aten.threshold.default": attributes_of(ops.threshold, "threshold", "value"),
    "aten.glu.default": _glu,
}
