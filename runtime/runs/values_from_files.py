"""Initial values in files beside a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from prograd_proto import program_pb2 as pb
from prograd_proto import type_of
from runtime.conversion import converted
from runtime.dtypes import Array, array_type
from runtime.errors import DataError
from runtime.files.program_files import verified
from runtime.files.tensor_files import read_arrays
from runtime.memory.limit import MemoryLimit


def values_from_files(
    program: pb.ProgramDesc,
    folder: Path,
    states: Sequence[pb.StateDesc],
    memory: MemoryLimit,
    into: Mapping[str, Array] = MappingProxyType({}),
) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the values that states have in files, and for each state without one the reason.

    Each file is verified before its content is used. Values are read into the arrays of `into`, by state, where the
    types are equal, so that they are not in memory twice.
    """
    found: dict[str, Array] = {}
    unread: dict[str, str] = {}
    for path in sorted({state.external.path for state in states}):
        ours = [state for state in states if state.external.path == path]
        try:
            there = {s.external.key: into[s.name] for s in ours if s.name in into}
            with verified(program, folder, path, memory) as reader:
                tensors = read_arrays(folder / path, reader, [s.external.key for s in ours], into=there)
            found |= {state.name: fitting(state, tensors[state.external.key], folder) for state in ours}
        except DataError as error:
            unread |= {state.name: str(error) for state in ours}
    return found, unread


def fitting(state: pb.StateDesc, tensor: Array, folder: Path) -> Array:
    """Return a tensor of a file in the type of its state; raise DataError if it has another."""
    path, key = folder / state.external.path, state.external.key
    found, wanted = array_type(tensor), type_of(state)
    if wanted not in (found, found.wide):
        raise DataError(f"{path}: {key!r} is {found}, the state {state.name!r} is {wanted}")
    return tensor if found == wanted else converted(tensor, wanted.dtype)
