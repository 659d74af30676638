"""Cases of `families.py`: operators beside their counterparts in PyTorch, with operands of training sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

from registry import ops

Function = Callable[..., Any]
Operands = Sequence[np.ndarray]

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One row.

    `layout` has a letter for each operand: "x" has its channels last here and first in PyTorch, "w" is a filter, "."
    is the same in both. `differentiated` are the operands whose gradients are timed. Random numbers are not compared.
    """

    name: str
    operands: Operands
    ours: Function
    theirs: Function
    layout: str = ""
    differentiated: Sequence[int] = field(default_factory=tuple)
    compared: bool = True

    @property
    def shown(self) -> str:
        """The operands' types."""
        short = {"float32": "", "float64": "f64", "int64": "i64", "bool": "bool"}
        return " ".join(f"{short[x.dtype.name]}{list(x.shape)}".replace(" ", "") for x in self.operands if x.ndim)

    def theirs_operands(self) -> list[np.ndarray]:
        """Copies of the operands in PyTorch's layout."""
        return [np.array(self.turned(x, i), order="C") for i, x in enumerate(self.operands)]

    def turned(self, x: np.ndarray, number: int = 0) -> np.ndarray:
        """Convert to PyTorch's layout of that operand; a result has the layout of the first if its rank is equal."""
        match self.layout[number : number + 1]:
            case "x" if x.ndim == self.operands[number].ndim:
                return np.moveaxis(x, -1, 1)
            case "w":
                return np.moveaxis(np.moveaxis(x, -1, 0), -1, 1)
            case _:
                return x


def case(
    name: str, operands: Sequence[np.ndarray], theirs: Function, ours: Function | None = None, **more: Any
) -> Case:
    """A row whose gradient is timed for all float operands, unless told otherwise; attributes of the operator apart."""
    layout, compared = more.pop("layout", ""), more.pop("compared", True)
    floats = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    differentiated = more.pop("differentiated", floats)

    def named(*xs: Any) -> Any:
        return getattr(ops, name)(*xs, **more)

    return Case(name, operands, ours or named, theirs, layout, differentiated, compared)


def fixed(
    name: str, operands: Sequence[np.ndarray], theirs: Function, ours: Function | None = None, **more: Any
) -> Case:
    """A row without a gradient."""
    return case(name, operands, theirs, ours, differentiated=(), **more)


def along(name: str, **more: Any) -> Function:
    """The reduction of that name, with these axes."""
    return lambda x: getattr(torch, name)(x, **more)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.uniform(0.5, 2, size=shape).astype(dtype)


def inside(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.9, 0.9, size=shape).astype("float32")


def ints(below: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, below, shape)


def regular(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) + 2 * np.sqrt(shape[-1]) * np.eye(shape[-1])).astype("float32")


def definite(*shape: int) -> np.ndarray:
    x = RNG.normal(size=shape)
    return (x @ x.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])).astype("float32")


X, Y, Z = floats(128, 1024), floats(128, 1024), floats(128, 1024)
P, Q = positive(128, 1024), positive(128, 1024)
I = inside(128, 1024)  # noqa: E741 - beside X, Y and P
D = floats(128, 1024, dtype="float64")
B, C = X > 0, Y > 0
N, M = ints(1000, 128, 1024), ints(16, 128, 1024)
ROW = floats(1024)

POINTWISE = [
    *(case(name, [X, Y], getattr(torch, name)) for name in ("add", "sub", "mul", "maximum", "minimum")),
    case("add", [X, ROW], torch.add),
    case("mul", [X, ROW], torch.mul),
    case("div", [X, P], torch.div),
    case("pow", [P, Q], torch.pow),
    *(case(name, [X], getattr(torch, name)) for name in ("neg", "abs", "square", "exp", "sin", "cos", "tanh")),
    *(case(name, [X], getattr(torch, name)) for name in ("sigmoid", "relu")),
    *(case(name, [P], getattr(torch, name)) for name in ("sqrt", "log")),
    fixed("sign", [X], torch.sign),
    *(fixed(name, [X, Y], getattr(torch, name)) for name in ("less", "greater_equal")),
    fixed("equal", [X, Y], torch.eq),
    *(fixed(name, [B, C], getattr(torch, name)) for name in ("logical_and", "logical_or")),
    fixed("logical_not", [B], torch.logical_not),
    case("where", [B, X, Y], torch.where),
    case("clip", [X], lambda x: torch.clamp(x, -1, 1), lambda x: ops.clip(x, -1.0, 1.0)),
    case("lerp", [X, Y], lambda a, b: torch.lerp(a, b, 0.3), lambda a, b: ops.lerp(a, b, 0.3)),
    case("lerp", [X, Y, I], torch.lerp),
]

ELEMENTARY = [
    *(case(name, [P], getattr(torch, name)) for name in ("rsqrt", "reciprocal", "log1p", "log2")),
    *(case(name, [X], getattr(torch, name)) for name in ("expm1", "exp2", "tan", "atan", "sinh", "cosh", "asinh")),
    *(case(name, [I], getattr(torch, name)) for name in ("asin", "acos", "atanh")),
    case("acosh", [P + 1], torch.acosh),
    case("atan2", [X, Y], torch.atan2),
]

ROUNDING = [
    *(fixed(name, [X], getattr(torch, name)) for name in ("floor", "ceil", "round", "trunc")),
    fixed("floor_div", [X, P], torch.floor_divide),
    fixed("floor_div", [N, M + 1], torch.floor_divide),
    case("remainder", [X, P], torch.remainder),
    fixed("remainder", [N, M + 1], torch.remainder),
    case("fmod", [X, P], torch.fmod),
]

LOGIC = [
    fixed("logical_xor", [B, C], torch.logical_xor),
    *(fixed(name, [N, M], getattr(torch, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    fixed("bitwise_not", [N], torch.bitwise_not),
    fixed("left_shift", [N, M], torch.bitwise_left_shift),
    fixed("right_shift", [N, M], torch.bitwise_right_shift),
    *(fixed(name, [X], getattr(torch, name)) for name in ("isnan", "isinf", "isfinite")),
]

SPECIAL = [
    *(case(name, [x], getattr(torch, name)) for x in (X, D) for name in ("erf", "erfc")),
    *(case(name, [P], getattr(torch, name)) for name in ("lgamma", "digamma")),
    fixed("polygamma", [P], lambda x: torch.polygamma(1, x), n=1),
]

ACTIVATION = [
    case("leaky_relu", [X], F.leaky_relu),
    case("prelu", [X, np.full(1024, 0.25, "float32")], F.prelu),
    *(
        case(name, [X], getattr(F, name))
        for name in ("elu", "celu", "selu", "gelu", "silu", "mish", "softsign", "relu6")
    ),
    case("gelu", [D], F.gelu),
    case("gelu", [X], lambda x: F.gelu(x, approximate="tanh"), approximate="tanh"),
    case("softplus", [X], F.softplus),
    case("log_sigmoid", [X], F.logsigmoid),
    case("hard_sigmoid", [X], F.hardsigmoid),
    case("hard_swish", [X], F.hardswish),
    case("hard_tanh", [X], F.hardtanh),
    case("threshold", [X], lambda x: F.threshold(x, 0.1, 0.5), threshold=0.1, value=0.5),
    case("glu", [X], F.glu),
]

LINALG = [
    case("matmul", [floats(128, 784), floats(784, 256)], torch.matmul),
    case("matmul", [floats(32, 64, 64), floats(32, 64, 64)], torch.matmul),
    case("outer_sum", [floats(32, 16, 64), floats(32, 16, 64)], lambda a, b: torch.einsum("nti,ntj->ij", a, b)),
    case(
        "einsum",
        [floats(16, 8, 32, 64), floats(16, 8, 48, 64)],
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        lambda a, b: ops.einsum("bhid,bhjd->bhij", a, b),
    ),
]

SPD, MATRIX, BATCH = definite(128, 128), regular(500, 500), regular(64, 32, 32)

DECOMPOSITION = [
    case("cholesky", [SPD], torch.linalg.cholesky),
    case("cholesky", [definite(64, 32, 32)], torch.linalg.cholesky),
    fixed("cholesky", [definite(500, 500)], torch.linalg.cholesky),
    *(case("solve", [a, floats(*a.shape[:-1], 16)], torch.linalg.solve) for a in (MATRIX, BATCH)),
    *(case("inverse", [a], torch.linalg.inv) for a in (MATRIX, BATCH)),
    *(case("determinant", [a / 8], torch.linalg.det) for a in (BATCH, regular(128, 128) / 4)),
    *(fixed("log_determinant", [a], torch.linalg.slogdet) for a in (MATRIX, BATCH)),
    case(
        "triangular_solve",
        [np.tril(regular(256, 256)), floats(256, 64)],
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
    ),
]

V = floats(32, 128, 64)
REDUCE = [
    *(case(name, [V], along(name)) for name in ("sum", "mean")),
    *(case(name, [V], along(name, dim=-1), axis=(-1,)) for name in ("sum", "mean")),
    *(case(name, [V], along(name, dim=(0, 1)), axis=(0, 1)) for name in ("sum", "mean")),
    case("max", [V], lambda x: torch.amax(x, -1), axis=(-1,)),
    case("min", [V], lambda x: torch.amin(x, 0), axis=(0,)),
    case("prod", [positive(256, 64)], lambda x: torch.prod(x, -1), axis=(-1,)),
    case("prod", [positive(64, 256)], lambda x: torch.prod(x, 0), axis=(0,)),
    *(fixed(name, [B], along(name, dim=-1), axis=(-1,)) for name in ("any", "all")),
    fixed("argmax", [V], lambda x: torch.argmax(x, -1), axis=-1),
    fixed("argmin", [V], lambda x: torch.argmin(x, 0), axis=0),
    case("broadcast_to", [floats(1, 128, 64)], lambda x: x.expand(32, 128, 64).contiguous(), shape=(32, 128, 64)),
]

STATISTICS = [
    case("logsumexp", [X], lambda x: torch.logsumexp(x, -1), axis=(-1,)),
    case("variance", [X], lambda x: torch.var(x, -1, correction=0), axis=(-1,)),
    case("standard_deviation", [X], lambda x: torch.std(x, 0, correction=0), axis=(0,)),
    case("norm", [X], lambda x: torch.linalg.vector_norm(x, dim=-1), axis=(-1,)),
    case("norm", [X], lambda x: torch.linalg.vector_norm(x, 3, dim=-1), axis=(-1,), ord=3.0),
]

IMAGES = floats(32, 28, 28, 16)
CHANNEL = positive(16)


def normalized(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return F.batch_norm(x, mean, variance, scale, bias, training=True)


NORM = [
    *(case(name, [X], along(name, dim=-1)) for name in ("softmax", "log_softmax")),
    case("softmax", [floats(32, 8, 64, 64)], lambda x: F.softmax(x, -1)),
    Case(
        "batch_norm",
        [IMAGES, CHANNEL, CHANNEL, CHANNEL, CHANNEL],
        lambda *xs: ops.batch_norm(*xs)[0],
        normalized,
        "x",
        (0, 1, 2),
    ),
    Case(
        "layer_norm",
        [floats(32, 64, 256), positive(256), floats(256)],
        lambda *xs: ops.layer_norm(*xs)[0],
        lambda x, w, b: F.layer_norm(x, (256,), w, b),
        "",
        (0, 1, 2),
    ),
    Case(
        "rms_norm",
        [floats(32, 64, 256), positive(256)],
        lambda *xs: ops.rms_norm(*xs)[0],
        lambda x, w: F.rms_norm(x, (256,), w, 1e-5),
        "",
        (0, 1),
    ),
    Case(
        "group_norm",
        [IMAGES, CHANNEL, CHANNEL],
        lambda *xs: ops.group_norm(*xs, groups=4)[0],
        lambda x, w, b: F.group_norm(x, 4, w, b),
        "x",
        (0, 1, 2),
    ),
    case("instance_norm", [IMAGES, CHANNEL, CHANNEL], lambda x, w, b: F.instance_norm(x, None, None, w, b), layout="x"),
    case("local_response_norm", [IMAGES], lambda x: F.local_response_norm(x, 5), layout="x", size=5),
]

LABELS = ints(10, 4096)
LOGITS = floats(4096, 10)
A, E = floats(4096, 16), floats(4096, 16)

LOSS = [
    case("softmax_cross_entropy", [LOGITS, LABELS], F.cross_entropy),
    case("squared_error", [X, Y], F.mse_loss, differentiated=(0,)),
    fixed("accuracy", [LOGITS, LABELS], lambda x, labels: (x.argmax(-1) == labels).float().mean()),
    case("cross_entropy", [LOGITS, LABELS], lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), smoothing=0.1),
    case("binary_cross_entropy", [abs(I), abs(I)[::-1].copy()], F.binary_cross_entropy, differentiated=(0,)),
    case("binary_cross_entropy_with_logits", [X, abs(I)], F.binary_cross_entropy_with_logits, differentiated=(0,)),
    case("kl_divergence", [X, P], lambda x, y: F.kl_div(x, y, reduction="batchmean") / 1024, differentiated=(0,)),
    case("absolute_error", [X, Y], F.l1_loss, differentiated=(0,)),
    case("huber", [X, Y], F.huber_loss, differentiated=(0,)),
    case("smooth_l1", [X, Y], F.smooth_l1_loss, differentiated=(0,)),
]

F1, F3, F16 = floats(3, 3, 1, 16), floats(3, 3, 3, 16), floats(3, 3, 16, 32)


def image_loss(*, stride: int = 1, padding: int = 1, groups: int = 1, dilation: int = 1) -> Function:
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=padding, groups=groups, dilation=dilation)


CONV = [
    case("conv2d", [floats(32, 28, 28, 1), F1], image_loss(), layout="xw", padding=(1, 1)),
    case("conv2d", [floats(32, 32, 32, 3), F3], image_loss(), layout="xw", padding=(1, 1)),
    case("conv2d", [floats(32, 14, 14, 16), F16], image_loss(), layout="xw", padding=(1, 1)),
    case(
        "conv2d",
        [floats(8, 28, 28, 64), floats(3, 3, 64, 64)],
        image_loss(stride=2),
        layout="xw",
        padding=(1, 1),
        stride=(2, 2),
    ),
    case("conv2d", [floats(32, 14, 14, 64), floats(1, 1, 64, 64)], image_loss(padding=0), layout="xw"),
    case(
        "conv2d",
        [floats(8, 28, 28, 32), floats(3, 3, 8, 32)],
        image_loss(groups=4),
        layout="xw",
        padding=(1, 1),
        groups=4,
    ),
    *(
        case(
            "depthwise_conv",
            [floats(8, size, size, c), floats(k, k, c, 1)],
            lambda x, w, p=k // 2: F.conv2d(x, w.permute(1, 0, 2, 3), padding=p, groups=x.shape[1]),
            layout="xw",
            padding=(k // 2, k // 2),
        )
        for size, c, k in ((28, 32, 3), (14, 128, 3), (14, 64, 5))
    ),
    case(
        "conv",
        [floats(32, 128, 32), floats(5, 32, 64)],
        lambda x, w: F.conv1d(x, w, padding=2),
        layout="xw",
        padding=(2,),
    ),
    case(
        "conv",
        [floats(4, 8, 16, 16, 8), floats(3, 3, 3, 8, 16)],
        lambda x, w: F.conv3d(x, w, padding=1),
        layout="xw",
        padding=(1, 1, 1),
    ),
    case(
        "conv_transpose",
        [floats(16, 14, 14, 32), floats(2, 2, 16, 32)],
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        layout="xw",
        stride=(2, 2),
    ),
]

TWO, THREE = dict(window=(2, 2), stride=(2, 2)), dict(window=(3, 3), stride=(2, 2), padding=(1, 1))
VOLUMES = floats(4, 8, 16, 16, 8)

POOL = [
    case("max_pool2d", [IMAGES], lambda x: F.max_pool2d(x, 2), layout="x", **TWO),
    case("max_pool2d", [IMAGES], lambda x: F.max_pool2d(x, 3, 2, 1), layout="x", **THREE),
    case("avg_pool2d", [IMAGES], lambda x: F.avg_pool2d(x, 2), layout="x", **TWO),
    case("avg_pool2d", [IMAGES], lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), layout="x", **THREE),
    case(
        "max_pool",
        [IMAGES],
        lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2),
        layout="x",
        window=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        dilation=(2, 2),
    ),
    case("max_pool", [VOLUMES], lambda x: F.max_pool3d(x, 2), layout="x", window=(2, 2, 2), stride=(2, 2, 2)),
    case("lp_pool", [abs(IMAGES)], lambda x: F.lp_pool2d(x, 3.0, 2), layout="x", window=(2, 2), stride=(2, 2), p=3.0),
    case("global_avg_pool", [IMAGES], lambda x: F.adaptive_avg_pool2d(x, 1), layout="x"),
    case("adaptive_avg_pool", [IMAGES], lambda x: F.adaptive_avg_pool2d(x, 5), layout="x", size=(5, 5)),
    case("adaptive_max_pool", [IMAGES], lambda x: F.adaptive_max_pool2d(x, 5), layout="x", size=(5, 5)),
]

SMALL = floats(8, 16, 16, 16)
GRID = RNG.uniform(-1, 1, (8, 16, 16, 2)).astype("float32")


def resized(mode: str) -> Function:
    aligned = None if mode == "nearest" else False
    return lambda x: F.interpolate(x, (32, 32), mode=mode, align_corners=aligned)


RESIZE = [
    case(
        "resize", [SMALL], resized("nearest"), layout="x", size=(32, 32), coordinates="asymmetric", nearest_mode="floor"
    ),
    case("resize", [SMALL], resized("bilinear"), layout="x", size=(32, 32), mode="linear"),
    case("resize", [SMALL], resized("bicubic"), layout="x", size=(32, 32), mode="cubic"),
    case("grid_sample", [SMALL, GRID], lambda x, g: F.grid_sample(x, g, align_corners=False), layout="x."),
    case("pixel_shuffle", [SMALL], lambda x: F.pixel_shuffle(x, 2), layout="x", factor=2),
    case("pixel_unshuffle", [SMALL], lambda x: F.pixel_unshuffle(x, 2), layout="x", factor=2),
]

HEADS = floats(8, 4, 64, 32)
ATTENTION = [
    case("scaled_dot_product_attention", [HEADS, HEADS[::-1].copy(), HEADS * 2], F.scaled_dot_product_attention),
    case(
        "scaled_dot_product_attention",
        [HEADS, HEADS[::-1].copy(), HEADS * 2],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        causal=True,
    ),
]


def network(kind: str, gates: int) -> Case:
    module = getattr(torch.nn, kind.upper())(32, 64, batch_first=True)
    weights = [floats(32, gates * 64) * 0.1, floats(64, gates * 64) * 0.1, floats(gates * 64), floats(gates * 64)]
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]

    def theirs(x: Any, *ws: Any) -> Any:
        turned = {n: w.t() if w.ndim == 2 else w for n, w in zip(names, ws, strict=True)}
        return torch.func.functional_call(module, turned, (x,))[0]

    return Case(kind, [floats(32, 20, 32), *weights], lambda *xs: getattr(ops, kind)(*xs)[0], theirs, "", range(5))


RECURRENT = [network("rnn", 1), network("gru", 3), network("lstm", 4)]

TABLE, TOKENS = floats(5000, 64), ints(5000, 32, 64)
PLACES = RNG.permuted(np.tile(np.arange(1024), (128, 1)), axis=1)[:, :256].copy()

INDEX = [
    case("gather", [TABLE, TOKENS], lambda x, i: F.embedding(i, x)),
    case("gather", [X, ints(1024, 512)], lambda x, i: torch.index_select(x, 1, i), axis=1),
    case("scatter_add", [TABLE, TOKENS.reshape(-1), floats(2048, 64)], lambda x, i, u: x.index_add(0, i, u)),
    fixed("one_hot", [ints(100, 4096)], lambda i: F.one_hot(i, 100).float(), depth=100),
    case("take_along_axis", [X, PLACES], lambda x, i: torch.gather(x, 1, i), axis=1),
    case("put_along_axis", [X, PLACES, floats(128, 256)], lambda x, i, u: x.scatter(1, i, u), axis=1),
    case(
        "put_along_axis", [X, PLACES, floats(128, 256)], lambda x, i, u: x.scatter_add(1, i, u), axis=1, reduction="add"
    ),
    case(
        "put_along_axis",
        [X, PLACES, floats(128, 256)],
        lambda x, i, u: x.scatter_reduce(1, i, u, "amax"),
        axis=1,
        reduction="max",
        differentiated=(0, 2),
    ),
    case("gather_nd", [floats(64, 64, 32), ints(64, 4096, 2)], lambda x, i: x[i[:, 0], i[:, 1]]),
]

APART = RNG.permutation(X.size).reshape(X.shape).astype("float32")

ORDER = [
    case("sort", [APART], lambda x: torch.sort(x)[0]),
    case("sort", [APART], lambda x: torch.sort(x, 0)[0], axis=0),
    fixed("argsort", [APART], torch.argsort),
    Case("topk", [X], lambda x: ops.topk(x, k=10)[0], lambda x: torch.topk(x, 10)[0], "", (0,)),
    fixed("bincount", [ints(100, 65536)], lambda x: torch.bincount(x, minlength=100), depth=100),
    fixed("count_unique", [N], lambda x: torch.tensor(torch.unique(x).numel())),
]

SCAN = [
    case("cumsum", [X], lambda x: torch.cumsum(x, -1)),
    case("cumsum", [X], lambda x: torch.cumsum(x, 0), axis=0),
    case("cumprod", [P[:, :64].copy()], lambda x: torch.cumprod(x, -1)),
]

SQUARE = floats(16, 128, 128)
SHAPE = [
    case("reshape", [X], lambda x: x.reshape(1024, 128), shape=(1024, 128)),
    case("transpose", [floats(32, 64, 8, 32)], lambda x: x.permute(0, 2, 1, 3).contiguous(), axis=(0, 2, 1, 3)),
    case("transpose", [X], lambda x: x.t().contiguous(), axis=(1, 0)),
    case("slice", [V], lambda x: x[:, 8:100:2].contiguous(), lambda x: x[:, 8:100:2]),
    case("pad", [V], lambda x: F.pad(x, (1, 2, 3, 4)), before=(0, 3, 1), after=(0, 4, 2)),
    case("split", [X], lambda x: [part.contiguous() for part in x.split((256, 768), 1)], sizes=(256, 768), axis=1),
    case("concat", [X, Y], lambda a, b: torch.cat([a, b], 1), axis=1),
    case("stack", [X, Y], lambda a, b: torch.stack([a, b], 1), axis=1),
    case("flip", [X], lambda x: x.flip(1), axis=(1,)),
    case("roll", [X], lambda x: x.roll(3, 1), shifts=(3,), axis=(1,)),
    case("tile", [X], lambda x: x.tile(2, 1), counts=(2, 1)),
    case("repeat", [X], lambda x: x.repeat_interleave(2, 0), count=2, axis=0),
    case(
        "pad_reflect",
        [IMAGES],
        lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
        layout="x",
        before=(0, 1, 1, 0),
        after=(0, 1, 1, 0),
    ),
    case(
        "pad_edge",
        [IMAGES],
        lambda x: F.pad(x, (1, 1, 1, 1), "replicate"),
        layout="x",
        before=(0, 1, 1, 0),
        after=(0, 1, 1, 0),
    ),
    *(case(name, [SQUARE], getattr(torch, name)) for name in ("tril", "triu")),
    case("diagonal", [SQUARE], lambda x: x.diagonal(0, -2, -1).contiguous()),
    fixed("cast", [X], lambda x: x.double(), dtype="float64"),
    fixed("cast", [N], lambda x: x.float(), dtype="float32"),
]

UNFOLD = [
    Case(
        "unfold",
        [SMALL],
        lambda x: ops.unfold(x, window=(3, 3)),
        lambda x: F.unfold(x, 3).view(8, 144, 14, 14),
        "x",
        (0,),
        False,
    ),
]

COUNTERS = [np.array(3), np.array(5)]
WIDE = (128, 1024)

RANDOM = [
    fixed("uniform", COUNTERS, lambda *_: torch.rand(WIDE), shape=WIDE, compared=False),
    fixed("normal", COUNTERS, lambda *_: torch.randn(WIDE), shape=WIDE, compared=False),
    fixed(
        "truncated_normal",
        COUNTERS,
        lambda *_: torch.nn.init.trunc_normal_(torch.empty(WIDE)),
        shape=WIDE,
        compared=False,
    ),
    fixed(
        "bernoulli",
        COUNTERS,
        lambda *_: torch.empty(WIDE, dtype=torch.bool).bernoulli_(0.5),
        shape=WIDE,
        compared=False,
    ),
    fixed("randint", COUNTERS, lambda *_: torch.randint(100, WIDE), shape=WIDE, high=100, compared=False),
    fixed("permutation", COUNTERS, lambda *_: torch.randperm(65536), count=65536, compared=False),
    fixed(
        "categorical",
        [floats(1024, 64), *COUNTERS],
        lambda x, *_: torch.distributions.Categorical(logits=x, validate_args=False).sample(),
        compared=False,
    ),
    fixed(
        "orthogonal",
        COUNTERS,
        lambda *_: torch.nn.init.orthogonal_(torch.empty(256, 128)),
        shape=(256, 128),
        compared=False,
    ),
    case("dropout", [X, *COUNTERS], lambda x, *_: F.dropout(x, 0.5), ratio=0.5, compared=False),
    case("alpha_dropout", [X, *COUNTERS], lambda x, *_: F.alpha_dropout(x, 0.5, True), ratio=0.5, compared=False),
    case(
        "feature_dropout",
        [IMAGES, *COUNTERS],
        lambda x, *_: F.dropout2d(x, 0.5),
        lambda x, *c: x * ops.dropout(ops.full.on(x.block)(shape=(32, 1, 1, 16), value=1.0), *c, ratio=0.5),
        layout="x",
        compared=False,
    ),
]

WEIGHT, RATE, STEP = floats(784, 256), np.array(0.1, "float32"), np.array(9)
SQUARES = abs(floats(784, 256))


def update(name: str, slots: str, optimizer: str, *, counts: bool = True, **more: Any) -> Case:
    """An update of one parameter with slots of means (m) and squares (v), beside a step of PyTorch's optimizer."""
    parameter = torch.nn.Parameter(torch.from_numpy(WEIGHT.copy()))
    parameter.grad = torch.from_numpy(WEIGHT.copy())
    theirs = getattr(torch.optim, optimizer)([parameter], lr=0.001, **more)
    own = [{"m": WEIGHT, "v": SQUARES}[slot] for slot in slots]
    product = [np.array(0.5)] if name == "nadam" else []
    operands = [WEIGHT, WEIGHT, *own, *product, RATE, *([STEP] if counts else [])]
    return fixed(name, operands, lambda *_: theirs.step(), compared=False)


UPDATE = [
    update("sgd", "", "SGD", counts=False),
    update("momentum", "m", "SGD", counts=False, momentum=0.9),
    update("adam", "mv", "Adam"),
    update("adamw", "mv", "AdamW"),
    update("amsgrad", "mvv", "Adam", amsgrad=True),
    update("adamax", "mv", "Adamax"),
    update("nadam", "mv", "NAdam"),
    update("radam", "mv", "RAdam"),
    update("adagrad", "v", "Adagrad"),
    update("adadelta", "vv", "Adadelta", counts=False),
]

FAMILIES: dict[str, list[Case]] = {
    "pointwise": POINTWISE,
    "elementary": ELEMENTARY,
    "rounding": ROUNDING,
    "logic": LOGIC,
    "special": SPECIAL,
    "activation": ACTIVATION,
    "linalg": LINALG,
    "decomposition": DECOMPOSITION,
    "reduce": REDUCE,
    "statistics": STATISTICS,
    "norm": NORM,
    "loss": LOSS,
    "conv": CONV,
    "pool": POOL,
    "resize": RESIZE,
    "attention": ATTENTION,
    "recurrent": RECURRENT,
    "index": INDEX,
    "order": ORDER,
    "scan": SCAN,
    "shape": SHAPE,
    "unfold": UNFOLD,
    "random": RANDOM,
    "update": UPDATE,
}
