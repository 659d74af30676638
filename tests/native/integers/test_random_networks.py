"""Random networks of codes: products, convolutions, requantisation, pooling, sums; all engines have the same codes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from native.building import HERE, TARGETS
from native.made import Made

from registry import OPS, Value
from runtime.codegen.machine import target


class Drawn:
    """A network under construction: its operands, and functions of all values so far."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.operands: list[np.ndarray] = []

    def codes(self, *shape: int) -> int:
        self.operands.append(self.rng.integers(0, 256, shape, dtype="u1"))
        return len(self.operands) - 1

    def zeros(self, *shape: int) -> int:
        """Zero points, mostly near the middle."""
        span = (0, 256) if self.rng.random() < 0.2 else (108, 149)
        self.operands.append(self.rng.integers(*span, shape, dtype="u1"))
        return len(self.operands) - 1

    def scale(self, low: float, high: float, *shape: int) -> int:
        self.operands.append(np.exp(self.rng.uniform(np.log(low), np.log(high), shape)).astype("f4"))
        return len(self.operands) - 1

    def bias(self, count: int) -> int:
        self.operands.append(self.rng.integers(-20000, 20000, count, dtype="i4"))
        return len(self.operands) - 1


Layer = Callable[[list[Value], Value], Value]


def requantised(d: Drawn, depth: int, channels: int) -> Layer:
    """Return a layer that may add a bias, and codes sums of `depth` products; most sums lie in the range of codes."""
    per_channel = (channels,) if d.rng.random() < 0.5 else ()
    zeros, bias = d.zeros(), d.bias(channels) if d.rng.random() < 0.6 else None
    scales = d.scale(0.01, 0.03), d.scale(0.01, 0.03, *per_channel), d.scale(0.03 * depth**0.5, 0.3 * depth**0.5)
    cut = d.rng.random() < 0.3

    def write(given: list[Value], sums: Value) -> Value:
        sums = sums if bias is None else sums + given[bias]
        y = OPS["requantize"](sums, *(given[i] for i in scales), given[zeros])
        return OPS["maximum"](y, given[zeros]) if cut else y

    return write


def convolving(d: Drawn, shape: tuple[int, ...]) -> tuple[Layer, tuple[int, ...]]:
    n, height, width, channels = shape
    window = [int(d.rng.integers(1, min(4, extent + 1))) for extent in (height, width)]
    stride, padding = [[int(d.rng.integers(low, low + 2)) for _ in range(2)] for low in (1, 0)]
    kind = d.rng.integers(3)
    groups = channels if kind == 0 else 2 if kind == 1 and channels % 2 == 0 else 1
    made = channels if groups == channels and d.rng.random() < 0.8 else groups * int(d.rng.integers(1, 20))
    w, x_zero = d.codes(*window, channels // groups, made), d.zeros()
    w_zero = d.zeros(*((made,) if d.rng.random() < 0.3 else ()))
    finish = requantised(d, window[0] * window[1] * channels // groups, made)

    def write(given: list[Value], x: Value) -> Value:
        operands = x, given[w], given[x_zero], given[w_zero]
        return finish(given, OPS["integer_conv2d"](*operands, stride=stride, padding=padding, groups=groups))

    out = [(e + 2 * p - k) // s + 1 for e, p, k, s in zip((height, width), padding, window, stride, strict=True)]
    return write, (n, *out, made)


def multiplying(d: Drawn, shape: tuple[int, ...]) -> tuple[Layer, tuple[int, ...]]:
    depth, made = shape[-1], int(d.rng.integers(1, 70))
    w, x_zero, w_zero = d.codes(depth, made), d.zeros(), d.zeros(*((made,) if d.rng.random() < 0.3 else ()))
    finish = requantised(d, depth, made)

    def write(given: list[Value], x: Value) -> Value:
        return finish(given, OPS["integer_matmul"](x, given[w], given[x_zero], given[w_zero]))

    return write, (*shape[:-1], made)


def adding(d: Drawn, shape: tuple[int, ...]) -> tuple[Layer, tuple[int, ...]]:
    other, zeros, scales = (
        d.codes(*shape),
        [d.zeros() for _ in range(3)],
        [d.scale(low, 3 * low) for low in (0.01, 0.01, 0.03)],
    )

    def write(given: list[Value], x: Value) -> Value:
        parts = [
            OPS["dequantize_linear"](v, given[scales[i]], given[zeros[i]]) for i, v in enumerate((x, given[other]))
        ]
        return OPS["quantize_linear"](parts[0] + parts[1], given[scales[2]], given[zeros[2]])

    return write, shape


def network(seed: int) -> Made:
    d = Drawn(seed)
    is_image = d.rng.random() < 0.7
    shape = (int(d.rng.integers(1, 4)), *map(int, d.rng.integers(1, 12, 2)), int(d.rng.integers(1, 24)))
    shape = shape if is_image else (int(d.rng.integers(1, 40)), int(d.rng.integers(1, 150)))
    first, layers = d.codes(*shape), list[Layer]()
    for _ in range(int(d.rng.integers(1, 5))):
        kinds = [multiplying, adding, *([convolving] * 3 if len(shape) == 4 else [])]
        layer, shape = kinds[d.rng.integers(len(kinds))](d, shape)
        layers.append(layer)

    def write(*given: Value) -> list[Value]:
        results = [given[first]]
        for layer in layers:
            results.append(layer(list(given), results[-1]))
        return results[1:]

    return Made(write, d.operands)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("seed", range(100))
def test_every_engine_has_the_codes_of_the_oracle(seed: int):
    made = network(seed)
    targets = [*TARGETS]
    if "avx512_vnni" in HERE:  # registers, tiles and instruction of AVX-VNNI, in the encoding of AVX-512
        targets.append(replace(target("avx512_vnni"), vector_bytes=32, registers=16))
    for of in targets:
        for found, wanted in zip(made.native(of, 1 + seed % 2), made.wanted, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_codes_of_random_networks_differ():
    """The scales of these networks neither saturate all codes nor make them equal."""
    counts = [len(np.unique(network(seed).wanted[-1])) for seed in range(20)]
    assert sorted(counts)[10] > 8
