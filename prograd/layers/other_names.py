"""Names of Keras and PyTorch for these layers, and for layers without parameters, which are operators here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from prograd import ops
from prograd_proto.spelling import closest, closest_and_all

_HERE: Final = {
    "batchnorm": "layers.batch_norm",
    "batchnormalization": "layers.batch_norm",
    "conv1d": "layers.conv, for any number of axes",
    "conv2d": "layers.conv, for any number of axes",
    "conv3d": "layers.conv, for any number of axes",
    "fc": "layers.dense",
    "groupnorm": "layers.group_norm",
    "input": "program.input",
    "layernorm": "layers.layer_norm",
    "layernormalization": "layers.layer_norm",
    "linear": "layers.dense",
    "maxpool2d": "ops.max_pool",
    "multiheadattention": "layers.attention",
    "sequential": "one layer behind the other: x = ops.relu(layers.dense(x, 'hidden', 32))",
    "transformerencoderlayer": "layers.transformer_block",
}


_ARGUMENTS: Final = {
    "activation": "write the operator around the layer, as in ops.relu(layers.dense(x, 'hidden', 32))",
    "channels": "size",
    "dilation_rate": "dilation",
    "embedding_dim": "size",
    "eps": "epsilon",
    "features": "size",
    "filters": "size",
    "hidden": "size",
    "hidden_size": "size",
    "input_dim": "leave it out: it is the last extent of x",
    "in_channels": "leave it out: it is the last extent of x",
    "in_features": "leave it out: it is the last extent of x",
    "kernel": "window",
    "kernel_size": "window",
    "num_embeddings": "count",
    "num_heads": "heads",
    "out_channels": "size",
    "out_features": "size",
    "output_dim": "size",
    "numbers": "indices",
    "p": "ratio",
    "program": "leave it out: it is the program of the tensor",
    "strides": "stride",
    "units": "size",
    "use_bias": "bias",
}


def no_argument(name: str, known: Sequence[str]) -> str:
    """Return the replacement for an argument that a layer does not have."""
    meant = _ARGUMENTS.get(name, "")
    if name == "p" and "dropout" in known:
        meant = "dropout"
    if meant in known:
        return f"there is no argument {name!r}; here it is called {meant}"
    if " " in meant:
        return f"there is no argument {name!r}; {meant}"
    return f"there is no argument {name!r}{closest_and_all(name, known)}"


def layer_called(name: str, layers: Collection[str]) -> str:
    """Return the layer that other libraries call by this name, "" if there is none."""
    word = name.lower()
    return _HERE.get(word, f"layers.{word}" if word in layers else "")


def no_layer(name: str, known: Sequence[str]) -> str:
    """Return a sentence that says that there is no such layer, and which layer or operator to use."""
    word = name.lower()
    if word in _HERE or word in known:
        return f"there is no layer {name!r}; write {_HERE.get(word, f'layers.{word}')}"
    if word in dir(ops):
        return f"there is no layer {name!r}, as it has no parameters; write ops.{word}"
    return f"there is no layer {name!r}{closest(name, known) or '; there are ' + ', '.join(known)}"
