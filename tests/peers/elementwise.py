"""Functions element by element, activations and comparisons."""

from __future__ import annotations

from typing import Any

from compiler import Value, ops
from peers.spelling import peer
from registry import OPS

UNARY = {
    **{name: name for name in ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh")},
    **{name: name for name in ("digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p")},
    **{name: name for name in ("log2", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt")},
    **{name: name for name in ("square", "tan", "tanh", "trunc", "isfinite", "isinf", "isnan")},
    **{f"nn.functional.{name}": name for name in ("relu", "relu6", "mish", "softsign", "selu", "silu")},
    "nn.functional.hardswish": "hard_swish",
    "nn.functional.logsigmoid": "log_sigmoid",
    "clone": "identity",
}

BINARY = {
    **{name: name for name in ("atan2", "maximum", "minimum", "mul", "fmod", "remainder", "pow")},
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    "floor_divide": "floor_div",
}


def _unary(name: str) -> Any:
    return lambda x, inplace=False, memory_format=None: OPS[name](x)


def _binary(name: str) -> Any:
    return lambda a, b: OPS[name](a, b)


for function, name in UNARY.items():
    peer(function, name)(_unary(name))

for function, name in BINARY.items():
    peer(function, name)(_binary(name))


@peer("add", "add")
def add(a: Value, b: Value, *, alpha: float = 1) -> Value:
    return a + b * alpha if alpha != 1 else ops.add(a, b)


@peer("sub", "sub")
def sub(a: Value, b: Value, *, alpha: float = 1) -> Value:
    return a - b * alpha if alpha != 1 else ops.sub(a, b)


@peer("rsub", "sub")
def rsub(a: Value, b: Value, alpha: float = 1) -> Value:
    return b - a * alpha if alpha != 1 else ops.sub(b, a)


@peer("div", "div", variant="no_rounding_mode")
@peer("div", "floor_div", variant="floor_rounding")
@peer("div", "trunc", variant="trunc_rounding")
def div(a: Value, b: Value, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return ops.div(a, b)
    return ops.floor_div(a, b) if rounding_mode == "floor" else ops.trunc(a / b)


@peer("round", "round")
def round(x: Value) -> Value:
    return ops.round(x)


@peer("clamp", "clip")
@peer("clamp_min", "clip")
def clamp(x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    return ops.clip(x, min, max)


@peer("clamp_max", "clip")
def clamp_max(x: Value, max: Value) -> Value:
    return ops.clip(x, None, max)


@peer("lerp", "lerp")
def lerp(a: Value, b: Value, weight: Value) -> Value:
    return ops.lerp(a, b, weight)


@peer("where", "where")
def where(a: Value, condition: Value, b: Value) -> Value:
    return ops.where(condition, a, b)  # the samples have the condition in the second place


@peer("logit", "log", "clip")
def logit(x: Value, eps: float | None = None) -> Value:
    x = x if eps is None else ops.clip(x, eps, 1 - eps)
    return ops.log(x / (1 - x))


@peer("xlogy", "mul", "log")
def xlogy(a: Value, b: Value) -> Value:
    return a * ops.log(b)


@peer("logaddexp", "logsumexp", "stack")
def logaddexp(a: Value, b: Value) -> Value:
    wide = (a + b).shape
    both = ops.stack(ops.broadcast_to(a, shape=wide), ops.broadcast_to(b, shape=wide))
    return ops.logsumexp(both, axis=(0,))


@peer("to", "cast")
def to(x: Value, *args: Any, **kwargs: Any) -> Value:
    return ops.cast(x, dtype="float64")


@peer("double", "cast")
def double(x: Value, **kwargs: Any) -> Value:
    return ops.cast(x, dtype="float64")


for n in range(5):

    @peer("polygamma", "polygamma", variant=f"polygamma_n_{n}")
    def polygamma(x: Value, n: int) -> Value:
        return ops.polygamma(x, n=n)


@peer(
    "nn.functional.hardsigmoid",
    "hard_sigmoid",
    tolerance=1e-7,
    orders=1,
    note="PyTorch rounds 1/6 to float32 in its gradient, and has no second one",
)
def hardsigmoid(x: Value, inplace: bool = False) -> Value:
    return ops.hard_sigmoid(x)


@peer("nn.functional.leaky_relu", "leaky_relu")
def leaky_relu(x: Value, negative_slope: float = 0.01, inplace: bool = False) -> Value:
    return ops.leaky_relu(x, alpha=negative_slope)


@peer("nn.functional.elu", "elu")
def elu(x: Value, alpha: float = 1.0, inplace: bool = False) -> Value:
    return ops.elu(x, alpha=alpha)


@peer("nn.functional.celu", "celu")
def celu(x: Value, alpha: float = 1.0, inplace: bool = False) -> Value:
    return ops.celu(x, alpha=alpha)


@peer("nn.functional.prelu", "prelu")
def prelu(x: Value, weight: Value) -> Value:
    if weight.rank and x.rank > 1:
        weight = ops.reshape(weight, shape=(weight.shape[0],) + (1,) * (x.rank - 2))
    if weight.rank and not x.rank:
        weight = ops.reshape(weight, shape=())
    return ops.prelu(x, weight)


@peer("nn.functional.gelu", "gelu")
def gelu(x: Value, approximate: str = "none") -> Value:
    return ops.gelu(x, approximate=approximate)


@peer("nn.functional.glu", "glu")
def glu(x: Value, dim: int = -1) -> Value:
    return ops.glu(x, axis=dim)


@peer("nn.functional.hardtanh", "hard_tanh")
def hardtanh(x: Value, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Value:
    return ops.hard_tanh(x, min=float(min_val), max=float(max_val))


@peer("nn.functional.threshold", "threshold")
def threshold(x: Value, threshold: float, value: float, inplace: bool = False) -> Value:
    return ops.threshold(x, threshold=threshold, value=value)


@peer("nn.functional.softplus", "softplus")
def softplus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """PyTorch takes x for the result where beta * x is above the threshold."""
    return ops.where(x * beta > threshold, x, ops.softplus(x, beta=float(beta)))


@peer("nn.functional.tanhshrink", "tanh")
def tanhshrink(x: Value) -> Value:
    return x - ops.tanh(x)


@peer("nn.functional.hardshrink", "where", "abs")
def hardshrink(x: Value, lambd: float = 0.5) -> Value:
    return ops.where(ops.abs(x) > lambd, x, 0.0)


@peer("positive", "identity")
def positive(x: Value) -> Value:
    return ops.identity(x)


@peer("hypot", "sqrt", "square")
def hypot(a: Value, b: Value) -> Value:
    return ops.sqrt(ops.square(a) + ops.square(b))


@peer("addcdiv", "div")
def addcdiv(x: Value, a: Value, b: Value, *, value: float = 1) -> Value:
    return x + a / b * value


@peer("frac", "trunc")
def frac(x: Value) -> Value:
    return x - ops.trunc(x)
