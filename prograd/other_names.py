"""Names of Keras and PyTorch for functions that `prograd` has under other names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from prograd_proto.spelling import closest

_HERE: Final = {
    "callback": "prograd.callbacks.Callback",
    "earlystopping": "prograd.callbacks.EarlyStopping",
    "modelcheckpoint": "run.train(checkpoint='folder', keep_best=3)",
    "reducelronplateau": "prograd.schedules.reduce_on_plateau, or prograd.callbacks.ReduceOnPlateau",
    "reduceonplateau": "prograd.callbacks.ReduceOnPlateau, or prograd.schedules.reduce_on_plateau",
    "dataloader": "prograd.data.pack or prograd.data.write for a file of rows, or run.train(data={'x': x})",
    "dataset": "prograd.data.pack or prograd.data.write for a file of rows, or run.train(data={'x': x})",
    "keras": "prograd.Program, prograd.layers and prograd.ops",
    "model": "prograd.Program, and layers as functions: x = layers.dense(x, 'hidden', 32)",
    "module": "prograd.Program, and layers as functions: x = layers.dense(x, 'hidden', 32)",
    "nn": "prograd.layers for what has parameters, and prograd.ops for all else",
    "optim": "an optimizer itself, as prograd.adam or prograd.sgd",
    "parameter": "program.parameter('w', (3, 4))",
    "sequential": "prograd.Program, and one layer after another: x = ops.relu(layers.dense(x, 'hidden', 32))",
    "sparse_adam": "prograd.lazy(prograd.adam(0.001))",
    "sparseadam": "prograd.lazy(prograd.adam(0.001))",
    "tensor": "program.input('x', 'float32', ('batch', 4)), or program.constant(1.0)",
    "trainer": "prograd.load('program.pb').train()",
    "variable": "program.parameter('w', (3, 4)), or program.buffer",
}


def no_public_name(name: str, known: Sequence[str]) -> AttributeError:
    """Return the error for a name that prograd does not have, with its replacement."""
    word = name.lower()
    if word in _HERE:
        return AttributeError(f"there is no {name!r} in prograd; write {_HERE[word]}")
    if hint := closest(name, known):
        return AttributeError(f"there is no {name!r} in prograd{hint}")
    layers = import_module("prograd.layers")
    found = import_module("prograd.layers.other_names").layer_called(name, dir(layers))
    return AttributeError(f"there is no {name!r} in prograd{f'; write {found}' if found else ''}")
