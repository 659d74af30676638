"""Operators of ATen one at a time: values and gradients of tiny modules are PyTorch's."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

import prograd
from frontends.agreement import agreement

Function = Callable[..., object]


class Calls(torch.nn.Module):
    """The sum of the results of functions of a weighted input, each multiplied by a number of its own."""

    def __init__(self, functions: dict[str, Function], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.functions = functions
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, shape[-1], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: function(x * self.scale) for name, function in self.functions.items()}


def check(functions: dict[str, Function], *shape: int, batch: str | None = "batch") -> None:
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = agreement(Calls(functions, (3, *shape)), {"x": x}, batch=batch)
    assert max(found.outputs, found.loss, found.gradients) < 1e-9, found


POINTWISE: dict[str, Function] = {
    "add": lambda x: x + 2 * x + torch.add(x, x, alpha=3),
    "sub": lambda x: 1 - x - torch.sub(x, x, alpha=2),
    "mul": lambda x: x * x * 0.5,
    "div": lambda x: x / 3 + 1 / (x.abs() + 1) + torch.div(x, 2, rounding_mode="floor"),
    "pow": lambda x: x**2 + (x.abs() + 1) ** 0.5 + x**3 + 2**x,
    "where": lambda x: torch.where(x > 0, x, 0.1 * x) + x.masked_fill(x < 0.5, 2.0),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + x.clip(max=0.2),
    "maximum": lambda x: torch.maximum(x, -x * 0.5) + torch.minimum(x, x * 2),
    "logic": lambda x: ((x > 0) & (x < 1) | ~(x <= 2)).double() + torch.logical_xor(x > 0, x > 1).double() * x,
    "integers": lambda x: (x * 5).long().remainder(3).double() + (x * 5).int().fmod(3) * x,
    "rounding": lambda x: x.floor() + x.ceil() + x.round() + x.trunc() + x.sign() * x,
    "functions": lambda x: (
        x.exp() + (x.abs() + 1).log() + x.sin() + x.cos() + x.tanh() + x.erf() + (x.abs() + 1).rsqrt()
    ),
    "more": lambda x: torch.expm1(x) + torch.log1p(x.abs()) + x.square() + x.neg() + torch.atan(x) + torch.sigmoid(x),
    "activations": lambda x: (
        F.relu(x) + F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.elu(x, 0.5) + F.mish(x)
    ),
    "hard": lambda x: F.hardswish(x) + F.hardsigmoid(x) + F.hardtanh(x, -0.3, 0.4) + F.relu6(x) + F.leaky_relu(x, 0.2),
    "softplus": lambda x: F.softplus(x, beta=2.0) + F.softplus(x, beta=1.5, threshold=-1.0) + F.softplus(x, 3, 0.5),
    "smooth": lambda x: F.softplus(x) + F.logsigmoid(x) + F.selu(x) + F.celu(x, 0.7) + F.softsign(x) + F.tanhshrink(x),
    "gates": lambda x: F.glu(x, -1) + F.glu(x.transpose(1, 2).contiguous(), 1).transpose(1, 2),
    "casts": lambda x: x.float().double() + x.to(torch.float32).type_as(x),
    "fused": lambda x: torch.addcmul(x, x, x, value=0.5) + torch.lerp(x, x * 2, 0.3) + torch.addcdiv(x, x, x.abs() + 1),
    "prelu": lambda x: F.prelu(x, torch.full((4,), 0.3, dtype=torch.float64)),
}


def written(x: torch.Tensor, rows: object, value: object) -> torch.Tensor:
    """Return a copy of x with other rows."""
    made = x.clone()
    made[rows] = value  # type: ignore
    return made


RISING = torch.arange(3.0, dtype=torch.float64)

SHAPES: dict[str, Function] = {
    "views": lambda x: (
        x.view(-1, 2, 2, 6).permute(0, 2, 1, 3).reshape(x.shape[0], 4, 6) + x.flatten(1).unflatten(1, (4, 6))
    ),
    "transposes": lambda x: x.transpose(1, 2).mT + x.movedim(1, 2).swapaxes(1, 2),
    "squeezes": lambda x: x.unsqueeze(1).squeeze(1) + x[:, None].squeeze(),
    "slices": lambda x: x[:, 1:3] + x[:, ::2] + x[:, -2:] + x.narrow(1, 0, 2) + x[:, 3, None] + x.select(1, 0)[:, None],
    "pieces": lambda x: (
        sum(x.chunk(2, 1)) + sum(x.split([2, 2], 1)) + sum(x.split(2, 1)) + torch.stack(x.unbind(1)[:2], 1)
    ),
    "cat": lambda x: torch.cat([x, x.transpose(1, 2).reshape(x.shape)], 1) + torch.stack([x, 2 * x], 2).flatten(1, 2),
    "pads": lambda x: F.pad(x, (1, 2)) + F.pad(x, (1, 2), value=1.5) + F.pad(x, (2, 1), mode="replicate"),
    "cuts": lambda x: F.pad(x, (-1, -2, 1, 0)),
    "reflections": lambda x: F.pad(x, (2, 1), mode="reflect") + F.pad(x, (2, 1), mode="circular"),
    "roll": lambda x: x.roll(1, 1) + x.roll((1, -2), (1, 2)) + x.flip(2),
    "roll and flip of rows": lambda x: (
        x.roll((1, -2), (0, 1)) * x + x.roll(-4, 0) * x + x.flip(0) * x + x.flip((1, 0)) * x.flip((0, 1, 2))
    ),
    "repeats": lambda x: x.repeat(1, 2, 1) + x.repeat_interleave(2, 1) + x.expand(2, *x.shape)[1].tile(1, 2, 1),
    "triangles": lambda x: x.tril() + x.triu(1),
    "unfold": lambda x: x.unfold(2, 3, 2).sum(-1),
    "merged rows": lambda x: torch.cat([x.flatten(0, 1), 2 * x.flatten(0, 1)], 1).unflatten(0, (-1, 4)),
    "codes of merged rows": lambda x: (
        F.one_hot((x * 9).flatten(0, 1).long().clamp(0, 2), 3).double().unflatten(0, (-1, 4)) * x[..., None]
    ),
    "scatter into merged rows": lambda x: (
        (y := x.flatten(0, 1)).scatter(1, y.argsort(1)[:, :2], 0.5).unflatten(0, (-1, 4)) + x
    ),
    "add into merged rows": lambda x: (
        (y := x.flatten(0, 1)).scatter_add(1, y.argsort(1)[:, :2], y[:, 2:4]).unflatten(0, (-1, 4))
    ),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
    "writes into rows of a symbol": lambda x: sum(
        written(x, rows, value)
        for rows, value in (
            (0, x[1]),
            (-1, x[0] * 2),
            (1, 0.5),
            (slice(0, 2), x[1]),
            (slice(-2, None), x[:2].sin()),
            (slice(1, 2), x[:1]),
        )
    ),
    "scatters into rows of a symbol": lambda x: (
        x.select_scatter(x[0] * 2, 0, 1) + x.slice_scatter(x[:1] * 3, 0, 1, 2) + x.select_scatter(x.mean(0), 0, -1)
    ),
    "places in memory": lambda x: (
        (y := x.contiguous()).as_strided((x.shape[0], 3, 2), (24, 6, 1), 3)
        + y.as_strided((x.shape[0], 3, 4, 2), (24, 6, 2, 1)).sum(2)
    ),
    "writes to places in memory": lambda x: (
        y := x.contiguous().clone(),
        y.as_strided((x.shape[0], 3, 2), (24, 6, 1), 3).copy_(x[:, :3, :2].sin()),
    )[0],
    "fill_diagonal_": lambda x: x + x.mean(0).fill_diagonal_(0.5) * x.mean(0),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "writes to diagonals": lambda x: sum(
        (y := x * 2, y.diagonal(offset, *axes).mul_(3), y)[-1]
        + x.diagonal_scatter(x.diagonal(offset, *axes).sin(), offset, *axes)
        for axes in ((1, 2), (-1, -2))
        for offset in (-2, 0, 1)
    ),
    "meshgrid": lambda x: sum(
        g * x.sum() for g in torch.meshgrid(torch.arange(2.0).double(), torch.arange(3.0).double(), indexing="ij")
    ),
    "shuffle": lambda x: (
        F.pixel_shuffle(x.view(-1, 4, 2, 3), 2) + F.channel_shuffle(x.view(-1, 4, 2, 3), 2).reshape(-1, 1, 4, 6)
    ),
    "unshuffle": lambda x: F.pixel_unshuffle(x.view(-1, 1, 4, 6), 2),
}

REDUCTIONS: dict[str, Function] = {
    "sums": lambda x: x.sum(1) + x.sum((1, 2), keepdim=True).squeeze(2) + x.sum(-2),
    "means": lambda x: x.mean() + x.mean(1) + x.mean((1, 2))[:, None],
    "extremes": lambda x: x.amax(1) + x.amin(1) + x.max(1)[0] + x.min(1).values + x.max(),
    "positions": lambda x: x.argmax(1).double() + x.argmin(1) + x.max(1)[1],
    "spreads": lambda x: x.var(1) + x.std(1, unbiased=False) + x.var(1, correction=0) + torch.var_mean(x, 1)[1],
    "norms": lambda x: (
        x.norm(dim=1) + torch.linalg.vector_norm(x, dim=1) + x.logsumexp(1) + F.normalize(x, dim=1).sum(1)
    ),
    "distances of tensors": lambda x: (
        x.mean(1) * (torch.dist(x, x[:, :1].cos()) + torch.dist(x, x.sin(), p=1) + torch.dist(x, x))
    ),
    "numbers of sizes": lambda x: (
        x.sum(0) / (x.shape[0] - 1) + x * (2 * x.shape[0] + 1) + torch.ones(4, 6) / (x.shape[0] + 2)
    ),
    "covariance": lambda x: (y := x.flatten(1)).cov() + torch.cov(y, correction=0) + torch.cov(x.mean(1).T).sum(),
    "correlation": lambda x: torch.corrcoef(x.flatten(1)) + torch.cov(x[:, 0, 0]),
    "truths": lambda x: (x > 1).any(1).double() + (x > -2).all(1).double() + (x > 0).sum(1),
    "scans": lambda x: x.cumsum(1) + x.cumprod(2),
    "scans of integers": lambda x: (
        x * (x.detach() * 5).cumsum(1, dtype=torch.int32) + x.detach().cumprod(2, dtype=torch.int64)
    ),
    "integers": lambda x: (
        x.sum(1) * ((x.detach() * 3).prod(1, dtype=torch.int64) + (x.detach() * 5).sum(1, dtype=torch.int64))
    ),
    "orders": lambda x: x.topk(2, 1)[0] + x.sort(1)[0][:, :2] + x.sort(2, descending=True)[0][:, :2],
    "softmax": lambda x: x.softmax(1) + x.log_softmax(2) + F.softmin(x, 1),
    "product": lambda x: x.prod(1),
}

LOOKUPS: dict[str, Function] = {
    "rows": lambda x: x[:, torch.tensor([0, 2, -1])] + x.index_select(1, torch.tensor([1, 1, 0])),
    "pairs": lambda x: x[:, torch.tensor([0, 1]), torch.tensor([2, -1])],
    "gather": lambda x: x.gather(1, torch.zeros(1, 2, 6, dtype=torch.int64).expand(x.shape[0], 2, 6)),
    "gather_of_merged_axes": lambda x: (
        x.reshape(-1, 6).gather(1, torch.tensor([[0, 5]]).expand(x.shape[0] * 4, 2)).reshape(-1, 4, 2)
    ),
    "constant_of_merged_axes": lambda x: (
        x.reshape(-1, 6) + torch.arange(4.0).double().repeat(x.shape[0])[:, None]
    ).reshape(-1, 4, 6),
    "losses_of_merged_axes": lambda x: (
        x * F.cross_entropy(x.reshape(-1, 6), x.reshape(-1, 6).argmax(1), ignore_index=2)
        + F.nll_loss(x.log_softmax(2).reshape(-1, 6), x.reshape(-1, 6).argmin(1))
    ),
    "losses_of_rows": lambda x: F.cross_entropy(
        x.reshape(-1, 6), x.reshape(-1, 6).argmax(1), reduction="none", ignore_index=2
    ).reshape(-1, 4),
    "losses_of_images": lambda x: F.cross_entropy(x, x.argmax(1), reduction="none", label_smoothing=0.1),
    "distances of merged axes": lambda x: sum(
        torch.cdist(x.reshape(-1, 6), x[0] * 1.1, p=p).reshape(-1, 4, 4) for p in (1.0, 2.0)
    ),
    "nearest codes of merged axes": lambda x: (
        (at := torch.cdist(x.reshape(-1, 6), x[0] * 1.1).argmin(1)),
        (x[0][at] + F.embedding(at, x[0]) + x[0].index_select(0, at)).reshape(-1, 4, 6) * x,
    )[1],
    "one_hot": lambda x: F.one_hot(x.argmax(1), 4).double() * x.sum(),
    "embedding": lambda x: (
        F.embedding(x.argmax(1), x[0]) if False else F.embedding(x.argmax(1), torch.ones(4, 2).double()) * x.sum()
    ),
    "scatter": lambda x: torch.zeros_like(x).scatter_add(1, x.argmax(1, keepdim=True), x[:, :1]),
    "constants by data": lambda x: (
        torch.tensor([2.0, 0.5, 1.5, 3.0]).double()[x.argmax(1)] * x.sum(1) + torch.tensor([1, 3, 0, 2])[x.argmin(1)]
    ),
    "broadcast takes": lambda x: (
        torch.take_along_dim(x, torch.tensor([[[0], [3], [3]]]), 1)
        + torch.take_along_dim(x[:, :1], x.argsort(1)[:, :3] * 0, 1)
        + x.take_along_dim(x.argmax(1, keepdim=True), 1)
    ),
    "takes of all elements": lambda x: torch.take_along_dim(x, x.argsort(0)) + x.sum(),
    "short indices": lambda x: (
        x.scatter_add(1, x.argsort(1)[:2, :2, :4], x[1:, 1:3, 2:])
        + x.scatter_add(1, x.argsort(1)[:2, :2, :4], x.detach()[:, :3])
        + x.scatter(2, x.argsort(2)[:, :3, :2], 2 * x[:, 1:, 3:5])
        + x.scatter(1, x.argsort(1)[:1, :4, 1:3], 0.5)
    ),
    "scatter reductions": lambda x: sum(
        x.scatter_reduce(1, (x.argsort(1) // 2)[:2, :3, :5], 3 * x.sin()[1:, :3, 1:], how, include_self=include)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ),
    "distances": lambda x: F.cosine_similarity(x, x.flip(1), dim=2) + F.pairwise_distance(x, 2 * x),
}

FIXED = {"takes of all elements", "short indices", "scatter reductions"}
"""Functions for which PyTorch fixes the number of rows."""

IMAGES: dict[str, Function] = {
    "pools": lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 3, 2, 1) + F.max_pool2d(x, 3, 2, 1),
    "ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True) + F.avg_pool2d(x, 2, count_include_pad=False),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 2) + F.adaptive_max_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 1),
    "positions of maxima": lambda x: sum(
        (pair[0] * pair[1].double().cos()).sum((2, 3))
        for pair in (
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.max_pool2d(x, (2, 3), (1, 2), (1, 0), dilation=(2, 1), return_indices=True),
            F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True),
            F.max_pool2d(x.round(), 2, return_indices=True),
            F.adaptive_max_pool2d(x, (4, 3), return_indices=True),
        )
    ),
    "positions along one axis and three": lambda x: (
        (
            F.max_pool1d(x[:, 0], 2, return_indices=True)[1].sum((1, 2))[:, None, None, None]
            + F.max_pool3d(x[:, None], 2, return_indices=True)[1].sum((1, 2, 3, 4))[:, None, None, None]
        )
        * x
    ),
    "unpooled": lambda x: (
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
        + F.max_unpool1d(*F.max_pool1d(x[:, 0], 2, return_indices=True), 2)[:, None]
    ),
    "nearest": lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, size=(12, 12), mode="nearest-exact"),
    "linear": lambda x: (
        F.interpolate(x, scale_factor=2, mode="bilinear")
        + F.interpolate(x, size=12, mode="bilinear", align_corners=True)
    ),
    "cubic": lambda x: F.interpolate(x, size=(9, 5), mode="bicubic"),
    "factors": lambda x: (
        sum(F.interpolate(x, scale_factor=0.7, mode=mode) for mode in ("nearest", "nearest-exact", "bilinear"))
        + F.interpolate(x, scale_factor=(0.8, 0.75), mode="bicubic")
        + F.interpolate(x, scale_factor=(0.8, 0.75), mode="bilinear", recompute_scale_factor=True)
    ),
    "antialias": lambda x: (
        F.interpolate(x, size=(3, 9), mode="bilinear", antialias=True)
        + F.interpolate(x, scale_factor=(0.5, 1.6), mode="bicubic", antialias=True)
    ),
    "samples": lambda x: (
        F.grid_sample(x, (grid := torch.tanh(x[:, :2].permute(0, 2, 3, 1))), align_corners=False)
        + F.grid_sample(x, 1.4 * grid, mode="bicubic", padding_mode="reflection", align_corners=True)
    ),
    "numbers of rows": lambda x: x / x.shape[0] + x.shape[0] * x,
    "groups": lambda x: F.group_norm(x, 2) + F.instance_norm(x) + F.layer_norm(x, (6, 6)),
    "windows": lambda x: F.unfold(x, 3, padding=1, stride=2),
    "channels": lambda x: x * x.mean((2, 3), keepdim=True) + x.permute(0, 2, 3, 1).softmax(-1).permute(0, 3, 1, 2),
    "flat": lambda x: x.flatten(2).transpose(1, 2).reshape(-1, 6, 6, 4).permute(0, 3, 1, 2) + x,
}


@pytest.mark.parametrize(
    ("functions", "shape"),
    [(POINTWISE, (4, 6)), (SHAPES, (4, 6)), (REDUCTIONS, (4, 6)), (LOOKUPS, (4, 6)), (IMAGES, (4, 6, 6))],
    ids=["pointwise", "shapes", "reductions", "lookups", "images"],
)
def test_functions_agree(functions: dict[str, Function], shape: tuple[int, ...]):
    fixed = {name for name in functions if name in FIXED}
    check({name: function for name, function in functions.items() if name not in fixed}, *shape)
    if fixed:
        check({name: functions[name] for name in fixed}, *shape, batch=None)


SPECIAL: dict[str, Function] = {
    "sinc": torch.sinc,
    "entropy": torch.special.entr,
    "x log y": lambda x: torch.xlogy(x, 2.0) + torch.xlogy(x - 1, x.detach()) + torch.xlogy(0.5, x + 3),
    "x log1p y": lambda x: torch.special.xlog1py(x, 2.0) + torch.special.xlog1py(x, x.detach() - 1),
    "logit": lambda x: torch.logit(x.clamp(0, 1)),
    "root": lambda x: x.abs().sqrt(),
    "powers": lambda x: x**2 + x**3 + x**0 + x.abs() ** 1.5,
    "ties": lambda x: torch.maximum(x, x.new_ones(())) + torch.minimum(x, x.new_zeros(())) + x.clamp(0, 1),
    "kinks": lambda x: x.relu() + x.abs() + F.hardtanh(x) + F.leaky_relu(x) + F.relu6(x) + F.hardshrink(x),
    "extremes": lambda x: x.max() * x + x.amax(0, keepdim=True) + x.min(0).values + x.sort(0).values,
    "norms": lambda x: x * x.norm() + x[:1].norm() + x[:1].norm(1) + F.normalize(x[:1], dim=0) + x.norm(float("inf")),
    "products": lambda x: x.prod() + x.cumprod(0),
    "angles": lambda x: torch.atan2(x, x + 1) + torch.logaddexp(x, x) + torch.nan_to_num(x),
    "losses": lambda x: F.smooth_l1_loss(x, x.detach(), reduction="none") + F.huber_loss(x, x.new_ones(x.shape)),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", SPECIAL)
def test_gradients_at_special_points_are_those_of_pytorch(name: str, engine: str):
    class Special(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = torch.nn.Parameter(torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 0.0, 1.0, -3.0, 6.0]))

        def forward(self, one: torch.Tensor) -> torch.Tensor:
            return SPECIAL[name](self.x) * one  # type: ignore

    module, one = Special(), torch.ones(())
    program = prograd.from_torch(module, {"one": one})
    program.fetch("y", program["output"])
    [(_, gradient)] = program.minimize(prograd.ops.sum(program["output"]), prograd.sgd(0.0))
    program.fetch("gradient", gradient)
    found = prograd.Run(program.compile(), engine=engine).step({"one": one.numpy()})
    wanted = module(one)
    wanted.sum().backward()
    np.testing.assert_allclose(found["y"], wanted.detach(), rtol=1e-5, atol=1e-6)
    inside = torch.isfinite(wanted).numpy() | (name == "logit")  # elsewhere a value has no slope
    np.testing.assert_allclose(found["gradient"][inside], module.x.grad.numpy()[inside], rtol=1e-4, atol=1e-5)


LAYERS = {
    "linear": (lambda: torch.nn.Linear(6, 3), (4, 6)),
    "conv1d": (lambda: torch.nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (4, 9)),
    "conv2d": (lambda: torch.nn.Conv2d(4, 6, 3, padding="same", dilation=2), (4, 6, 6)),
    "conv3d": (lambda: torch.nn.Conv3d(2, 3, 2, stride=2, bias=False), (2, 4, 4, 4)),
    "transposed": (
        lambda: torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (4, 5, 5),
    ),
    "batch_norm": (lambda: torch.nn.BatchNorm2d(4, momentum=0.3), (4, 5, 5)),
    "batch_norm1d": (lambda: torch.nn.BatchNorm1d(4), (4,)),
    "batch_norm_of_merged_axes": (
        lambda: torch.nn.Sequential(torch.nn.Flatten(0, 1), torch.nn.BatchNorm1d(6), torch.nn.Unflatten(0, (-1, 4))),
        (4, 6),
    ),
    "no_statistics": (lambda: torch.nn.BatchNorm2d(4, track_running_stats=False, affine=False), (4, 5, 5)),
    "rms_norm": (lambda: torch.nn.RMSNorm(6), (4, 6)),
    "weight_norm_of_vectors": (
        lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.LayerNorm(6), "weight"),
        (4, 6),
    ),
    "weight_norm": (lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 3)), (4, 6)),
    "lstm": (lambda: torch.nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True), (4, 6)),
    "gru": (lambda: torch.nn.GRU(6, 5, bias=False, batch_first=True), (4, 6)),
    "rnn": (lambda: torch.nn.RNN(6, 5, batch_first=True), (4, 6)),
    "attention": (lambda: torch.nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True), (4, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_agrees(name: str):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    module = make().double()
    if name == "no_statistics":  # it has no parameter
        module = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 1).double(), module)
    x = torch.randn(3, *shape, dtype=torch.float64)
    found = agreement(module, {"input": x})
    assert max(found.loss, found.gradients, found.statistics) < 1e-9, found
    assert name in ("no_statistics",) or found.outputs < 1e-9, found


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda x: x.contiguous().as_strided((2, x.shape[0]), (1, 24)),
            "as_strided reads elements across the rows of an axis with batch elements, which is no view; use slices, "
            "unfold or an index",
        ),
        (
            lambda x: x.mT.as_strided((x.shape[0], 2), (24, 1)),
            "as_strided of a tensor that is not contiguous; call contiguous() before",
        ),
    ],
)
def test_places_in_memory_that_are_no_view_are_refused(function: Function, reason: str):
    with pytest.raises(prograd.CompileError) as caught:
        check({"strided": function}, 4, 6)
    line = Calls.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "from_torch: 1 operator cannot be imported: aten.as_strided.default, used 1 time, first in the module at "
        f"test_operators.py:{line}: {reason}"
    )


def test_normal_numbers_have_the_mean_and_the_deviation_of_the_call():
    class Drawn(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x + torch.normal(2.0, 0.5, (x.shape[0], x.shape[1]))

    program = prograd.from_torch(Drawn(), inputs={"x": torch.zeros(64, 512)}, batch="batch")
    [drawn] = prograd.Run(program.compile(batch=64)).predict(np.zeros((64, 512), "float32")).values()
    assert abs(drawn.mean() - 2.0) < 0.02
    assert abs(drawn.std() - 0.5) < 0.02


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_elements_are_those_of_pytorch_where_float32_rounds_their_positions(mode: str, axes: int):
    """In whole numbers, 6 * 1 / 74 of element 37 is 3, and 6.5 / 1.3 is 5."""
    given = [{"size": (74,) * axes}] + [{"scale_factor": factor} for factor in (1.3, 2.6, 0.7, 1.7)]

    class Resized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [F.interpolate(x, mode=mode, **each) for each in given]

    x = torch.arange(float(2 * 3 * 6**axes)).reshape(2, 3, *(6,) * axes)
    found = prograd.Run(prograd.from_torch(Resized(), inputs={"x": x}, batch="batch").compile(batch=2)).predict(
        x.numpy()
    )
    for made, wanted in zip(found.values(), Resized()(x), strict=True):
        np.testing.assert_array_equal(made, wanted.numpy())
