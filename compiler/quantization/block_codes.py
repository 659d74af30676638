"""Weights as blocks of 32 codes with a scale, as GGUF's Q8_0 and Q4_0 have them; `dequantize` widens them.

The rounding is that of ggml's reference: in float32, to the nearest code, halves away from zero for 8 bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from runtime.one_op import call_of

BLOCK: Final = 32
"""Elements of a block."""

BITS: Final = {"q8_0": 8, "q4_0": 4}
"""The bits of an element, by the name of the form."""


PIECE: Final = 1 << 13
"""Number of blocks that are rounded at a time, so that intermediate results stay in a cache."""


def narrow(array: Any, form: str) -> tuple[Any, Any]:
    """Return the codes and the scales of float32 numbers, whose last axis is whole blocks.

    Raises ValueError for numbers that are not finite, or too large for scales of float16.
    """
    blocks = np.ascontiguousarray(array, np.float32).reshape(-1, BLOCK)
    codes = np.empty((len(blocks), BLOCK * BITS[form] // 8), np.uint8)
    scales = np.empty(len(blocks), np.float16)
    for start in range(0, len(blocks), PIECE):
        part = slice(start, start + PIECE)
        codes[part], scales[part] = _narrowed(blocks[part], form)
    return codes.reshape(*array.shape[:-1], -1), scales.reshape(*array.shape[:-1], -1)


def _narrowed(blocks: Any, form: str) -> tuple[Any, Any]:
    if form == "q8_0":
        scales = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    else:
        farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
        scales = farthest / np.float32(-8)
    with np.errstate(over="ignore", divide="ignore"):
        stored = scales.astype(np.float16)
        inverse = np.where(scales == 0, np.float32(0), np.float32(1) / scales)
    if not np.isfinite(stored).all() or not np.isfinite(inverse).all():
        raise ValueError("has numbers that are not finite, or beyond what scales of float16 can hold")
    return (_eight if form == "q8_0" else _four)(blocks * inverse), stored[:, 0]


def _eight(x: Any) -> Any:
    size = np.abs(x)
    whole = np.floor(size)
    rounded = np.sign(x) * (whole + np.floor(2 * (size - whole)))
    return rounded.astype(np.int8).view(np.uint8)


def _four(x: Any) -> Any:
    codes = np.minimum(np.trunc(x + np.float32(8.5)), 15).astype(np.uint8)
    half = BLOCK // 2
    return codes[..., :half] | codes[..., half:] << 4


def wide(codes: Any, scales: Any) -> Any:
    """Return the numbers that codes and scales stand for, as float32; the shapes determine the bits of a code."""
    bits = codes.shape[-1] * 8 // (scales.shape[-1] * BLOCK)
    out = np.empty((*codes.shape[:-1], codes.shape[-1] * 8 // bits), np.float32)
    call_of("dequantize", {"bits": bits}, [codes, scales], [out])()
    return out
