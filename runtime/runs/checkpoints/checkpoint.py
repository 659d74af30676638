"""Checkpoints: all states of a run and its position, in one safetensors file.

The file has one tensor per state, by its name, and the states of the best evaluation as `run:best:<state>`. States that
no step updates, and that have the values of the program's own files, are left out: the line has the hash of each, and a
reader takes them from these files. The metadata key `prograd` holds a line of JSON with sorted keys, which has the hash
of the tensors. The key `prograd_sha256` holds the hash of that line. So every bit that has a meaning is covered. No
field is a time or a path: equal runs write equal files. docs/format.md describes the fields.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from prograd_proto import ProgramError, TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.states import held
from runtime.dtypes import Array, array_type, numpy_dtype
from runtime.errors import Damaged, DataError
from runtime.files.tensor_files import read_metadata, read_safetensors, safetensors_parts, write_safetensors
from runtime.runs.checkpoints.classes import class_hashes
from runtime.runs.position import Position
from runtime.runs.states import States, tensors_sha256

FORMAT: Final = 2  # format 1, without a hash of the description, is read as well
LEFT_OUT: Final = "left_out"
KEY: Final = "prograd"
HASH_KEY: Final = "prograd_sha256"
BEST: Final = "run:best:"
_OWN: Final = "run:"  # no state has a name with a colon


class Checkpoint(NamedTuple):
    """The content of a file: tensors by name, and its line of JSON, which is empty for files of other programs."""

    path: Path
    tensors: dict[str, Array]
    about: dict[str, Any]


def write_checkpoint(
    path: str | os.PathLike[str],
    program: pb.ProgramDesc,
    sha256: str,
    states: States,
    position: Position,
    *,
    force: bool = False,
) -> None:
    """Write a run to a file, whole or not at all; for errors see `write_output`.

    Args:
        path: path of the file.
        program: program of the run.
        sha256: hash of the program.
        states: states of the run, of which the unchanged ones are left out.
        position: position of the run.
        force: replace a file that exists.
    """
    tensors = ChainMap({}, cast(Any, states.whole()), cast(Any, states.joined(position.best, BEST)))
    left_out = states.digests()
    types = {name: type for name, type in states.types.items() if name not in left_out}
    types |= {BEST + name: states.types[name] for name in position.best}
    about = _about(program, sha256) | {"tensors_sha256": tensors_sha256(tensors, types), "position": position.to_json()}
    about |= {LEFT_OUT: left_out} if left_out else {}
    text = _line(about)
    metadata = {KEY: text, HASH_KEY: _sha256(text)}
    if states.pieces is not None and not states.pieces.is_first:
        for _ in safetensors_parts(tensors, metadata, types):
            pass  # the first rank writes; this one sends it the pieces
        return
    write_safetensors(path, tensors, metadata, force=force, types=types)


def about_run(program: pb.ProgramDesc, sha256: str) -> tuple[str, str]:
    """Return the line of JSON of a run that leaves out no state: before its position, and from there to its last hash.

    Libraries write checkpoints by these parts; see `runtime/ahead/`.
    """
    before, after = _line(_about(program, sha256) | {"position": 0, "tensors_sha256": ""}).split('"position":0')
    return f'{before}"position":', after.removesuffix('"}')


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the content of a file.

    Raises Damaged if it is corrupt, DataError if it is missing, cannot be read, or is of a newer format.
    """
    tensors, metadata = read_safetensors(path)
    about = _description(path, metadata)
    if about:
        try:
            found = tensors_sha256(tensors, {name: array_type(array) for name, array in tensors.items()})
        except ProgramError:  # an element type that programs do not have
            found = ""
        if found != about["tensors_sha256"]:
            raise Damaged(f"{path}: the checkpoint is damaged: its tensors do not have the hash that it names")
    return Checkpoint(path, tensors, about)


def read_description(path: Path) -> dict[str, Any]:
    """Return the description in a file, without reading its tensors; for errors see `read_checkpoint`."""
    return _description(path, read_metadata(path))


def resume(checkpoint: Checkpoint, sha256: str, states: States) -> Position:
    """Restore all states, and return the position of the run.

    Raises ProgramError if the checkpoint is of another program, DataError if it names no program or is not whole.
    """
    path, tensors, about = checkpoint
    if not about:
        raise DataError(f"{path}: this has tensors but no run to resume; load it instead")
    if about.get("program_sha256") != sha256:
        other = str(about.get("program_sha256"))
        raise ProgramError(
            f"{path}: the checkpoint is of another program, {other[:16]}..., this one is {sha256[:16]}...; "
            "load takes its parameters only"
        )
    position = Position.from_json(about["position"])
    own = {name: array for name, array in tensors.items() if name.startswith(_OWN)}
    best = {name.removeprefix(BEST): array for name, array in own.items() if name.startswith(BEST)}
    found = {name: array for name, array in tensors.items() if name not in own}
    left_out = states.fixed & about.get(LEFT_OUT, {}).keys()
    _checked(path, found, states.types, left_out)
    if best:
        _checked(path, best, states.types, states.fixed)
    states.restore(left_out)
    for name, array in found.items():
        states.put(name, states.part(name, array))
    position.best = {name: _kept(states, name, array) for name, array in best.items()}
    return position


def is_of_run(name: str) -> bool:
    """Return True if a tensor belongs to the run, as those of the best evaluation do, and is no state."""
    return name.startswith(_OWN)


def _description(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the line of JSON, with every field of its type; empty if there is no such line."""
    if KEY not in metadata:
        return {}
    text = metadata[KEY]
    try:
        if HASH_KEY in metadata and metadata[HASH_KEY] != _sha256(text):
            raise ValueError("it does not have the hash that the file names")
        about = _parsed(text)
        newer = type(about.get("format")) is int and about["format"] > FORMAT
        if not newer:
            _check_description(about, hashed=HASH_KEY in metadata)
    except ValueError as error:
        raise Damaged(f"{path}: the checkpoint's description is damaged: {error}") from None
    if newer:
        format = about["format"]
        raise DataError(
            f"{path}: the checkpoint has format {format}, this prograd reads those up to {FORMAT}; update prograd"
        )
    return about


def _parsed(text: str) -> dict[str, Any]:
    from json import loads

    try:
        about: object = loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(about, dict):
        raise ValueError("it is no JSON object")
    return cast(dict[str, Any], about)


def _check_description(about: Mapping[str, Any], *, hashed: bool) -> None:
    """Raise ValueError unless every field is present and of its type."""
    format = about.get("format")
    if type(format) is not int or not 1 <= format <= FORMAT or (format > 1 and not hashed):
        raise ValueError("it has no format, or no hash, which its format wants")
    for name in ("program_sha256", "tensors_sha256"):
        if not isinstance(about.get(name), str):
            raise ValueError(f"{name} is no text")
    for name in ("slots", "counters", "epoch"):
        listed: object = about.get(name, [] if name == "epoch" else None)
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in cast(list[object], listed)):
            raise ValueError(f"{name} is no list of names")
    if not isinstance(about.get("classes", {}), dict):
        raise ValueError("classes are no hashes by column")
    left_out: object = about.get(LEFT_OUT, {})
    if not isinstance(left_out, dict) or not all(
        isinstance(h, str) for h in cast(dict[str, object], left_out).values()
    ):
        raise ValueError(f"{LEFT_OUT} has no hashes by state")
    Position.from_json(about.get("position"))


def _about(program: pb.ProgramDesc, sha256: str) -> dict[str, Any]:
    """Return the fields of a description that do not change during a run."""
    passing = sorted(state.name for state in held(program) if state.lifespan == pb.LIFESPAN_EPOCH)
    about = {
        "format": FORMAT,
        "program_sha256": sha256,
        "slots": _names(program, pb.STATE_KIND_SLOT),
        "counters": _names(program, pb.STATE_KIND_COUNTER),
    }
    about |= {"epoch": passing} if passing else {}
    return about | ({"classes": hashes} if (hashes := class_hashes(program)) else {})


def _line(about: Mapping[str, Any]) -> str:
    from json import dumps

    return dumps(about, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _sha256(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def _names(program: pb.ProgramDesc, kind: pb.StateKind) -> list[str]:
    return sorted(state.name for state in held(program) if state.kind == kind)


def _kept(states: States, name: str, array: Array) -> Array:
    """Return the elements of a best state that this process has, without holding the others in memory."""
    part = states.part(name, array)
    return part if part is array else part.copy()


def _checked(
    path: Path, found: Mapping[str, Array], wanted: Mapping[str, TensorType], optional: Collection[str]
) -> None:
    """Raise DataError unless exactly the wanted tensors are present, but for optional ones, each of its type."""
    from prograd_proto.spelling import closest

    for name in wanted:
        if name not in found and name not in optional:
            raise DataError(f"{path}: there is no tensor {name!r}, which the program has as a state")
    for name, array in found.items():
        if name not in wanted:
            raise DataError(f"{path}: the tensor {name!r} is no state of the program{closest(name, wanted)}")
        if (array.dtype, array.shape) != (numpy_dtype(wanted[name].dtype), wanted[name].shape):
            there, here = array_type(array), wanted[name]
            raise DataError(f"{path}: the tensor {name!r} is {there}, the program's state is {here}")
