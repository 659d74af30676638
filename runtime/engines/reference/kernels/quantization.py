"""Numbers of few bits in blocks that share a scale."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from prograd_proto import TensorType
from runtime.kernel import Array, Types, kernel, require, types

BITS: Final = (8, 4)
"""The bits that a code may have."""


def dequantize_rule(codes: TensorType, scales: TensorType, *, bits: int) -> Types:
    require(bits in BITS, f"bits is {bits}")
    require((codes.dtype, scales.dtype) == ("uint8", "float16"), f"the codes are {codes}, the scales {scales}")
    leading = codes.shape[:-1]
    require(codes.rank > 0 and codes.rank == scales.rank and leading == scales.shape[:-1], f"{codes} beside {scales}")
    count, blocks = codes.shape[-1], scales.shape[-1]
    require(isinstance(count, int) and isinstance(blocks, int), f"{codes} beside {scales}")
    require(int(blocks) > 0 and int(count) > 0 and int(count) % int(blocks) == 0, f"{blocks} blocks of {count} bytes")
    y = TensorType("float32", (*leading, int(count) * 8 // bits))
    return types(y, scratch=[TensorType("float32", scales.shape)])


@kernel(dequantize_rule, halves=True)
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
