"""Format version 1 is final: its fields keep their numbers and types, and its files never change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from prograd_proto import program_pb2 as pb

GOLDEN = Path(__file__).parents[1] / "golden"


def words() -> Iterator[str]:
    """A line for every field and every enumerator of the schema of today."""
    schema = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(schema)
    for message in schema.message_type:
        for field in message.field:
            label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
            kind = field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
            one_of = f" of {message.oneof_decl[field.oneof_index].name}" if field.HasField("oneof_index") else ""
            yield f"{message.name}.{field.name} = {field.number}: {label} {kind}{one_of}"
    for enum in schema.enum_type:
        for value in enum.value:
            yield f"{enum.name}.{value.name} = {value.number}"


def test_what_version_1_has_stays_as_it_is():
    frozen = set((GOLDEN / "v1_schema.txt").read_text(encoding="utf-8").splitlines())
    assert frozen - set(words()) == set()


@pytest.mark.parametrize(
    ("name", "digest"),
    [line.split("  ")[::-1] for line in (GOLDEN / "SHA256SUMS").read_text(encoding="utf-8").splitlines()],
)
def test_no_file_of_a_final_version_changes(name: str, digest: str):
    assert hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest() == digest


def test_every_file_of_a_final_version_is_listed():
    listed = {line.split("  ")[1] for line in (GOLDEN / "SHA256SUMS").read_text(encoding="utf-8").splitlines()}
    files = [*GOLDEN.rglob("*.pb"), *GOLDEN.rglob("*.safetensors"), *GOLDEN.rglob("*.json")]
    assert listed == {path.relative_to(GOLDEN).as_posix() for path in files}
