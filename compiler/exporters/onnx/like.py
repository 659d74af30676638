"""Names and metadata of the ONNX file that a program was imported from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.exporters.onnx.finishing import rename
from compiler.frontends.onnx.texts import texts_of_model
from prograd_proto.entry_views import SPELLING_KEY


def give_names(model: Any, like: Any) -> None:
    """Give the inputs, results and dimensions of a model the names of another one, and its metadata to the model."""
    give_texts(model, texts_of_model(like))


def give_texts(model: Any, texts: Mapping[str, str]) -> None:
    """Give a model the texts of the file that its program was imported from, and the names that the import replaced.

    Names that other tensors have are not given. The first producer is in the metadata, as `prograd.imported_from`.
    """
    _give_names(model, texts)
    metadata = {key.removeprefix("metadata "): text for key, text in texts.items() if key.startswith("metadata ")}
    if "producer" in texts:
        metadata.setdefault("prograd.imported_from", texts["producer"])
    known = {each.key for each in model.metadata_props}
    for key in sorted(metadata.keys() - known):
        model.metadata_props.add(key=key, value=metadata[key])
    model.doc_string, model.graph.name = texts.get("doc", ""), texts.get("graph", model.graph.name)


def _give_names(model: Any, texts: Mapping[str, str]) -> None:
    taken = {tensor.name for tensor in model.graph.initializer} | {n for node in model.graph.node for n in node.output}
    taken |= {value.name for value in model.graph.input}
    renamed: dict[str, str] = {}
    for value in (*model.graph.input, *model.graph.output):
        name = texts.get(f"{SPELLING_KEY}{value.name}", value.name)
        if name not in taken:
            renamed[value.name] = value.name = name
            taken.add(name)
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = texts.get(f"dimension {dim.dim_param}", dim.dim_param)
    for node in model.graph.node if renamed else ():
        rename(node, renamed)
