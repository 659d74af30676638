"""Products of a recurrent layer's states and weights: of rounded operands, if the weights are bfloat16."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.factors import blockwise_matmul, flush, widened
from runtime.kernel import Array


def product_types(r: TensorType, h0: TensorType) -> list[TensorType]:
    """Return the scratch of a `StateProduct`: none for weights of the states' dtype.

    For narrower weights, it has the widened weights, a rounded operand, and the result of a block of the depth.
    """
    if r.dtype != "bfloat16":
        return []
    preactivations = TensorType("float32", (h0.shape[0], r.shape[1]))
    return [TensorType("float32", r.shape), preactivations, preactivations]


def state_product(r: Array, scratch: list[Array]) -> tuple[StateProduct, list[Array]]:
    """Return the product with weights, and the scratch that is left; weights of bfloat16 are bits."""
    if r.dtype != np.uint16:
        return StateProduct(r), scratch
    return StateProduct(widened(r, scratch[0]), scratch[1:3]), scratch[3:]


class StateProduct:
    """The product of states [n, h] with weights [h, g], and of gradients [n, g] with their transpose.

    Attributes:
        r: the weights.
        scratch: room for a rounded operand and for the result of a block of the depth; nothing if none is rounded.
    """

    def __init__(self, r: Array, scratch: Sequence[Array] = ()) -> None:
        self.r, self.scratch = r, scratch

    def forwards(self, states: Array, out: Array) -> None:
        """Write the product of states and weights."""
        self._multiply(states, self.r, out)

    def backwards(self, gradient: Array, out: Array) -> None:
        """Write the product of the gradient of preactivations and transposed weights."""
        self._multiply(gradient, self.r.T, out)

    def _multiply(self, x: Array, weights: Array, out: Array) -> None:
        if not self.scratch:
            np.matmul(x, weights, out)
            return
        rounded = round_to_bfloat16(x, self.scratch[0][:, : x.shape[1]])
        part = self.scratch[1].reshape(-1)[: out.size]
        blockwise_matmul(rounded, weights, out, [part])


def round_to_bfloat16(x: Array, out: Array) -> Array:
    """Write the nearest bfloat16 numbers as float32, ties to even; those below the least normal one become 0.

    The result may be written over x.
    """
    is_nan = np.isnan(x)
    np.copyto(out, x)
    bits = out.view(np.uint32)
    np.add(bits, ((bits >> 16) & 1) + np.uint32(0x7FFF), bits)
    np.bitwise_and(bits, np.uint32(0xFFFF0000), bits)
    np.copyto(out, np.float32(np.nan), where=is_nan)
    flush(out)
    return out
