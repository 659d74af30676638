"""The repeated block of transformers, of sequences and of one position with a cache."""

from __future__ import annotations

from collections.abc import Callable

from prograd import Value, ops
from prograd.layers.asked import channels, layer
from prograd.layers.attention import attention, cached_attention
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
        return _forward(x, name, width or 4 * size, activation)

    return residual(residual(x, attend, dropout=dropout), forward, dropout=dropout)


@layer
def cached_transformer_block(
    x: Value,
    name: str,
    heads: int,
    cache: tuple[Value, Value],
    position: Value,
    *,
    width: int = 0,
    rotary: bool = False,
    activation: Callable[[Value], Value] = ops.gelu,
) -> tuple[Value, tuple[Value, Value]]:
    """Return one position x [n, 1, c] after `transformer_block(…, causal=True)`, and the cache with its key and value.

    Args:
        x: one position of sequences of floats; the states are those of `transformer_block`.
        name: name of the block.
        heads: number of attention heads.
        cache: as in `cached_attention`.
        position: as in `cached_attention`.
        width: as in `transformer_block`.
        rotary: as in `attention`.
        activation: function between the dense layers.
    """
    size, y = channels(f"cached_transformer_block {name!r}", x, rank=3), layer_norm(x, f"{name}.norm1")
    y, cache = cached_attention(y, f"{name}.attention", heads, cache, position, rotary=rotary)
    x = x + y
    return x + _forward(x, name, width or 4 * size, activation), cache


def _forward(x: Value, name: str, width: int, activation: Callable[[Value], Value]) -> Value:
    """Return the two dense layers behind their normalisation."""
    y = activation(dense(layer_norm(x, f"{name}.norm2"), f"{name}.forward1", width))
    return dense(y, f"{name}.forward2", int(x.shape[-1]))
