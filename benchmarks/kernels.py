"""Times kernels against the NumPy expression that one would write instead, on one BLAS thread.

    python benchmarks/kernels.py            all of them
    python benchmarks/kernels.py conv pool  those whose operator's name has one of the words

Medians of alternating runs in microseconds. A ratio above 1 means that the kernel, which writes into memory that it
is given and allocates nothing, is faster than the expression.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any

from runtime.blas import ask_for_one_thread

ask_for_one_thread()

import numpy as np  # noqa: E402 - BLAS counts its threads when it is loaded
from numpy.lib.stride_tricks import sliding_window_view  # noqa: E402 - likewise

import runtime.engines.reference.kernels  # noqa: E402, F401 - fills KERNELS
from prograd_proto import TensorType, attributes_of  # noqa: E402 - needs NumPy
from registry import OPS, Block  # noqa: E402 - needs NumPy
from runtime.kernel import KERNELS  # noqa: E402 - needs NumPy
from runtime.memory.aligned import aligned_array  # noqa: E402 - needs NumPy

SECONDS = float(os.environ.get("SECONDS", "0.3"))
"""Seconds of measurement per case."""

RNG = np.random.default_rng(0)

Case = tuple[str, list[np.ndarray], dict[str, Any], Callable[..., Any]]


def main(words: list[str]) -> None:
    print(f"{'operator':28}{'operands':44}{'kernel':>9}{'NumPy':>9}{'ratio':>8}")
    for op, operands, attributes, expression in cases():
        if words and not any(word in op for word in words):
            continue
        call = bound(op, operands, attributes)
        ours, theirs = alternate(call, lambda f=expression, xs=operands: f(*xs))
        shapes = " ".join(str(list(x.shape)).replace(" ", "") for x in operands if x.ndim)
        print(f"{op:28}{shapes or attributes['shape']!s:44}{ours:9.1f}{theirs:9.1f}{theirs / ours:8.2f}", flush=True)


def cases() -> Iterator[Case]:
    x, w = floats(128, 784), floats(784, 256)
    yield "matmul", [x, w], {}, lambda x, w: x @ w
    yield "matmul", [floats(64, 64), floats(64, 10)], {}, lambda x, w: x @ w
    yield "outer_sum", [floats(32, 16, 64), floats(32, 16, 64)], {}, lambda a, b: np.einsum("nti,ntj->ij", a, b)
    for size, c, o in ((8, 1, 16), (8, 16, 32), (28, 1, 16), (14, 16, 32)):
        x, w, dy = floats(32, size, size, c), floats(3, 3, c, o), floats(32, size, size, o)
        pad = {"padding": (1, 1)}
        yield "conv2d", [x, w], pad, convolution
        yield "conv2d_filter_gradient", [x, dy], {**pad, "shape": w.shape}, filter_gradient
        yield "conv2d_input_gradient", [dy, w], {**pad, "shape": x.shape}, input_gradient
    for size, c in ((8, 32), (28, 16)):
        x, dy = floats(32, size, size, c), floats(32, size // 2, size // 2, c)
        window = {"window": (2, 2), "stride": (2, 2)}
        yield "max_pool2d", [x], window, lambda x: by_window(x).max((2, 4))
        yield "max_pool2d_input_gradient", [x, dy], window, pool_gradient
        yield "avg_pool2d", [x], window, lambda x: by_window(x).mean((2, 4))
    for shape in ((32, 10), (32 * 8 * 64, 64)):
        yield "softmax", [floats(*shape)], {}, softmax
        labels = RNG.integers(0, shape[1], shape[0])
        yield "softmax_cross_entropy", [floats(*shape), labels], {}, cross_entropy
        yield "accuracy", [floats(*shape), labels], {}, lambda x, labels: np.mean(x.argmax(-1) == labels)
    for shape in ((128, 256), (32, 8, 8, 16), (32, 28, 28, 16)):
        yield "batch_norm", [floats(*shape), *(abs(floats(shape[-1])) for _ in range(4))], {}, batch_norm
    for shape in ((64, 10), (784, 256)):
        w, dw, m, v, rate = floats(*shape), floats(*shape), floats(*shape), abs(floats(*shape)), np.float32(0.1)
        yield "sgd", [w, dw, np.array(rate)], {}, lambda w, dw, rate: w - rate * dw
        yield "momentum", [w, dw, m, np.array(rate)], {}, momentum
        yield "adam", [w, dw, m, v, np.array(rate), np.array(9)], {}, adam
    counters, rng = [np.array(3), np.array(5)], np.random.default_rng(0)
    for shape in ((32, 128), (784, 256)):
        yield "uniform", counters, {"shape": shape}, lambda *_, s=shape: rng.random(s, np.float32)
        yield "normal", counters, {"shape": shape}, lambda *_, s=shape: rng.standard_normal(s, np.float32)
        yield "dropout", [floats(*shape), *counters], {}, lambda x, *_: x * (rng.random(x.shape, np.float32) < 0.5) * 2


def bound(op: str, operands: list[np.ndarray], attributes: dict[str, Any]) -> Callable[[], object]:
    """The kernel's call, as the executor has it."""
    block = Block()
    values = [block.define(f"x{i}", TensorType(x.dtype.name, x.shape)) for i, x in enumerate(operands)]
    OPS[op](*values, **OPS[op].signature.spelled(attributes))
    [desc] = block.desc.ops
    types, given = [value.type for value in values], attributes_of(desc)
    made = KERNELS[op].contract.rule.results(*types, **given), KERNELS[op].scratch(types, given)
    outputs, scratch = ([aligned_array(type) for type in some] for some in made)
    return KERNELS[op].bind(operands, outputs, scratch, given, desc.random_stream)


def alternate(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The median microseconds of both calls, run in turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    stop = perf_counter() + SECONDS
    while perf_counter() < stop or len(seconds[0]) < 5:
        for call, times in zip((one, other), seconds, strict=True):
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
    return median(seconds[0]) * 1e6, median(seconds[1]) * 1e6


def floats(*shape: int) -> np.ndarray:
    array = aligned_array(TensorType("float32", shape))
    array[...] = RNG.normal(size=shape)
    return array


def windows(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return sliding_window_view(padded, (3, 3), axis=(1, 2))


def convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.tensordot(windows(x), w, ((4, 5, 3), (0, 1, 2)))


def filter_gradient(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return np.tensordot(windows(x), dy, ((0, 1, 2), (0, 1, 2))).transpose(1, 2, 0, 3)


def input_gradient(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.tensordot(windows(dy), w[::-1, ::-1], ((4, 5, 3), (0, 1, 3)))


def by_window(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c)


def pool_gradient(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    seen = by_window(x)
    y = seen.max((2, 4), keepdims=True)
    return ((seen == y) * dy[:, :, None, :, None]).reshape(x.shape)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def cross_entropy(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    return np.mean(np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(len(x)), labels])


def batch_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Any:
    axes = tuple(range(x.ndim - 1))
    center, spread = x.mean(axes), x.var(axes)
    y = (x - center) / np.sqrt(spread + 1e-5) * scale + bias
    return y, 0.9 * mean + 0.1 * center, 0.9 * variance + 0.1 * spread


def momentum(w: np.ndarray, dw: np.ndarray, velocity: np.ndarray, rate: np.ndarray) -> Any:
    velocity = 0.9 * velocity + dw
    return w - rate * velocity, velocity


def adam(w: np.ndarray, dw: np.ndarray, m: np.ndarray, v: np.ndarray, rate: np.ndarray, step: np.ndarray) -> Any:
    m, v = 0.9 * m + 0.1 * dw, 0.999 * v + 0.001 * dw * dw
    mean, square = m / (1 - 0.9 ** (int(step) + 1)), v / (1 - 0.999 ** (int(step) + 1))
    return w - rate * mean / (np.sqrt(square) + 1e-8), m, v


if __name__ == "__main__":
    main(sys.argv[1:])
