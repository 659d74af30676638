"""Quantised ONNX files beside ONNX Runtime: times and differences, for one and two threads.

    python benchmarks/quantized/int8_onnx.py

It needs PyTorch and ONNX Runtime. The networks are a perceptron of four layers of 512 with 64 rows, and a
convolutional network with depthwise layers and four images of 64 x 64. ONNX Runtime quantises them, with uint8
activations and weights of uint8 or int8. Times are the least of alternating calls; ratios are the time of ONNX Runtime
divided by that of prograd.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import prograd

ROUNDS = 60
CALLS = 3


def networks(torch: Any) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Give names, modules and shapes of the input."""
    nn = torch.nn
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
    yield "mlp", nn.Sequential(*layers[:-1]), (64, 512)
    layers, channels = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU()], 32
    for made, stride in ((64, 1), (128, 2), (128, 1), (256, 2)):
        layers += [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels), nn.ReLU()]
        layers += [nn.Conv2d(channels, made, 1), nn.ReLU()]
        channels = made
    yield (
        "mobile",
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)),
        (4, 3, 64, 64),
    )


def quantised(torch: Any, folder: Path) -> Iterator[tuple[str, Path, tuple[int, ...]]]:
    """Write the networks as files of floats and as quantised ones."""
    tools = import_module("onnxruntime.quantization")
    for name, module, shape in networks(torch):
        whole = folder / f"{name}.onnx"
        torch.onnx.export(
            module.eval(), (torch.zeros(*shape),), str(whole), input_names=["x"], output_names=["y"], dynamo=False
        )
        for weights in ("QUInt8", "QInt8"):
            to = folder / f"{name}_{weights}.onnx"
            tools.quantize_static(
                str(whole),
                str(to),
                _Reader(shape),
                per_channel=True,
                activation_type=tools.QuantType.QUInt8,
                weight_type=tools.QuantType[weights],
                quant_format=tools.QuantFormat.QDQ,
            )
            yield f"{name} {weights}", to, shape


class _Reader:
    """Rows for the ranges."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rows = iter([{"x": rows(shape, seed)} for seed in range(8)])

    def get_next(self) -> dict[str, Any] | None:
        """Return the next rows."""
        return next(self.rows, None)


def rows(shape: tuple[int, ...], seed: int) -> Any:
    """Return normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def timed(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least time of each function, in microseconds, of alternating calls."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: min(times) for name, times in found.items()}


def main() -> None:
    """Print a line for each network and number of threads."""
    torch, onnxruntime = import_module("torch"), import_module("onnxruntime")
    print("network          threads   ONNX Runtime us   integers us   ratio   floats us   largest difference")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, shape in quantised(torch, Path(folder)):
            x = rows(shape, 99)
            programs = {kind: prograd.from_onnx(str(path), integers=kind == "integers").compile() for kind in KINDS}
            for threads in (1, 2):
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = threads
                session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                runs = {kind: prograd.Run(compiled, threads=threads) for kind, compiled in programs.items()}
                calls: dict[str, Callable[[], Any]] = {"onnx": lambda s=session, x=x: s.run(None, {"x": x})[0]}
                calls |= {kind: lambda run=run, x=x: run.predict({"x": x})["y"] for kind, run in runs.items()}
                apart = np.abs(calls["integers"]() - calls["onnx"]()).max()
                found = timed(calls)
                ratio = found["onnx"] / found["integers"]
                print(
                    f"{name:<18} {threads:>5} {found['onnx']:>17.0f} {found['integers']:>13.0f} {ratio:>7.2f} "
                    f"{found['floats']:>11.0f} {apart:>20.3g}",
                    flush=True,
                )


KINDS = ("integers", "floats")

if __name__ == "__main__":
    main()
