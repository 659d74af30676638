"""Names and metadata of the ONNX file that a program was imported from."""

# pyright: basic
# onnx is imported by name and has no types here.

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler.exporters.onnx.finishing import rename


def plain_name(name: str) -> str:
    """Return a name as an import writes it."""
    return re.sub(r"[^\w.]", "_", name).strip(".")


def give_names(model: Any, like: Any) -> None:
    """Give the inputs, results and dimensions of a model the names of another one, and its metadata to the model.

    A name stays where the other model has none that an import would have written like it, or where it is taken.
    """
    renamed: dict[str, str] = {}
    taken = {tensor.name for tensor in model.graph.initializer} | {n for node in model.graph.node for n in node.output}
    for own, others in ((model.graph.input, like.graph.input), (model.graph.output, like.graph.output)):
        names = {plain_name(other.name): other for other in others}
        for value in own:
            other = names.get(value.name)
            if other is None:
                continue
            if other.name not in taken - {value.name}:
                renamed[value.name] = value.name = other.name
            _name_dimensions(value, other)
    _rename_all(model, renamed)
    known = {each.key for each in model.metadata_props}
    model.metadata_props.extend(each for each in like.metadata_props if each.key not in known)
    model.doc_string, model.graph.name = like.doc_string, like.graph.name or model.graph.name


def _rename_all(model: Any, renamed: Mapping[str, str]) -> None:
    changed = {old: new for old, new in renamed.items() if old != new}
    for node in model.graph.node if changed else ():
        rename(node, changed)


def _name_dimensions(value: Any, other: Any) -> None:
    """Give unknown sizes the names that they have in the other file."""
    dims, others = value.type.tensor_type.shape.dim, other.type.tensor_type.shape.dim
    if len(dims) == len(others):
        for dim, there in zip(dims, others, strict=True):
            if dim.dim_param and there.dim_param:
                dim.dim_param = there.dim_param
