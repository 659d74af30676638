"""Numbers of few bits in blocks that share a scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, kernel


def dequantize_scratch(scales: TensorType) -> list[TensorType]:
    return [TensorType("float32", scales.shape)]


@kernel(scratch=dequantize_scratch)
def dequantize(codes: Array, scales: Array, *, bits: int, out: Array, scratch: list[Array]) -> None:
    [wide] = scratch
    blocks = scales.shape[-1]
    size = codes.shape[-1] // blocks
    given: Any = codes.reshape(*codes.shape[:-1], blocks, size)  # splitting an axis copies nothing
    made: Any = out.reshape(*out.shape[:-1], blocks, size * 8 // bits)
    if bits == 8:
        np.copyto(made, given.view(np.int8))
    else:
        np.bitwise_and(given, 15, out=made[..., :size], casting="unsafe")
        np.right_shift(given, 4, out=made[..., size:], casting="unsafe")
        np.subtract(made, 8, out=made)
    np.copyto(wide, scales)
    np.multiply(made, wide[..., None], out=made)
