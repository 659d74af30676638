"""What Keras and PyTorch call the layers that are here, and what is no layer here because it has no parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prograd import ops
from prograd_proto.spelling import closest

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
    "sequential": "one layer behind the other: x = ops.relu(layers.dense(program, 'hidden', x, 32))",
    "transformerencoderlayer": "layers.transformer_block",
}


def no_layer(name: str, known: Sequence[str]) -> str:
    """That there is no such layer, and which of those that are known is meant, or which operator."""
    word = name.lower()
    if word in _HERE or word in known:
        return f"there is no layer {name!r}; write {_HERE.get(word, f'layers.{word}')}"
    if word in dir(ops):
        return f"there is no layer {name!r}, as it has no parameters; write ops.{word}"
    return f"there is no layer {name!r}{closest(name, known) or '; there are ' + ', '.join(known)}"
