"""The states of an imported program as the tensors of the model that it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from prograd_proto import program_pb2 as pb
from runtime.dtypes import Array
from runtime.errors import UsageError
from runtime.files.tensor_files import write_safetensors


def write_imported(
    path: str | os.PathLike[str],
    program: pb.ProgramDesc,
    arrays: Mapping[str, Array],
    layout: str,
    *,
    force: bool,
) -> None:
    """Write the tensors of a model under its names and with its axes; a tied tensor is written under each name.

    Raises UsageError for an unknown layout, or if no state was imported; for other errors see `write_output`.
    """
    if layout != "torch":
        raise UsageError(f"layout={layout!r} is not one of prograd, torch")
    tensors = {
        name: _of_model(arrays[state.name], state.imported.axes)
        for state in program.states
        if state.HasField("imported") and state.name in arrays
        for name in state.imported.names
    }
    if not tensors:
        raise UsageError("layout='torch': no state of this program was imported from a module")
    write_safetensors(path, tensors, {}, force=force)


def _of_model(array: Array, axes: Any) -> Array:
    """Return a state with the axes of the model."""
    return np.ascontiguousarray(np.transpose(array, np.argsort(axes))) if len(axes) == array.ndim > 0 else array
