"""Format version 1 is final: its fields keep their numbers and types, and its files never change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import END, RETIRED, load

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


def test_the_fields_that_readers_leave_out_are_those_that_the_schema_reserves():
    schema = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(schema)
    reserved = {
        message.name: tuple(number for part in message.reserved_range for number in range(part.start, part.end))
        for message in schema.message_type
        if message.reserved_range
    }
    assert reserved == RETIRED


def test_a_file_with_retired_fields_loads_without_them_and_hides_no_other_unknown_field(tmp_path: Path):
    program = load(GOLDEN / "compiled" / "v1_linear.pb")
    [op, *_] = program.blocks[0].ops
    whole = program.SerializeToString(deterministic=True)
    op.MergeFromString(b"\x4a\x02\x08\x00")  # field 9: output 0 lies in the memory of an input
    (tmp_path / "old.pb").write_bytes(program.SerializeToString(deterministic=True) + END)
    assert load(tmp_path / "old.pb").SerializeToString(deterministic=True) == whole
    op.MergeFromString(b"\xf8\x01\x01")  # field 31
    (tmp_path / "newer.pb").write_bytes(program.SerializeToString(deterministic=True) + END)
    with pytest.raises(ProgramError, match="field 31 of OpDesc is unknown to this prograd"):
        load(tmp_path / "newer.pb")
