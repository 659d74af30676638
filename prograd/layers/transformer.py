"""The repeated block of transformers."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops
from prograd.layers.asked import channels, layer
from prograd.layers.attention import attention
from prograd.layers.dense import dense
from prograd.layers.norm import layer_norm
from prograd.layers.residual import residual
from registry.settings import Number


@layer
def transformer_block(
    x: Value,
    name: str,
    heads: int,
    *,
    width: int = 0,
    mask: Value | None = None,
    lengths: Value | None = None,
    causal: bool = False,
    rotary: bool = False,
    dropout: Number = 0.0,
    activation: Callable[[Value], Value] = ops.gelu,
) -> Value:
    """Return attention and two dense layers of x, with pre-normalisation and residuals: Xiong et al., 2020.

    Args:
        x: sequences of floats [n, l, c]; their program declares states under `name.norm1`, `name.attention`,
            `name.norm2`, `name.forward1` and `name.forward2`.
        name: name of the block.
        heads: number of attention heads.
        width: size of the first dense layer; 4 * c by default.
        mask: as in `attention`.
        lengths: as in `attention`.
        causal: as in `attention`.
        rotary: as in `attention`.
        dropout: probability of dropout before each sum.
        activation: function between the dense layers.
    """
    size = channels(f"transformer_block {name!r}", x, rank=3)

    def attend(x: Value) -> Value:
        x = layer_norm(x, f"{name}.norm1")
        return attention(x, f"{name}.attention", heads, mask=mask, lengths=lengths, causal=causal, rotary=rotary)

    def forward(x: Value) -> Value:
        x = layer_norm(x, f"{name}.norm2")
        x = activation(dense(x, f"{name}.forward1", width or 4 * size))
        return dense(x, f"{name}.forward2", size)

    return residual(residual(x, attend, dropout=dropout), forward, dropout=dropout)
