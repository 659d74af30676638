"""Layers: short functions that declare states and call operators.

    x = layers.dense(x, "hidden", 64)
    with program.scope("encoder"):
        x = layers.transformer_block(x, "block0", heads=4, lengths=lengths)

The first argument is the tensor, [n, ..., c] with rows first and channels last; its program declares the states. Then
come a name and sizes. The names of states begin with the open scopes and that name, as in `hidden.w` and `hidden.b`.
States have the dtype of the tensor. A layer does no more than its source shows: for another one, copy it and change the
copy.

dense         the product with weights, and a bias; sparse_dense for rows of positions and values
conv          convolution along one, two or three axes; conv_norm with batch normalisation behind it
norm          batch_norm, layer_norm and group_norm
embedding     rows of a table by number; positions by a table, or by sines and cosines
attention     attention with heads, masks, lengths and rotary positions, and with a cache for loops that decode
recurrent     lstm and gru, one or several layers, in one direction or both
residual      residual and dropout
transformer   transformer_block, and cached_transformer_block of one position
other_names   names of Keras and PyTorch for these layers
asked         checks of a layer's arguments
"""

from prograd.layers.attention import attention as attention
from prograd.layers.attention import attention_cache as attention_cache
from prograd.layers.attention import cached_attention as cached_attention
from prograd.layers.conv import conv as conv
from prograd.layers.conv import conv_norm as conv_norm
from prograd.layers.dense import dense as dense
from prograd.layers.dense import sparse_dense as sparse_dense
from prograd.layers.embedding import embedding as embedding
from prograd.layers.embedding import positions as positions
from prograd.layers.embedding import sinusoidal_positions as sinusoidal_positions
from prograd.layers.norm import batch_norm as batch_norm
from prograd.layers.norm import group_norm as group_norm
from prograd.layers.norm import layer_norm as layer_norm
from prograd.layers.recurrent import gru as gru
from prograd.layers.recurrent import lstm as lstm
from prograd.layers.residual import dropout as dropout
from prograd.layers.residual import residual as residual
from prograd.layers.transformer import cached_transformer_block as cached_transformer_block
from prograd.layers.transformer import transformer_block as transformer_block


def __getattr__(name: str) -> object:
    from prograd.layers.other_names import no_layer

    raise AttributeError(no_layer(name, __dir__()))


def __dir__() -> list[str]:
    """Return the names that a notebook completes."""
    own = globals().items()
    return sorted(name for name, thing in own if callable(thing) and not name.startswith("_"))
