"""Seeded networks of PyTorch, and their files by both exporters."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class Gpt(nn.Module):
    """A decoder of two causal layers, whose head is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.position = nn.Parameter(torch.randn(12, 32) * 0.1)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position
        q, k, v = (f(x).reshape(x.shape[0], 12, 4, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / 8**0.5
        causal = torch.tril(torch.ones(12, 12, dtype=torch.bool))
        y = torch.softmax(scores.masked_fill(~causal, -1e9), -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(x.shape[0], 12, 32))
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x @ self.embedding.weight.T


class Recurrent(nn.Module):
    """A recurrent layer and a head."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer, self.head = kind(16, 24, batch_first=True), nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.layer(x)
        return self.head(y[:, -1])


class UNet(nn.Module):
    """A net that shrinks an image, widens it again, and joins both."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm, self.up = nn.GroupNorm(4, 16), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.end = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.a(x))
        b = torch.relu(self.norm(self.b(a)))
        return self.end(torch.cat([a, self.up(b)], 1))


class Norms(nn.Module):
    """Normalisations with and without weights, positions and a token that are added, and learned scalars."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.rand(8))
        self.token, self.position = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.register_buffer("kept", torch.rand(1, 1, 8))
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 6, 1))
        self.group, self.instance = nn.GroupNorm(3, 6), nn.InstanceNorm1d(6, affine=True)
        self.free, self.plain = nn.InstanceNorm1d(6), nn.LayerNorm(8, elementwise_affine=False)
        self.rms, self.layer, self.slope = nn.RMSNorm(8), nn.LayerNorm(8), nn.PReLU()
        self.scale, self.gamma, self.shift = (nn.Parameter(torch.rand(shape)) for shape in ((), (8,), (1,)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x - self.center], 1)
        x = x + torch.cat([self.position, self.kept], 1)
        x = self.free(self.instance(self.group(self.conv(x))) + x) * self.scale.exp()
        x = self.rms(self.slope(self.plain(x) + x)) * self.gamma + self.shift
        return self.layer(x)


class Tabular(nn.Module):
    """Classes by embedding, beside numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(9, 8), nn.BatchNorm1d(12)
        self.hidden, self.head = nn.Linear(12, 32), nn.Linear(32, 3)

    def forward(self, kind: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = self.norm(torch.cat([self.embedding(kind), numbers], 1))
        return self.head(torch.selu(self.hidden(x)))


def cnn() -> nn.Module:
    """Return convolutions with batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 5),
    )  # fmt: skip


def mobile() -> nn.Module:
    """Return a network with depthwise convolutions and hard activations."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.Hardsigmoid(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def encoder() -> nn.Module:
    """Return two layers of a transformer encoder."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 5))


NETWORKS: dict[str, Any] = {
    "cnn": (cnn, lambda: (torch.randn(4, 3, 16, 16),)),
    "mobile": (mobile, lambda: (torch.randn(4, 3, 16, 16),)),
    "encoder": (encoder, lambda: (torch.randn(4, 12, 32),)),
    "gpt": (Gpt, lambda: (torch.randint(0, 50, (4, 12)),)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: (torch.randn(4, 7, 16),)),
    "gru": (lambda: Recurrent(nn.GRU), lambda: (torch.randn(4, 7, 16),)),
    "unet": (UNet, lambda: (torch.randn(4, 3, 16, 16),)),
    "tabular": (Tabular, lambda: (torch.randint(0, 9, (4,)), torch.randn(4, 4))),
}
"""For each network its maker, and the maker of its inputs."""

NORMS = {"norms": (Norms, lambda: (torch.randn(4, 5, 8),))}
"""The network whose parameters are in many slots, and which fewer exports write."""


def made(name: str, *, perturbed: bool = True) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return a network and its inputs; perturbed parameters are all different, so that exporters merge none."""
    torch.manual_seed(26)
    maker, inputs_of = (NETWORKS | NORMS)[name]
    network, inputs = maker(), inputs_of()
    if perturbed:
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
            for key, buffer in network.named_buffers():
                if "running" in key:
                    buffer.add_(torch.rand_like(buffer) * 0.1)
    return network.eval(), inputs


def exported(network: nn.Module, inputs: Any, exporter: str, opset: int, **more: Any) -> Any:
    """Return the model that an exporter writes, without its warnings."""
    import onnx

    file = io.BytesIO()
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if exporter == "dynamo":
                written = torch.onnx.export(network, inputs, opset_version=opset, dynamo=True, verbose=False, **more)
                return written.model_proto
            torch.onnx.export(network, inputs, file, opset_version=opset, dynamo=False, **more)
    finally:
        logging.disable(logging.NOTSET)
    return onnx.load_from_string(file.getvalue())


def of_any_batch(exporter: str, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return the arguments of `exported` that keep the batch a symbol."""
    if exporter == "dynamo":
        batch = torch.export.Dim("batch")
        return {"dynamic_shapes": tuple({0: batch} for _ in inputs)}
    names = [f"x{number}" for number, _ in enumerate(inputs)]
    return {"input_names": names, "dynamic_axes": {name: {0: "batch"} for name in names}}
