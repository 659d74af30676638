"""Numbers of few bits in blocks that share a scale."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.shapes import require
from registry.traits import example
from registry.value import Value


@example((2, 4), (2, 1))
@op(differentiable=False, halves=True)
def dequantize(codes: Value, scales: Value, *, bits: int = 8) -> TensorType:
    """Return the numbers that blocks of codes stand for, each times the scale of its block, as float32.

    `codes` are uint8 and `scales` float16, alike but for the last axis, along which a scale is for a block of equal
    size. With 8 bits an element is scale * code, a byte in two's complement. With 4 bits a byte has two elements,
    scale * (code - 8): the lower halves of the bytes of a block are its first elements, the upper halves the others.
    Blocks of 32 elements are Q8_0 and Q4_0 of GGUF.
    """
    require(bits in (8, 4), f"bits is {bits}, neither 8 nor 4")
    require(codes.dtype == "uint8", f"the codes are {codes.dtype}, not uint8")
    require(scales.dtype == "float16", f"the scales are {scales.dtype}, not float16")
    require(
        codes.rank > 0 and codes.rank == scales.rank and codes.shape[:-1] == scales.shape[:-1],
        f"the codes are {codes.type} and the scales {scales.type}, which differ in another axis than the last",
    )
    count, blocks = codes.shape[-1], scales.shape[-1]
    require(isinstance(count, int) and isinstance(blocks, int), "the last axes have no fixed extents")
    require(
        int(blocks) > 0 and int(count) > 0 and int(count) % int(blocks) == 0,
        f"{blocks} blocks do not divide {count} bytes of codes",
    )
    return TensorType("float32", (*codes.shape[:-1], int(count) * 8 // bits))
