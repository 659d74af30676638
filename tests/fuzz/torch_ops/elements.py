"""Functions element by element."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F  # noqa: N812 - as everywhere

from fuzz.torch_ops.table import TORCH, spelled

ALIKE = (
    "neg abs square sqrt exp log sin cos tanh sigmoid relu erf erfc rsqrt reciprocal log1p expm1 log2 "
    "exp2 tan asin acos atan sinh cosh asinh acosh atanh atan2 floor ceil round trunc isnan isinf isfinite sign mul "
    "maximum minimum logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not "
    "less less_equal greater greater_equal not_equal"
)
for name in ALIKE.split():
    TORCH[name] = getattr(torch, name)
TORCH["equal"] = torch.eq
TORCH |= {"silu": F.silu, "mish": F.mish, "softsign": F.softsign, "selu": F.selu, "log_sigmoid": F.logsigmoid}
TORCH |= {
    "relu6": F.relu6,
    "hard_swish": F.hardswish,
    "stop_gradient": lambda x: x.detach(),
    "when_training": lambda training, prediction: training.clone(),
    "over_shards": lambda x, weight=None, **_: x.detach(),
    "join_shards": lambda left, right, **_: (left + right).detach(),
    "identity": lambda x: x + 0,
}
TORCH["add"], TORCH["sub"] = torch.add, torch.sub


@spelled("identity")
def identity(x):
    return x.clone()


@spelled("div")
def div(a, b):
    return a / b


@spelled("pow")
def power(a, b):
    return torch.pow(a, b)


@spelled("floor_div", "remainder", "fmod")
def _never(a, b):
    raise AssertionError


def guarded(function, nothing):
    """For whole numbers a division by 0 gives what it does in prograd."""

    def call(a, b):
        if a.is_floating_point():
            return function(a, b)
        safe = torch.where(b == 0, torch.ones_like(b), b)
        return torch.where(b == 0, torch.zeros_like(b), function(a, safe))

    return call


TORCH["floor_div"] = guarded(
    lambda a, b: torch.floor(a / b).detach() if a.is_floating_point() else torch.div(a, b, rounding_mode="floor"), 0
)
TORCH["remainder"] = guarded(torch.remainder, 0)
TORCH["fmod"] = guarded(torch.fmod, 0)


def shifted(function, beyond):
    def call(a, b):
        bits = 8 * a.element_size()
        out = (b < 0) | (b >= bits)
        b = torch.where(out, torch.zeros_like(b), b)
        return torch.where(out, beyond(a), function(a, b))

    return call


TORCH["left_shift"] = shifted(torch.bitwise_left_shift, torch.zeros_like)
TORCH["right_shift"] = shifted(
    torch.bitwise_right_shift, lambda a: torch.where(a < 0, -torch.ones_like(a), torch.zeros_like(a))
)


@spelled("clip")
def clip(x, low=None, high=None):
    return torch.clamp(x, low, high) if low is not None or high is not None else x


@spelled("lerp")
def lerp(a, b, weight):
    return a + weight * (b - a)


@spelled("where")
def where(condition, a, b):
    return torch.where(condition, a, b)


@spelled("polygamma")
def polygamma(x, *, n):
    """PyTorch's own is off by 4e-10 for n = 1, which is the gradient of its digamma too."""
    return Polygamma.apply(x, n)


class Polygamma(torch.autograd.Function):
    """The n-th derivative of digamma by Hurwitz's zeta function; numbers below 0 are moved up by steps of 1 first."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        if n == 0:
            return torch.digamma(x)
        sign, up = (-1.0) ** (n + 1) * math.factorial(n), torch.where(x < 0, torch.ceil(-x) + 1, torch.zeros_like(x))
        total = torch.special.zeta(torch.full_like(x, n + 1.0), x + up)
        for i in range(int(up.max()) if up.numel() else 0):
            total = total + torch.where(up > i, (x + i) ** -(n + 1.0), torch.zeros_like(x))
        return sign * total

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Polygamma.apply(x, ctx.n + 1), None


class LogGamma(torch.autograd.Function):
    """Compute the function with the gradient above."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * Polygamma.apply(x, 0)


TORCH["digamma"], TORCH["lgamma"] = (lambda x: Polygamma.apply(x, 0)), LogGamma.apply


@spelled("leaky_relu")
def leaky_relu(x, *, alpha=0.01):
    return F.leaky_relu(x, alpha)


@spelled("prelu")
def prelu(x, slope):
    return torch.where(x > 0, x, slope * x)


@spelled("elu")
def elu(x, *, alpha=1.0):
    return torch.where(x > 0, x, alpha * torch.expm1(torch.clamp(x, max=0)))


@spelled("celu")
def celu(x, *, alpha=1.0):
    """PyTorch's own takes 1 / alpha in float32."""
    return torch.where(x > 0, x, alpha * torch.expm1(torch.clamp(x, max=0) / alpha))


@spelled("gelu")
def gelu(x, *, approximate="none"):
    return F.gelu(x, approximate=approximate)


@spelled("softplus")
def softplus(x, *, beta=1.0):
    return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta


@spelled("hard_sigmoid")
def hard_sigmoid(x, *, alpha=1 / 6, beta=0.5):
    return F.hardtanh(alpha * x + beta, 0.0, 1.0)


@spelled("hard_tanh")
def hard_tanh(x, *, min=-1.0, max=1.0):
    return F.hardtanh(x, min, max)


@spelled("threshold")
def threshold(x, *, threshold, value):
    return F.threshold(x, threshold, value)


@spelled("glu")
def glu(x, *, axis=-1):
    return F.glu(x, axis)


DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "int32", "int64", "bool", "uint8")}


@spelled("bitcast")
def bitcast(x):
    others = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bool: torch.uint8}
    others |= {torch.int32: torch.float32, torch.int64: torch.float64}
    return x.detach().view(others[x.dtype]).clone()


@spelled("cast")
def cast(x, *, dtype):
    if dtype in ("float16", "bfloat16"):
        narrow = x.to(getattr(torch, dtype)).to(torch.float32)
        if not x.is_floating_point():
            return narrow
        wide = x.to(torch.float32)
        return wide + (narrow - wide).detach() if bool(torch.isfinite(narrow).all()) else narrow
    if not x.is_floating_point() or x.dtype == DTYPES[dtype]:
        return x.to(DTYPES[dtype], copy=True)
    return x.to(DTYPES[dtype])


NAN = math.nan
