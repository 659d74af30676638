"""Modules that keep something between calls, or share, nest and hook, as pieces of random modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name


class Average(nn.Module):
    """Subtracts a running mean, which training assigns to its buffer."""

    mean: torch.Tensor

    def __init__(self, size: int, *, assigns: bool) -> None:
        super().__init__()
        self.assigns = assigns
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            now = x.detach().mean(tuple(range(x.ndim - 1)))
            if self.assigns:
                self.mean = 0.9 * self.mean + 0.1 * now
            else:
                self.mean.mul_(0.9).add_(0.1 * now)
        return x - self.mean


class Codes(nn.Module):
    """The nearest of a few codes, which follow their rows as in a VQ-VAE, with a straight-through gradient."""

    codes: torch.Tensor
    counts: torch.Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(3, size))
        self.register_buffer("counts", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        picked = F.one_hot(torch.cdist(rows, self.codes).argmin(1), 3).to(x.dtype)
        if self.training:
            with torch.no_grad():
                self.counts.lerp_(picked.sum(0), 0.2)
                self.codes.copy_(0.8 * self.codes + 0.2 * (picked.T @ rows) / self.counts[:, None])
        return x + (picked @ self.codes - rows).detach().reshape(x.shape)


class Counter(nn.Module):
    """Scales by the number of calls in training, which a buffer of integers counts."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.calls += 1
        return x / (1 + self.calls.to(x.dtype))


class Ring(nn.Module):
    """Writes the mean of each batch into the next row of a buffer, and adds the mean of the rows."""

    rows: torch.Tensor
    place: torch.Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, size))
        self.register_buffer("place", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.rows[self.place] = x.detach().mean(tuple(range(x.ndim - 1)))[None]
            self.place.copy_((self.place + 1) % 3)
        return x + self.rows.mean(0)


class Clamped(nn.Module):
    """Writes into its parameter while it is called."""

    def __init__(self, size: int, *, by_data: bool) -> None:
        super().__init__()
        self.by_data = by_data
        self.weight = nn.Parameter(torch.randn(size) * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.by_data:
            self.weight.data.clamp_(-1, 1)
        else:
            with torch.no_grad():
                self.weight.div_(self.weight.norm())
        return x * self.weight


class Flagged(nn.Module):
    """Behaves otherwise from its second call on, as layers do that initialise themselves by data."""

    def __init__(self) -> None:
        super().__init__()
        self.is_first = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = 2.0 if self.is_first else 0.5
        self.is_first = False
        return scale * x


class Modes(nn.Module):
    """Branches on the mode of the whole, or of an inner module."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.inner.training:
            return x + self.inner(x)
        return torch.tanh(self.inner(x)) if self.training else self.inner(x) * 0.5


class Nested(nn.Module):
    """Lists and dicts of modules and parameters; `shares` uses one layer twice, and one weight in two layers."""

    def __init__(self, size: int, *, shares: bool) -> None:
        super().__init__()
        layer = nn.Linear(size, size)
        self.layers = nn.ModuleList([nn.Sequential(layer, nn.Tanh()), nn.ModuleList([layer])])
        self.named = nn.ModuleDict({"a b": nn.Linear(size, size), "norm": nn.LayerNorm(size)})
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(size)), torch.ones(1)])
        self.shifts = nn.ParameterDict({"x": nn.Parameter(torch.randn(size))})
        if shares:
            self.named["a b"].weight = layer.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner: Any = self.layers[1]
        y = self.layers[0](x) * self.scales[0] + self.shifts["x"]
        return self.named["norm"](self.named["a b"](y) + inner[0](y)) * self.scales[1]


class Transposed(nn.Module):
    """An autoencoder whose decoder has the weight of its encoder, transposed, and whose table is its output."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.down, self.table = nn.Linear(size, 3), nn.Embedding(4, size)
        self.out = nn.Linear(size, 4, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(torch.sigmoid(self.down(x)), self.down.weight.T)
        return self.out(y + self.table(x.argmax(-1) % 4))
