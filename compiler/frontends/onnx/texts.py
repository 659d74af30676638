"""Descriptions, metadata and original names of an ONNX file, stored in the program for a later export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from prograd_proto.entry_views import SPELLING_KEY

LONGEST_KEY: Final = 900
"""Characters of a key; a program accepts names of up to 1,000."""


def plain_name(name: str) -> str:
    """Return a name as an import writes it."""
    return re.sub(r"[^\w.]", "_", name).strip(".")


def plain_dimension(name: str) -> str:
    """Return the symbol that an import makes of the name of a dimension."""
    word = re.sub(r"\W", "_", name)
    return f"size_{word}" if word[:1].isdigit() else word


def dimension_name(name: str, axis: int, dim: Any) -> str:
    """Return the name of a dimension without a size; one that the file does not name is of the input and the axis."""
    is_named = re.search(r"[^\W_]", dim.dim_param)  # exporters write ? for sizes that have no name
    return dim.dim_param if is_named else plain_dimension(f"{name}_{axis}")


def texts_of_model(model: Any, spelled: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the texts of a model by key; `spelled` has the names of an import and their spellings in the model.

    The keys are `doc`, `graph` and `producer`; `metadata KEY`; and, where an import writes another name, `name NAME`
    for an input or a result and `dimension SYMBOL` for a size.
    """
    graph = model.graph
    made = {
        "doc": model.doc_string,
        "graph": graph.name,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
    }
    made |= {f"metadata {each.key}": each.value for each in model.metadata_props}
    stored = {tensor.name for tensor in graph.initializer}
    values = [each for each in (*graph.input, *graph.output) if each.name not in stored]
    if spelled is None:
        spelled = {plain_name(each.name): each.name for each in values if plain_name(each.name) != each.name}
    made |= {f"{SPELLING_KEY}{own}": name for own, name in spelled.items()}
    sizes = {dim.dim_param for each in values for dim in each.type.tensor_type.shape.dim if dim.dim_param}
    made |= {f"dimension {plain_dimension(size)}": size for size in sorted(sizes) if plain_dimension(size) != size}
    return {key: text for key, text in made.items() if text and key.isprintable() and len(key) <= LONGEST_KEY}
