"""Tensors of GGUF files as arrays: the numbers that the blocks of each type stand for, as ggml widens them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from runtime.dtypes import numpy_dtype
from runtime.language.gguf import GgufTensor

PLAIN: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""The dtypes of types without blocks."""

CODED: Final = {"Q8_0": "q8_0", "Q4_0": "q4_0"}
"""The types whose codes are kept as they are."""


BAND_ELEMENTS: Final = 1 << 16
"""Number of elements that are widened at a time, so that intermediate results stay in a cache."""


def plain_array(tensor: GgufTensor, raw: bytes) -> Any:
    """Return a tensor without blocks in its dtype."""
    return np.frombuffer(raw, numpy_dtype(PLAIN[tensor.kind.name])).reshape(tensor.shape)


def codes_and_scales(tensor: GgufTensor, raw: bytes) -> tuple[Any, Any]:
    """Return the codes and scales of a tensor of Q8_0 or Q4_0, as `dequantize` takes them."""
    blocks = np.frombuffer(raw, np.uint8).reshape(*tensor.shape[:-1], -1, tensor.kind.nbytes)
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0]
    return np.ascontiguousarray(blocks[..., 2:]).reshape(*tensor.shape[:-1], -1), scales.astype(np.float16)


def widened_blocks(tensor: GgufTensor, raw: bytes) -> Any:
    """Return the numbers of a tensor with blocks as float32."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, tensor.kind.nbytes)
    numbers = np.empty((len(blocks), tensor.kind.elements), np.float32)
    at_once = BAND_ELEMENTS // tensor.kind.elements
    with np.errstate(all="ignore"):
        for first in range(0, len(blocks), at_once):
            band = slice(first, first + at_once)
            numbers[band] = _FORMS[tensor.kind.name](blocks[band]).reshape(-1, tensor.kind.elements)
    return numbers.reshape(tensor.shape)


def _half(blocks: Any, at: int) -> Any:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(codes: Any) -> Any:
    """Return the lower halves of bytes, then the upper ones."""
    return np.concatenate([codes & 15, codes >> 4], -1)


def _fifths(bits: Any) -> Any:
    """Return the 32 bits of four bytes as the fifth bits of codes: 0 or 16."""
    return np.unpackbits(np.ascontiguousarray(bits), axis=-1, bitorder="little") << 4


def _q5_0(blocks: Any) -> Any:
    codes = (_nibbles(blocks[:, 6:]) | _fifths(blocks[:, 2:6])).astype(np.float32)
    return _half(blocks, 0) * (codes - 16)


def _q5_1(blocks: Any) -> Any:
    codes = (_nibbles(blocks[:, 8:]) | _fifths(blocks[:, 4:8])).astype(np.float32)
    return _half(blocks, 0) * codes + _half(blocks, 2)


def _scales_of_k(packed: Any) -> tuple[Any, Any]:
    """Return the scales and the minima of eight blocks of 32, 6 bits each, from 12 bytes."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], -1)
    minima = np.concatenate([middle & 63, (high >> 4) | ((middle >> 6) << 4)], -1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _of_k(blocks: Any, codes: Any) -> Any:
    scales, minima = _scales_of_k(blocks[:, 4:16])
    step, least = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    return step[..., None] * codes.astype(np.float32) - least[..., None]


def _q5_k(blocks: Any) -> Any:
    fifths = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
    return _of_k(blocks, _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32) | fifths)


def _q6_k(blocks: Any) -> Any:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3) << 4
    codes = (low | high).astype(np.float32) - 32
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    return (_half(blocks, 208) * scales)[..., None] * codes.reshape(-1, 16, 16)


_FORMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Q4_0": lambda blocks: _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8),
    "Q4_1": lambda blocks: _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2),
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": lambda blocks: _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32),
    "Q4_K": lambda blocks: _of_k(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)),
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
"""The function that widens each type."""
