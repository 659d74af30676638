"""Layers: functions that declare states and call operators, each as short as one would write it oneself.

    x = layers.dense(program, "hidden", x, 64)
    with program.scope("encoder"):
        x = layers.transformer_block(program, "block0", x, heads=4, lengths=lengths)

The program and a name come first: states are called after the name, `hidden.w` and `hidden.b`, behind the scopes that
are open. Then come the tensor, [n, ..., c] with rows first and channels last, and sizes. States have the dtype of the
tensor. No layer does more than one can see: who needs another one copies it and changes the copy.

dense         the product with weights, and a bias
conv          convolution along one, two or three axes; conv_norm with batch normalisation behind it
norm          batch_norm, layer_norm and group_norm
embedding     rows of a table by number; positions by a table, or by sines and cosines
attention     attention with heads, masks, lengths and rotary positions
recurrent     lstm and gru, several of them above each other, in one direction or both
residual      residual and dropout
transformer   transformer_block
other_names   what Keras and PyTorch call the layers that are here
asked         what a layer asks of the tensor that it is given
"""

from prograd.layers.attention import attention as attention
from prograd.layers.conv import conv as conv
from prograd.layers.conv import conv_norm as conv_norm
from prograd.layers.dense import dense as dense
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
from prograd.layers.transformer import transformer_block as transformer_block


def __getattr__(name: str) -> object:
    from prograd.layers.other_names import no_layer

    raise AttributeError(no_layer(name, __dir__()))


def __dir__() -> list[str]:
    """What a notebook completes."""
    own = globals().items()
    return sorted(name for name, thing in own if callable(thing) and not name.startswith("_"))
