"""The program file: what goes in comes out, what is no program is refused, equal programs are equal bytes."""

import hashlib
import random
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subjects.commands import told
from subjects.random_programs import odd_programs, programs

from prograd_proto import ProgramError, files
from prograd_proto import program_pb2 as pb
from prograd_proto.identity import program_sha256, state_sha256

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "proto" / "prograd_proto" / "program.proto"

Damage = list[tuple[int, bytes]]
"""Positions, and the replacement of the byte at each."""


@given(programs())
def test_a_saved_program_loads_as_it_was(tmp_path_factory: pytest.TempPathFactory, program: pb.ProgramDesc):
    path = tmp_path_factory.mktemp("saved") / "x.pb"
    files.save(program, path)
    assert files.load(path) == program
    files.save(files.load(path), path.with_name("again.pb"))
    assert path.read_bytes() == path.with_name("again.pb").read_bytes()


@given(odd_programs())
def test_canonical_bytes_give_back_the_program_but_for_the_end_mark(program: pb.ProgramDesc):
    before = program.SerializeToString(deterministic=True)
    raw = files.canonical_bytes(program)
    assert program.SerializeToString(deterministic=True) == before
    program.ClearField("complete")
    # Compared as bytes: a message with a NaN does not equal itself.
    assert pb.ProgramDesc.FromString(raw).SerializeToString(deterministic=True) == raw
    assert raw == program.SerializeToString(deterministic=True)


def test_canonical_bytes_do_not_depend_on_the_order_of_assignment():
    ahead = pb.ProgramDesc(format_version=1)
    ahead.name = "a"
    ahead.run.epochs = 3
    ahead.data.file = "d"
    behind = pb.ProgramDesc()
    behind.data.file = "d"
    behind.run.epochs = 3
    behind.name = "a"
    behind.format_version = 1
    assert files.canonical_bytes(ahead) == files.canonical_bytes(behind)


def test_a_file_is_the_canonical_bytes_and_the_end_mark(tmp_path: Path):
    program = small_program()
    files.save(program, tmp_path / "x.pb")
    assert (tmp_path / "x.pb").read_bytes() == files.canonical_bytes(program) + b"\xf8\xff\xff\xff\x0f\x01"


def test_every_cut_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    files.save(small_program(), "x.pb")
    whole = Path("x.pb").read_bytes()
    sentences = {refusal_of(whole[:size]) for size in range(len(whole))}
    assert sentences == {
        "x.pb: the file is empty",
        "x.pb: this is not a prograd program, or it is damaged or cut short",
        "x.pb: the file is cut short: its end mark is missing",
    }


@given(st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=3)), min_size=1, max_size=3))
def test_a_damaged_file_is_refused_or_is_still_a_program(tmp_path_factory: pytest.TempPathFactory, damage: Damage):
    path = tmp_path_factory.mktemp("damaged") / "x.pb"
    raw = bytearray(files.canonical_bytes(small_program()) + files.END)
    for position, replacement in damage:
        raw[position : position + 1] = replacement
    path.write_bytes(raw)
    program = program_or_refusal(path)
    if isinstance(program, str):
        assert program.startswith(f"{path}: ")
    else:
        files.save(program, path, force=True)
        assert files.load(path) == program


def program_or_refusal(path: Path) -> pb.ProgramDesc | str:
    try:
        return files.load(path)
    except ProgramError as error:
        return str(error)


def test_random_bytes_text_and_other_messages_are_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    damaged = "x.pb: this is not a prograd program, or it is damaged or cut short"
    versionless = "x.pb: this is not a prograd program: it has no format version"
    assert refusal_of(random.Random(0).randbytes(1000)) == damaged
    assert refusal_of(b"import numpy as np\n") == damaged
    assert refusal_of(b"\x89PNG\r\n\x1a\n") == damaged
    assert refusal_of(pb.ProgramDesc(name="digits").SerializeToString()) == versionless
    assert refusal_of(pb.Dim(symbol="batch").SerializeToString()) == versionless


def test_a_newer_format_is_refused_even_if_its_fields_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    raw = pb.ProgramDesc(format_version=3).SerializeToString() + b"\x9a\x06\x00"
    assert refusal_of(raw) == "x.pb: format version 3, this prograd reads up to 1; update prograd"


def test_an_unknown_field_anywhere_is_refused_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    program = small_program()
    assert refusal_of(files.canonical_bytes(program) + b"\x98\x06\x01" + files.END) == (
        "x.pb: field 99 of ProgramDesc is unknown to this prograd; a newer one wrote it: update prograd"
    )
    program.blocks[0].ops[0].MergeFromString(b"\xc8\x01\x07")
    assert refusal_of(files.canonical_bytes(program) + files.END) == (
        "x.pb: field 25 of OpDesc is unknown to this prograd; a newer one wrote it: update prograd"
    )


def test_what_is_not_a_file_to_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert load_error("x.pb") == "x.pb: no such file"
    assert load_error(".") == ".: the file cannot be read: this is a folder, not a file"
    assert load_error("/dev/zero") == "/dev/zero: the file cannot be read: this is not a regular file"
    Path("loop.pb").symlink_to("loop.pb")
    assert load_error("loop.pb") == "loop.pb: the file cannot be read: Too many levels of symbolic links"
    with open("big.pb", "wb") as big:
        big.truncate(2**30 + 1)  # a hole: no disk is used
    assert load_error("big.pb") == "big.pb: the file has 1073741825 bytes, more than the 1073741824 of a program file"


def test_a_program_too_big_or_of_another_version_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "MAX_BYTES", 20)
    assert told(ProgramError, lambda: files.save(pb.ProgramDesc(format_version=1, name="x" * 20), "x.pb")) == (
        "x.pb: the program takes 30 bytes, more than the 20 of a program file; put big tensors into a file beside it"
    )
    with pytest.raises(ProgramError) as error:
        files.save(pb.ProgramDesc(), "x.pb")
    assert str(error.value) == "x.pb: the program says format version 0, this prograd writes 1"
    assert not Path("x.pb").exists()


def test_the_program_hash_is_that_of_the_canonical_bytes_of_what_it_computes():
    bare = small_program()
    full = small_program()
    full.producer = "somebody 2.0"
    full.locations.append("train.py:3")
    full.blocks[0].ops[0].location = 1
    full.states.add(name="w").op.location = 1
    bare.states.add(name="w").op.SetInParent()
    full.run.epochs = 3
    full.complete = True
    full.entries.add(name="train").bindings.add(block=0).plan.arena_bytes = 64
    bare.entries.add(name="train").bindings.add(block=0)
    before = full.SerializeToString(deterministic=True)
    assert program_sha256(full) == hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()
    assert full.SerializeToString(deterministic=True) == before


@pytest.mark.thorough
@given(programs(), programs())
def test_programs_have_equal_hashes_only_if_they_are_equal(one: pb.ProgramDesc, other: pb.ProgramDesc):
    for program in (one, other):
        del program.locations[:]
        for op in program.blocks[0].ops:
            op.location = 0
    same_bytes = one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
    assert (program_sha256(one) == program_sha256(other)) == same_bytes


def test_the_state_hash_is_over_the_documented_bytes_in_the_order_of_names():
    framed = (
        b"\2\0\0\0\0\0\0\0"
        b"\1\0\0\0\0\0\0\0" b"a" b"\5\0\0\0\0\0\0\0" b"int32" b"\0\0\0\0\0\0\0\0" b"\4\0\0\0\0\0\0\0" b"\1\2\3\4"
        b"\2\0\0\0\0\0\0\0" b"\xc3\xa9" b"\5\0\0\0\0\0\0\0" b"uint8"
        b"\2\0\0\0\0\0\0\0" b"\1\0\0\0\0\0\0\0" b"\2\0\0\0\0\0\0\0" b"\2\0\0\0\0\0\0\0" b"\7\x08"
    )  # fmt: skip
    states = [("é", "uint8", (1, 2), bytearray(b"\7\x08")), ("a", "int32", (), memoryview(b"\1\2\3\4"))]
    assert state_sha256(states) == hashlib.sha256(framed).hexdigest()
    assert state_sha256(reversed(states)) == hashlib.sha256(framed).hexdigest()


def test_state_hashes_tell_names_types_shapes_and_values_apart():
    alike = [
        [],
        [("a", "uint8", (0,), b"")],
        [("a", "uint8", (2,), b"bc")],
        [("ab", "uint8", (1,), b"c")],
        [("a", "uint8", (2, 1), b"bc")],
        [("a", "bool", (2,), b"bc")],
        [("a", "uint8", (1,), b"b"), ("c", "uint8", (0,), b"")],
    ]
    assert len({state_sha256(states) for states in alike}) == len(alike)


def test_states_that_are_not_what_they_say_have_no_hash():
    with pytest.raises(ProgramError, match=re.escape("state 'w': 7 bytes are not a float32[2]")):
        state_sha256([("w", "float32", (2,), b"1234567")])
    with pytest.raises(ProgramError, match=re.escape("state 'w' is there twice")):
        state_sha256([("w", "uint8", (1,), b"1"), ("w", "uint8", (1,), b"2")])


@pytest.mark.skipif(not find_spec("grpc_tools"), reason="grpcio-tools 1.74 has no wheel for Python 3.14 and later")
def test_the_generated_code_is_that_of_the_schema(tmp_path: Path):
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", *outputs, SCHEMA], check=True)
    for name in ("program_pb2.py", "program_pb2.pyi"):
        fresh = (tmp_path / "prograd_proto" / name).read_text()
        assert fresh == (SCHEMA.parent / name).read_text(), f"{name} is not current: run make proto"


def test_buf_finds_nothing_in_the_schema():
    buf = Path(sys.executable).with_name("buf")
    lint = subprocess.run([buf, "lint"], cwd=ROOT / "proto", capture_output=True, text=True)
    assert (lint.stdout + lint.stderr, lint.returncode) == ("", 0)


def small_program() -> pb.ProgramDesc:
    program = pb.ProgramDesc(format_version=1, name="small", operators=[pb.OperatorVersion(type="relu", version=1)])
    program.blocks.add().ops.add(type="relu", inputs=["x"], outputs=["y"])
    return program


def refusal_of(raw: bytes) -> str:
    """Return the sentence of `load` for a file x.pb with these bytes."""
    Path("x.pb").write_bytes(raw)
    return load_error("x.pb")


def load_error(path: str) -> str:
    with pytest.raises(ProgramError) as error:
        files.load(path)
    return str(error.value)
