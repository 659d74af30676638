"""Activations, by the formulas of the reference kernels, so that NaN and infinities have the same results."""

from __future__ import annotations

from math import pi, prod, sqrt

from runtime.codegen import math
from runtime.codegen.costs import GATED_ELEMENT_CYCLES
from runtime.codegen.ir import DTYPES, Index, Value
from runtime.codegen.ir.words import absolute, maximum, minimum, where
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target
from runtime.codegen.rules.rule import FLOAT_DTYPES, RULES, CustomKernel, of_one, of_two, pointwise

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def leaky_relu(x: Value, *, alpha: float) -> Value:
    return where(x > 0, x, x * alpha)


def elu(x: Value, *, alpha: float, width: float = 1.0, slope: float = 1.0) -> Value:
    """Return slope * x above 0 and alpha * expm1(x / width) below."""
    return where(x <= 0, math.expm1(minimum(x, 0.0) / width) * alpha, x * slope)


def celu(x: Value, *, alpha: float) -> Value:
    return elu(x, alpha=alpha, width=alpha)


def gelu(x: Value, *, approximate: str) -> Value:
    """Compute gelu by the same erfc as its gradient, so that a loop with both computes it once.

    The tanh form computes (1 + tanh(a)) / 2 as sigmoid(2 * a), which is precise where the result is small.
    """
    if approximate == "tanh":
        turned = (x * x * (-2 * 0.044715 * sqrt(2 / pi)) - 2 * sqrt(2 / pi)) * x
        return x / (math.exp(turned) + 1)
    share = math.erfc(x * -sqrt(0.5))
    x = maximum(x, -50.0) if x.type.bits == 32 else x  # for -inf the kernel of float32 gives 0, that of float64 NaN
    return x * 0.5 * share


def mish(x: Value) -> Value:
    """Return x * p / (p + 2) with p = exp(x) * (exp(x) + 2): p / (p + 2) is tanh(softplus(x)).

    x is limited to 30 in p: the quotient is 1 from there on, and p stays finite.
    """
    e = math.exp(minimum(x, 30.0))
    p = (e + 2) * e
    return p / (p + 2) * x


def softplus(x: Value, *, beta: float) -> Value:
    return math.log1p(math.exp(-absolute(x * beta))) / beta + maximum(x, 0.0)


def log_sigmoid(x: Value) -> Value:
    return minimum(x, 0.0) - math.log1p(math.exp(-absolute(x)))


def hard_sigmoid(x: Value, *, alpha: float, beta: float) -> Value:
    return between(x * alpha + beta, 0.0, 1.0)


def hard_tanh(x: Value, *, min: float, max: float) -> Value:
    return between(x, min, max)


def threshold(x: Value, *, threshold: float, value: float) -> Value:
    return where(x <= threshold, value, x)


def glu(target: Target, op: OpTypes) -> KernelSteps:
    """Return the first half of each block of rows times the sigmoid of the second; a work item is a block."""
    [y] = op.outputs
    element, axis = DTYPES[y.dtype], op.attributes["axis"] % y.rank
    items, half = prod(y.static_shape[:axis]), prod(y.static_shape[axis:])

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, x, lanes = context.f, context.operand(0), target.lanes(element.bits)
        for item in f.range(start, stop):

            def one(i: Index, width: int, count: int, item: Index = item) -> None:
                tail = count if width else None
                a, b = (f.load(x, (item * 2 + part) * half + i, width, tail) for part in range(2))
                f.store(a / (math.exp(-b) + 1), context.outputs[0], item * half + i, tail)

            along(f, half, lanes, one)

    return KernelSteps((KernelStep(write, items, items * half * GATED_ELEMENT_CYCLES),))


def between(x: Value, least: float, largest: float) -> Value:
    return minimum(maximum(x, least), largest)


pointwise("leaky_relu", leaky_relu, FLOAT_DTYPES)
of_two("prelu", lambda x, slope: where(x > 0, x, x * slope), FLOAT_DTYPES)
pointwise("elu", elu, FLOAT_DTYPES)
pointwise("celu", celu, FLOAT_DTYPES)
of_one("selu", lambda x: elu(x, alpha=SELU_SCALE * SELU_ALPHA, slope=SELU_SCALE), FLOAT_DTYPES)
pointwise("gelu", gelu, FLOAT_DTYPES)
of_one("silu", lambda x: x / (math.exp(-x) + 1), FLOAT_DTYPES)
of_one("mish", mish, FLOAT_DTYPES)
pointwise("softplus", softplus, FLOAT_DTYPES)
of_one("log_sigmoid", log_sigmoid, FLOAT_DTYPES)
of_one("softsign", lambda x: x / (absolute(x) + 1), FLOAT_DTYPES)
pointwise("hard_sigmoid", hard_sigmoid, FLOAT_DTYPES)
of_one("hard_swish", lambda x: between(x + 3, 0.0, 6.0) / 6 * x, FLOAT_DTYPES)
pointwise("hard_tanh", hard_tanh, FLOAT_DTYPES)
of_one("relu6", lambda x: between(x, 0.0, 6.0), FLOAT_DTYPES)
pointwise("threshold", threshold, FLOAT_DTYPES)
RULES["glu"] = CustomKernel(glu)
