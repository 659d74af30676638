"""Peculiarities of layers of Keras in files of tf2onnx: second biases of zeros, folded batch normalisations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.frontends.onnx.reading import Tensors

PRODUCER: Final = "tf2onnx"
"""The exporter of Keras' models."""

SCALE: Final = "/batchnorm/mul"
"""Part of the name of the scale of a batch normalisation: gamma divided by the deviation."""

NOTE_OF_BIASES: Final = (
    "the second biases of {count} recurrent layers are zeros, which tf2onnx adds to the one of Keras and training "
    "leaves as they are"
)
"""The note about biases, with their number."""

NOTE_OF_NORMS: Final = (
    "the exporter folded {count} batch normalisations into scales and shifts, which training moves without statistics"
)
"""The note about normalisations, with their number."""

BIAS: Final = 3
"""Position of the operand with both biases, [directions, 2 * gates * size]."""


def cut_biases(onnx: Any, model: Any, tensors: Tensors) -> list[str]:
    """Store the first bias of recurrent layers alone where the second one is zeros; return a note. Edits the graph.

    Keras has one bias where ONNX has two, and training both would move their sum twice as fast.
    """
    graph = model.graph
    versions = {imported.domain: imported.version for imported in model.opset_import}
    if model.producer_name != PRODUCER or versions.get("", 0) < 11:
        return []
    stored = {tensor.name: tensor for tensor in graph.initializer}
    count = 0
    for place in reversed(range(len(graph.node))):
        node = graph.node[place]
        name = node.input[BIAS] if node.op_type in ("LSTM", "RNN") and len(node.input) > BIAS else ""
        if name not in stored or sum(name in other.input for other in graph.node) != 1:
            continue
        biases = tensors.array(stored[name])
        half = biases.shape[-1] // 2
        if biases.ndim != 2 or biases[:, half:].any():
            continue
        stored[name].CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(biases[:, :half]), name))
        pads, whole = f"{name}_pads", f"{name}_and_zeros"
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, 0, half]), pads))
        node.input[BIAS] = whole
        graph.node.insert(place, onnx.helper.make_node("Pad", [name, pads], [whole]))
        count += 1
    return [NOTE_OF_BIASES.format(count=count)] if count else []


def folded_norms(model: Any) -> list[str]:
    """Return a note about batch normalisations that the exporter wrote as products and sums."""
    names = {tensor.name for tensor in model.graph.initializer}
    count = sum(
        node.op_type == "Mul" and any(SCALE in n for n in names.intersection(node.input)) for node in model.graph.node
    )
    return [NOTE_OF_NORMS.format(count=count)] if count and model.producer_name == PRODUCER else []
