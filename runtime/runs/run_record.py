"""A run in a small JSON file: its inputs, results and machine; `runtime replay` reads it.

Files are recorded by their SHA-256 and not by their paths: the record tells their content, not their location.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

from prograd_proto.file_names import files_of
from prograd_proto.regular_files import open_regular
from runtime.errors import DataError
from runtime.files.output import write_output

FORMAT: Final = 1
MAX_BYTES: Final = 1 << 20
"""Upper bound in bytes on a record that is read: 1 MiB."""


@dataclass(frozen=True)
class RunRecord:
    """One run.

    Attributes:
        program_sha256: hash of the program, which names its data files by their hashes.
        entry: the entry that ran.
        seed: seed of the run.
        steps: total number of steps, 0 for an entry that does not train.
        split: split of the rows; "" for those that the program names.
        data: SHA-256 of the file in place of the program's own data, "" if there was none.
        load: SHA-256 of the file that parameters were loaded from, "" if there was none.
        feeds: by name, the SHA-256 of a file after "@", or a JSON value.
        resumed: True if it continued from a checkpoint, whose own beginning the record does not know.
        engine: name of the engine.
        state_sha256: hash of all states at the end.
        machine: result of `this_machine`.
        settings: numbers with all their digits by name; older records have none.
    """

    program_sha256: str
    entry: str
    seed: int
    steps: int
    split: str
    data: str
    load: str
    feeds: dict[str, str]
    resumed: bool
    engine: str
    state_sha256: str
    machine: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict[str, str])


def write_record(path: Path, record: RunRecord, *, force: bool) -> None:
    """Write the record; for errors see `write_output`."""
    text = json.dumps(record_values(record), indent=2, sort_keys=True)
    write_output(path, text.encode() + b"\n", force=force)


def record_values(record: RunRecord) -> dict[str, Any]:
    """Return a record as JSON values."""
    values = asdict(record)
    if not record.settings:
        del values["settings"]
    return {"format": FORMAT} | values


def read_record(path: Path) -> RunRecord:
    """Return the record in a file; raise DataError if there is none, or it is damaged or of a newer prograd."""
    values = json_of(path, read_at_most(path, MAX_BYTES, "record", "record of a run"), "record of a run")
    if not isinstance(values, dict) or "format" not in values:
        raise DataError(f"{path}: this is no record of a run: it has no format")
    return record_from(path, cast(dict[str, Any], values))


def read_at_most(path: Path, most: int, name: str, what: str) -> bytes:
    """Return the bytes of a file; raise DataError if it cannot be read or has more than `most`.

    `name` and `what` are the words of the sentences, as in "record" and "record of a run".
    """
    try:
        with open_regular(path) as file:
            raw = file.read(most + 1)
    except OSError as error:
        raise DataError(f"{path}: the {name} cannot be read: {error.strerror or error}") from None
    if len(raw) > most:
        raise DataError(f"{path}: this is no {what}: it is larger than {most} bytes")
    return raw


def json_of(path: Path, raw: bytes, what: str) -> object:
    """Return the JSON value in the bytes of a file; raise DataError for other bytes."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: this is no {what}: it is not JSON") from None


def record_from(path: Path, values: Mapping[str, Any]) -> RunRecord:
    """Return the record from the JSON values in a file; raise DataError if it is damaged or of a newer prograd."""
    if values.get("format") != FORMAT:
        raise DataError(f"{path}: the record has format {values.get('format')!r}, this prograd reads {FORMAT}")
    return _checked(path, values)


def file_sha256(path: Path) -> str:
    """Return the hexadecimal hash of a file, or of several files with one name as if they were one.

    Raises DataError if it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for name in files_of(path.parent, path.name):
            with open_regular(path.parent / name) as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        return digest.hexdigest()
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror or error}") from None


def _checked(path: Path, values: Mapping[str, Any]) -> RunRecord:
    kinds = {"seed": int, "steps": int, "resumed": bool, "feeds": dict, "machine": dict, "settings": dict}
    given: dict[str, Any] = {}
    values = {"settings": dict[str, str](), **values}
    for part in fields(RunRecord):
        kind, value = kinds.get(part.name, str), values.get(part.name)
        sane = type(value) is kind
        if kind is dict and isinstance(value, dict):
            words = cast(dict[str, Any], value).values()
            sane = all(isinstance(word, str) for word in words)
        if not sane:
            raise DataError(f"{path}: the record is damaged: its {part.name!r} is no {kind.__name__}")
        given[part.name] = value
    record = RunRecord(**given)
    if not -(1 << 63) <= record.seed < 1 << 63 or not 0 <= record.steps < 1 << 63:
        raise DataError(f"{path}: the record is damaged: it has seed {record.seed} and {record.steps} steps")
    return record
