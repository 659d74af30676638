"""Networks of PyTorch that ONNX Runtime quantises, and their files."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

CALIBRATION_ROWS: Final = 4
"""Batches of rows that give ranges."""


def perceptron(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return four layers of 512, and 64 rows."""
    nn = torch.nn
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
    return nn.Sequential(*layers[:-1]), (64, 512)


def separable(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return depthwise and 1x1 convolutions in a chain, and four images of 64 x 64."""
    nn = torch.nn
    layers, channels = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU()], 32
    for made, stride in ((64, 1), (128, 2), (128, 1), (256, 2)):
        layers += [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels), nn.ReLU()]
        layers += [nn.Conv2d(channels, made, 1), nn.ReLU()]
        channels = made
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)), (4, 3, 64, 64)


def mobilenet(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return MobileNetV2 of torchvision, with residual additions and Clip, and an image of 224 x 224."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    torchvision = import_module("frontends.torchvision_without_operators").torchvision()
    return torchvision.models.mobilenet_v2(weights=None), (1, 3, 224, 224)


def bert(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return four layers of BERT of 256, whose sequence of 128 vectors is embedded already."""
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, wide: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.out = (nn.Linear(wide, wide) for _ in range(4))
            self.up, self.down = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)
            self.first, self.second = nn.LayerNorm(wide), nn.LayerNorm(wide)

        def forward(self, x: Any) -> Any:
            n, length, wide = x.shape
            q, k, v = (
                each(x).reshape(n, length, self.heads, wide // self.heads).transpose(1, 2)
                for each in (self.q, self.k, self.v)
            )
            share = torch.softmax(q @ k.transpose(2, 3) * (wide // self.heads) ** -0.5, -1)
            x = self.first(x + self.out((share @ v).transpose(1, 2).reshape(n, length, wide)))
            return self.second(x + self.down(nn.functional.gelu(self.up(x))))

    return nn.Sequential(*(Layer(256, 4) for _ in range(4)), nn.Linear(256, 2)), (1, 128, 256)


def keywords(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return DS-CNN for keyword spotting (Zhang et al., 2017) of 64 channels, and a second of 49 x 10 features."""
    nn = torch.nn
    layers = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1)), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12)), (1, 1, 49, 10)


def recurrent(torch: Any) -> tuple[Any, tuple[int, ...]]:
    """Return two layers of an LSTM of 128 states, and a sequence of 50 steps of 64 features."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory, self.head = torch.nn.LSTM(64, 128, 2, batch_first=True), torch.nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.memory(x)[0])

    return Network(), (1, 50, 64)


DYNAMIC: Final = ("lstm",)
"""Networks that are quantised by the range of each operand as it is computed."""

NETWORKS: Final[dict[str, Callable[[Any], tuple[Any, tuple[int, ...]]]]] = {
    "perceptron": perceptron,
    "separable": separable,
    "mobilenet_v2": mobilenet,
    "bert": bert,
    "ds_cnn": keywords,
    "lstm": recurrent,
}


def quantised(name: str, folder: Path) -> Iterator[tuple[str, Path, tuple[int, ...]]]:
    """Write a network as a file of floats, and quantised ones; give weights, path and the shape of the input."""
    torch, tools = import_module("torch"), import_module("onnxruntime.quantization")
    torch.manual_seed(0)
    module, shape = NETWORKS[name](torch)
    _normalise(torch, module, shape)
    whole, ready = folder / f"{name}.onnx", folder / f"{name}_ready.onnx"
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter by TorchScript, which folds batch normalisation, is deprecated
        names = {"input_names": ["x"], "output_names": ["y"]}
        torch.onnx.export(module.eval(), (torch.zeros(*shape),), str(whole), dynamo=False, opset_version=17, **names)
    tools.quant_pre_process(str(whole), str(ready), skip_symbolic_shape=True)
    for weights in ("QUInt8", "QInt8"):
        to = folder / f"{name}_{weights}.onnx"
        if name in DYNAMIC:
            tools.quantize_dynamic(str(ready), str(to), per_channel=True, weight_type=tools.QuantType[weights])
            yield weights, to, shape
            continue
        tools.quantize_static(
            str(ready),
            str(to),
            _Reader(shape),
            per_channel=True,
            activation_type=tools.QuantType.QUInt8,
            weight_type=tools.QuantType[weights],
            quant_format=tools.QuantFormat.QDQ,
        )
        yield weights, to, shape


def _normalise(torch: Any, module: Any, shape: tuple[int, ...]) -> None:
    """Give batch normalisation the statistics of random rows, so that signals do not vanish in deep networks."""
    for each in module.modules():
        if isinstance(each, torch.nn.BatchNorm2d):
            each.momentum = None  # the mean over all rows
    with torch.no_grad():
        for seed in range(CALIBRATION_ROWS):
            module.train()(torch.tensor(rows((4, *shape[1:]), seed)))


class _Reader:
    """Rows for the ranges."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rows = iter([{"x": rows(shape, seed)} for seed in range(CALIBRATION_ROWS)])

    def get_next(self) -> dict[str, Any] | None:
        """Return the next rows."""
        return next(self.rows, None)


def rows(shape: tuple[int, ...], seed: int) -> Any:
    """Return normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
