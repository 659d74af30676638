"""The statement about a run, in in-toto's form: https://in-toto.io/Statement/v1.

Its subjects are the files of the run, by their SHA-256: the program, what it read, and the states if they were saved.
Its predicate has the record of the run, its metrics, the pieces of its inputs, and the chain of its steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from runtime.errors import DataError
from runtime.files.output import write_output
from runtime.runs.evidence.chain import Link, from_json, to_json
from runtime.runs.evidence.envelope import Signature, Signer, opened
from runtime.runs.evidence.inputs import InputFile, input_from_json
from runtime.runs.run_record import RunRecord, json_of, read_at_most, record_from, record_values

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:prograd:training-run:1"
WHAT: Final = "statement about a run"
"""The words for the file in sentences."""

MAX_BYTES: Final = 1 << 28
"""Upper bound in bytes on a statement that is read: 256 MiB, some 30 million steps."""


class Statement(NamedTuple):
    """The content of a statement about a run.

    Attributes:
        record: the run.
        metrics: the fields of the metrics in its result line.
        inputs: the files that it read.
        outputs: by name, the SHA-256 of the files that it wrote.
        every: steps between two links of the chain.
        links: the chain.
    """

    record: RunRecord
    metrics: Mapping[str, str]
    inputs: Sequence[InputFile]
    outputs: Mapping[str, str]
    every: int
    links: Sequence[Link]


class Found(NamedTuple):
    """A statement that was read, its bytes, and their signatures."""

    statement: Statement
    raw: bytes
    signatures: list[Signature]


def write_statement(path: Path, statement: Statement, signer: Signer | None, *, force: bool) -> None:
    """Write a statement, signed if there is a key; for errors see `write_output`."""
    files = {file.name: file.sha256 for file in statement.inputs} | dict(statement.outputs)
    subject = [{"name": name, "digest": {"sha256": digest}} for name, digest in files.items()]
    predicate: dict[str, Any] = {
        "run": record_values(statement.record),
        "metrics": dict(statement.metrics),
        "inputs": [file._asdict() for file in statement.inputs],
    }
    predicate["sha256"] = {part: _sha256(value) for part, value in _parts(subject, predicate).items()}
    predicate["chain"] = {"every": statement.every, "links": to_json(statement.links)}
    values = {"_type": STATEMENT, "subject": subject, "predicateType": PREDICATE, "predicate": predicate}
    raw = json.dumps(values, indent=1, sort_keys=True).encode() + b"\n"
    write_output(path, raw if signer is None else signer.signed(raw), force=force)


def read_statement(path: Path) -> Found:
    """Return the statement in a file, whose chain is whole; raise DataError if there is none or it is damaged."""
    raw = read_at_most(path, MAX_BYTES, "statement", WHAT)
    values, signatures = _object(path, raw), list[Signature]()
    if "payload" in values:
        raw, signatures = opened(path, values)
        values = _object(path, raw)
    if values.get("_type") != STATEMENT or values.get("predicateType") != PREDICATE:
        raise DataError(f"{path}: this is no statement about a run of prograd")
    try:
        return Found(_statement(path, values), raw, signatures)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = str(error) if type(error) is ValueError else "a part of it is missing"
        raise DataError(f"{path}: the statement is damaged: {why}") from None


def _object(path: Path, raw: bytes) -> dict[str, Any]:
    values = json_of(path, raw, WHAT)
    if not isinstance(values, dict):
        raise DataError(f"{path}: this is no {WHAT}: it is no JSON object")
    return cast("dict[str, Any]", values)


def _parts(subject: object, predicate: Mapping[str, Any]) -> dict[str, object]:
    """Return the parts of a statement that have a hash each; the links of the chain have their own."""
    return {"subject": subject} | {part: predicate[part] for part in ("run", "metrics", "inputs")}


def _sha256(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _statement(path: Path, values: Mapping[str, Any]) -> Statement:
    predicate = values["predicate"]
    for part, value in _parts(values["subject"], predicate).items():
        if predicate["sha256"].get(part) != _sha256(value):
            raise ValueError(f"its {part!r} does not have the hash that it names")
    record = record_from(path, predicate["run"])
    inputs = [input_from_json(each) for each in predicate["inputs"]]
    digests = {str(each["name"]): str(each["digest"]["sha256"]) for each in values["subject"]}
    for file in inputs:
        if digests.pop(file.name, None) != file.sha256:
            raise ValueError(f"its subject {file.name!r} has another hash than its input")
    every = predicate["chain"]["every"]
    if type(every) is not int or every < 1:
        raise ValueError("its chain has no interval")
    links = from_json(predicate["chain"]["links"], record.program_sha256)
    metrics = {str(name): str(value) for name, value in predicate["metrics"].items()}
    return Statement(record, metrics, inputs, digests, every, links)
