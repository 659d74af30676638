"""Modules as users of PyTorch write them, with example inputs of three rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

Inputs = dict[str, Tensor]


class Classifier(nn.Module):
    """A recurrent classifier of codes, which reads the last state of both directions."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=0)
        self.layers = kind(8, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 4)

    def forward(self, codes: Tensor) -> Tensor:
        y, state = self.layers(self.table(codes))
        last = state[0] if isinstance(state, tuple) else state
        return self.head(torch.cat([last[-2], last[-1]], dim=-1) + y.mean(1))


class UNet(nn.Module):
    """Two levels down and up, with concatenations of skipped images."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._block(3, 8), self._block(8, 12)])
        self.inside = self._block(12, 16)
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 12, 2, stride=2), nn.ConvTranspose2d(12, 8, 2, stride=2)])
        self.merge = nn.ModuleList([self._block(24, 12), self._block(16, 8)])
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True))

    def forward(self, image: Tensor) -> Tensor:
        kept, x = [], image
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.inside(x)
        for up, merge, skipped in zip(self.up, self.merge, reversed(kept), strict=True):
            x = merge(torch.cat([up(x), skipped], dim=1))
        return self.out(x)


class Autoencoder(nn.Module):
    """Codes of images and the images again, from convolutions without padding."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(36, 5))
        self.decoder = nn.Sequential(
            nn.Linear(5, 36), nn.ELU(), nn.Unflatten(1, (4, 3, 3)), nn.ConvTranspose2d(4, 1, 4, 2)
        )

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        code = self.encoder(image)
        return {"code": code, "image": torch.sigmoid(self.decoder(code))}


class Residual(nn.Module):
    """A residual network with squeeze and excitation, from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleDict(
            {"a": nn.BatchNorm2d(8), "b": nn.GroupNorm(2, 8), "c": nn.InstanceNorm2d(8, affine=True)}
        )
        self.convolutions = nn.ParameterList([nn.Parameter(0.2 * torch.randn(8, 8, 3, 3)) for _ in range(2)])
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 2, 1), nn.ReLU(), nn.Conv2d(2, 8, 1), nn.Sigmoid()
        )
        self.head = nn.Linear(8, 4)

    def forward(self, image: Tensor) -> Tensor:
        x = self.norms["a"](self.stem(image))
        for name, w in zip("bc", self.convolutions, strict=True):
            y = self.norms[name](F.conv2d(F.relu(x), w, padding=1))
            y *= self.gate(y)
            x = x + y
        return self.head(x.mean(dim=[2, 3]))


class Encoder(nn.Module):
    """Layers of a transformer with a mask of padding that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.places = nn.Parameter(torch.randn(1, 6, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, codes: Tensor, padding: Tensor) -> Tensor:
        y = self.layers(self.table(codes) + self.places, src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1).to(y.dtype)
        return self.head((y * kept).sum(1) / kept.sum(1))


class Decoder(nn.Module):
    """A decoder that attends to a memory, with a mask made in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)

    def forward(self, target: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=target.dtype)
        return self.layer(target, memory, tgt_mask=mask, tgt_is_causal=True)


class Attention(nn.Module):
    """Attention with its weights as a second result, and sequences first."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, add_bias_kv=True)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention(x.transpose(0, 1), y.transpose(0, 1), y.transpose(0, 1))


class ByHand(nn.Module):
    """Attention by einsum, with a relative bias that is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Linear(8, 24, bias=False)
        self.bias = nn.Parameter(torch.randn(2, 11))
        self.register_buffer("distance", torch.arange(6)[:, None] - torch.arange(6)[None] + 5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.queries(x).unflatten(-1, (3, 2, 4)).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / 2.0 + self.bias[:, self.distance]
        scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2)


class Bag(nn.Module):
    """Sums and means of embeddings, and an index that is clamped."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.EmbeddingBag(20, 8, mode="sum")
        self.means = nn.EmbeddingBag(20, 8, mode="mean")

    def forward(self, codes: Tensor) -> Tensor:
        return self.sums(codes) + self.means(codes.clamp(min=3))


class Weights(nn.Module):
    """Parametrised weights, and a buffer that forward updates."""

    def __init__(self) -> None:
        super().__init__()
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
        self.turned = nn.utils.parametrizations.orthogonal(
            nn.Linear(5, 5, bias=False), orthogonal_map="cayley", use_trivialization=False
        )
        self.register_buffer("average", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.normed(x)
        if self.training:
            self.average.mul_(0.9).add_(y.mean(0).detach(), alpha=0.1)
        return y * 2


class Places(nn.Module):
    """Writes into tensors: slices, index_put, scatter, cumulative sums and in-place arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 6))

    def forward(self, x: Tensor, where: Tensor) -> Tensor:
        x = x * self.scale
        y = torch.zeros_like(x)
        y[:, 1:3] = x[:, :2]
        y[:, 0] += 1.5
        y[..., -1] = x[..., 0].cumsum(1)
        y.mul_(2).clamp_(-3, 3)
        z = torch.zeros(x.shape[0], 4, 9, dtype=x.dtype).scatter_add(2, where, x)
        z = z.scatter(2, where[..., :1], 0.25)
        w = y.clone()
        w[:, torch.tensor([0, 2])] = x[:, :2]
        w = w.index_put((torch.arange(x.shape[0])[:, None], torch.tensor([[1, 3]])), x[:, :2], accumulate=True)
        w = w.index_add(1, torch.tensor([0, 0, 1]), x[:, 1:])
        w.masked_fill_(x > 1, 0.5)
        return torch.cat([y, z, w, torch.where(x > 0, x, x * 0.1).cumsum(-1), x.flip(1).cumprod(1)], dim=-1)


class Mixture(nn.Module):
    """Experts of which the two best are mixed: top-k, one-hot codes and gathers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.Parameter(torch.randn(4, 6, 5))

    def forward(self, x: Tensor) -> Tensor:
        best, which = self.gate(x).topk(2, dim=-1)
        share = best.softmax(-1)
        made = torch.einsum("bi,eij->bej", x, self.experts)
        chosen = made.gather(1, which.unsqueeze(-1).expand(-1, -1, 5))
        used = F.one_hot(which, 4).sum(1).to(x.dtype)
        return torch.cat(
            [(share.unsqueeze(-1) * chosen).sum(1), used.mean(0, keepdim=True) * share.sum(1, keepdim=True)], 1
        )


class Series(nn.Module):
    """Convolutions of a series with dilation, a gated unit, pooling, and a cell that is called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv1d(4, 8, 3, dilation=d) for d in (1, 2)])
        self.mix = nn.Conv1d(4, 4, 1, groups=2)
        self.cell = nn.LSTMCell(4, 5)
        self.other = nn.GRUCell(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        for convolution in self.convolutions:
            x = F.glu(convolution(F.pad(x, (2 * convolution.dilation[0], 0))), dim=1) + self.mix(x)
        h = c = g = x.new_zeros(x.shape[0], 5)
        for step in F.avg_pool1d(x, 2).unbind(-1):
            h, c = self.cell(step, (h, c))
            g = self.other(step, g)
        return torch.cat([h, g, F.adaptive_max_pool1d(x, 1).squeeze(-1)], dim=-1)


class Statistics(nn.Module):
    """Reductions as users write them: variances, norms, extremes, sorted values, products of many tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 6))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.scale
        one = x.std(1) + x.var(1, unbiased=False) + x.norm(dim=1) + x.amax(1) + x.min(1).values + x.median(1).values
        two = (
            x.logsumexp(1)
            + x.sort(1, descending=True).values[:, 0]
            + x.kthvalue(2, 1).values
            + F.normalize(x, dim=1)[:, 0]
        )
        three = (
            torch.cdist(x, x).sum(1)[:, :1]
            + torch.linalg.vector_norm(x, 1, (1, 2)).unsqueeze(1)
            + (x @ x.mT).diagonal(dim1=1, dim2=2).sum(1, keepdim=True)
        )
        four = F.cosine_similarity(x[:, :1], x[:, 1:], dim=2).mean(1, keepdim=True) + torch.outer(x[:, 0, 0], x[0, 0])
        return one + two + three + four


class Options(nn.Module):
    """Keywords, a flag that is fixed, an optional argument and a result inside a list."""

    def __init__(self) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(6, 5, 3)

    def forward(self, x: Tensor, *, other: Tensor, gate: Tensor | None = None, twice: bool = True) -> list[Tensor]:
        y = self.bilinear(x, other)
        if gate is not None:
            y = y * gate
        return [y, y * 2 if twice else y]


def _codes(*shape: int, top: int = 20) -> Tensor:
    return torch.randint(0, top, shape)


WRITTEN: Final[dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]]] = {
    "LSTM": (lambda: Classifier(nn.LSTM), lambda: {"codes": _codes(3, 7)}),
    "GRU": (lambda: Classifier(nn.GRU), lambda: {"codes": _codes(3, 7)}),
    "UNet": (UNet, lambda: {"image": torch.randn(3, 3, 16, 16)}),
    "Autoencoder": (Autoencoder, lambda: {"image": torch.randn(3, 1, 8, 8)}),
    "Residual": (Residual, lambda: {"image": torch.randn(3, 3, 8, 8)}),
    "Encoder": (Encoder, lambda: {"codes": _codes(3, 6), "padding": torch.arange(6) >= torch.tensor([[6], [4], [3]])}),
    "Decoder": (Decoder, lambda: {"target": torch.randn(3, 5, 8), "memory": torch.randn(3, 6, 8)}),
    "Attention": (Attention, lambda: {"x": torch.randn(3, 5, 8), "y": torch.randn(3, 6, 6)}),
    "ByHand": (ByHand, lambda: {"x": torch.randn(3, 6, 8)}),
    "Bag": (Bag, lambda: {"codes": _codes(3, 7)}),
    "Weights": (Weights, lambda: {"x": torch.randn(3, 6)}),
    "Places": (Places, lambda: {"x": torch.randn(3, 4, 6), "where": _codes(3, 4, 6, top=9)}),
    "Mixture": (Mixture, lambda: {"x": torch.randn(3, 6)}),
    "Series": (Series, lambda: {"x": torch.randn(3, 8, 4)}),
    "Statistics": (Statistics, lambda: {"x": torch.randn(3, 5, 6)}),
    "Options": (Options, lambda: {"x": torch.randn(3, 6), "other": torch.randn(3, 5), "gate": torch.randn(3, 3)}),
}
"""Modules and inputs by name; an import and its oracle agree in float64."""
