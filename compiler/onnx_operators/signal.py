"""Fourier transforms: products with constant matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from registry import Value, ops


def _dft(node: Node, x: Value, length: Value | None = None, axis: Value | None = None) -> Value:
    """Return the transform along an axis; the last axis has real and, if its extent is 2, imaginary parts."""
    inverse, one_sided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    asked = node.number(2) if node.has(2) else -2
    along = (asked if node.version >= 20 else int(node.attribute("axis", 1))) % x.rank
    given = node.number(1) if node.has(1) else None
    wide = cast(x, "float64")
    real = wide[..., 0]
    imaginary = wide[..., 1] if x.shape[-1] == 2 else None
    size = node.size(along)
    if inverse and one_sided:
        count = given or 2 * (size - 1)
        used = min(size, count // 2 + 1)
        angles = 2 * np.pi * np.outer(np.arange(used), np.arange(count)) / count
        twice = np.array([1.0 if f == 0 or 2 * f == count else 2.0 for f in range(used)])[:, None]
        cosines, sines = np.cos(angles) * twice / count, np.sin(angles) * twice / count
        y = _along(node, real, cosines, along)
        if imaginary is not None:
            y = y - _along(node, imaginary, sines, along)
        return cast(ops.unsqueeze(y, axis=(-1,)), x.dtype)
    count = given or size
    used = min(size, count)
    kept = count // 2 + 1 if one_sided else count
    angles = 2 * np.pi * np.outer(np.arange(used), np.arange(kept)) / count
    factor = 1 / count if inverse else 1.0
    cosines, sines = np.cos(angles) * factor, np.sin(angles) * (factor if inverse else -factor)
    a, b = _along(node, real, cosines, along), _along(node, real, sines, along)
    if imaginary is not None:
        a, b = a - _along(node, imaginary, sines, along), b + _along(node, imaginary, cosines, along)
    return cast(ops.stack(a, b, axis=-1), x.dtype)


def _along(node: Node, x: Value, matrix: Any, axis: int) -> Value:
    """Return the products of an axis, or of its first elements, with a matrix."""
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = ops.transpose(x, axis=tuple(order))[..., : matrix.shape[0]]
    if moved.rank == 1:
        return ops.reshape(ops.matmul(ops.unsqueeze(moved, axis=(0,)), node.new(matrix, x.dtype)), shape=(-1,))
    y = ops.matmul(moved, node.new(matrix, x.dtype))
    return ops.transpose(y, axis=tuple(order.index(i) for i in range(x.rank)))


def _stft(node: Node, x: Value, step: Value, window: Value | None = None, length: Value | None = None) -> Value:
    """Return transforms of frames, [n, frames, frequencies, 2]."""
    hop = node.number(1)
    size = node.number(3) if node.has(3) else node.size(0, 2)
    count = (node.size(1) - size) // hop + 1
    at = np.arange(count)[:, None] * hop + np.arange(size)[None]
    frames = ops.gather(x, node.new(at, "int64"), axis=1)
    real = frames[..., 0] if x.rank == 3 else frames
    imaginary = frames[..., 1] if x.rank == 3 and x.shape[2] == 2 else None
    kept = size // 2 + 1 if node.attribute("onesided", 1) else size
    angles = 2 * np.pi * np.outer(np.arange(size), np.arange(kept)) / size
    cosines, sines = node.new(np.cos(angles), x.dtype), node.new(-np.sin(angles), x.dtype)

    def transformed(part: Value) -> tuple[Value, Value]:
        part = part if window is None else part * window
        return ops.matmul(part, cosines), ops.matmul(part, sines)

    a, b = transformed(real)
    if imaginary is not None:
        c, d = transformed(imaginary)
        a, b = a - d, b + c
    return ops.stack(a, b, axis=-1)


def _mel_weights(node: Node) -> Any:
    """Return the matrix from frequencies to mel bands, whose sizes have to be known."""
    bands, size, rate = (node.number(i) for i in (0, 1, 2))
    lowest, highest = (float(node.constant(i).reshape(())) for i in (3, 4))
    ends = [2595.0 * np.log10(1.0 + edge / 700.0) for edge in (lowest, highest)]
    mels = ends[0] + np.arange(bands + 2) * ((ends[1] - ends[0]) / (bands + 2))
    edges = ((size + 1) * (700.0 * (10.0 ** (mels / 2595.0) - 1.0)) // rate).astype(np.int64)
    weights = np.zeros((size // 2 + 1, bands))
    for band in range(bands):
        low, middle, high = edges[band : band + 3]
        weights[low : middle + 1, band] = 1.0 if low == middle else (np.arange(low, middle + 1) - low) / (middle - low)
        weights[middle:high, band] = (high - np.arange(middle, high)) / max(high - middle, 1)
    return node.walk.constant(weights.astype(node.results[0] or "float32"))


IMPORTS: Final[dict[str, Mapping]] = {
    "DFT": on_plain(_dft),
    "STFT": on_plain(_stft),
    "MelWeightMatrix": _mel_weights,
}
