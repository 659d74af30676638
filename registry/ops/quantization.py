"""Numbers of few bits in blocks that share a scale."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.traits import example
from registry.value import Value


@example((2, 4), (2, 1))
@op(differentiable=False)
def dequantize(codes: Value, scales: Value, *, bits: int = 8) -> TensorType:
    """Return the numbers that blocks of codes stand for, each times the scale of its block, as float32.

    `codes` are uint8 and `scales` float16, alike but for the last axis, along which a scale is for a block of equal
    size. With 8 bits an element is scale * code, a byte in two's complement. With 4 bits a byte has two elements,
    scale * (code - 8): the lower halves of the bytes of a block are its first elements, the upper halves the others.
    Blocks of 32 elements are Q8_0 and Q4_0 of GGUF.
    """
    ...
