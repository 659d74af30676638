"""Fused operators of ONNX Runtime, domain com.microsoft, in terms of those of ONNX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, pointwise
from compiler.frontends.onnx.node import Mapping, Node, cast, on_plain
from compiler.onnx_operators.conv import convolved
from compiler.onnx_operators.linalg import IMPORTS as PRODUCTS
from compiler.onnx_operators.linalg import matmul
from registry import Value, ops


def _embedded(node: Node, ids: Value, segments: Value | None, *tables: Value | None) -> Any:
    """Return the normalised sum of the embeddings of words, positions and segments."""
    words, positions, kinds, scale, bias, _, places = (*tables, *(None,) * 7)[:7]
    assert words is not None
    assert positions is not None
    assert scale is not None
    x = ops.gather(words, cast(ids, "int64"))
    x = x + (positions[: int(ids.shape[1])] if places is None else ops.gather(positions, cast(places, "int64")))
    if segments is not None and kinds is not None:
        x = x + ops.gather(kinds, cast(segments, "int64"))
    y = ops.layer_norm(x, scale, bias, epsilon=float(node.attribute("epsilon", 1e-12)))[0]
    count = None
    if node.wants(1):
        mask = node.optional_value(7)
        count = node.full((ids.shape[0],), 0, "int32") if mask is None else cast(ops.sum(mask, axis=(1,)), "int32")
    return y, count, x


def _fused_conv(node: Node) -> Any:
    """Return a convolution, to which a tensor may be added, and its activation."""
    y = convolved(node, node.tensor(0), node.tensor(1), node.optional(2))
    more = node.optional(3)
    y = y if more is None else pointwise(ops.add, y, more)
    return _activated(node, y)


def _activated(node: Node, y: Arranged) -> Arranged:
    """Return a tensor after the activation that a node names."""
    word, numbers = node.attribute("activation", ""), list(node.attribute("activation_params") or [])
    activations: dict[str, Any] = {
        "": lambda v: v,
        "Relu": ops.relu,
        "Tanh": ops.tanh,
        "Sigmoid": ops.sigmoid,
        "LeakyRelu": lambda v: ops.leaky_relu(v, alpha=numbers[0]),
        "Clip": lambda v: ops.clip(v, min=numbers[0], max=numbers[1]),
        "HardSigmoid": lambda v: ops.hard_sigmoid(v, alpha=numbers[0], beta=numbers[1]),
    }
    if word not in activations:
        raise CompileError(f"a fused activation {word!r}, which is none of {', '.join(filter(None, activations))}")
    return pointwise(activations[word], y)


def _fused_gemm(node: Node) -> Any:
    """Return a product with its bias and activation."""
    plain = replace(node, operator="Gemm", attributes={k: v for k, v in node.attributes.items() if k != "activation"})
    return _activated(node, PRODUCTS["Gemm"](plain))


def _of_few_bits(node: Node) -> Any:
    """Return a product with a matrix of 2, 4 or 8 bits, which is read as floats."""
    if node.has(4):
        raise CompileError("an order of its groups (g_idx), which is not supported")
    bits, size = int(node.attribute("bits", 4)), int(node.attribute("block_size"))
    rows, columns = int(node.attribute("N")), int(node.attribute("K"))
    blocks = -(-columns // size)
    if bits not in (2, 4, 8) or size < 1:
        raise CompileError(f"a matrix of {bits} bits in blocks of {size}")
    packed, scales = node.constant(1).reshape(rows, blocks, -1), node.constant(2).reshape(rows, blocks, 1)
    zeros: Any = float(2 ** (bits - 1))
    if node.has(3):
        given = node.constant(3).reshape(rows, -1)
        given = _unpacked(given, bits)[:, :blocks] if given.dtype == np.uint8 else given
        zeros = given.astype(np.float32)[:, :, None]
    whole = (_unpacked(packed, bits).astype(np.float32) - zeros) * scales.astype(np.float32)
    w = np.ascontiguousarray(whole.reshape(rows, blocks * size)[:, :columns].T)
    weight = node.walk.parameter(f"{node.outputs[0]}_weight", w)
    y = matmul(node.tensor(0), node.lifted(weight))
    return pointwise(ops.add, y, node.tensor(5)) if node.has(5) else y


def _unpacked(packed: Any, bits: int) -> Any:
    """Return the numbers of a few bits in bytes, the lowest bits first."""
    count = 8 // bits
    parts = [(packed >> (bits * i)) & (2**bits - 1) for i in range(count)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


IMPORTS: Final[dict[str, Mapping]] = {
    "com.microsoft.MatMulNBits": _of_few_bits,
    "com.microsoft.EmbedLayerNormalization": on_plain(_embedded),
    "com.microsoft.FusedConv": _fused_conv,
    "com.microsoft.FusedGemm": _fused_gemm,
}
