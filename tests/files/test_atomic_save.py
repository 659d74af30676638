"""A save that fails, whenever and however, leaves the old file and nothing else."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from prograd_proto import ProgramError, atomic, files
from prograd_proto import program_pb2 as pb
from prograd_proto.atomic import write_atomically


def test_bytes_and_writers_write_the_same(tmp_path: Path):
    write_atomically(tmp_path / "a", b"abc")
    write_atomically(tmp_path / "b", lambda file: file.write(b"abc"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"abc"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_file_that_exists_is_replaced_only_with_force(tmp_path: Path):
    write_atomically(tmp_path / "a", b"old")
    with pytest.raises(FileExistsError) as error:
        write_atomically(tmp_path / "a", b"new")
    assert str(error.value) == "the file exists; force=True replaces it"
    assert (tmp_path / "a").read_bytes() == b"old"
    write_atomically(tmp_path / "a", b"new", force=True)
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_writer_that_fails_halfway_leaves_the_old_file_alone(tmp_path: Path):
    write_atomically(tmp_path / "a", b"old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", fail, force=True)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_in_any_step_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    write_atomically(tmp_path / "a", b"old")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="Input/output error"):
        write_atomically(tmp_path / "a", b"new", force=True)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_is_on_disk_before_it_has_its_name_and_the_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def record_replace(source: str, target: str) -> None:
        assert Path(source).read_bytes() == b"new"
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    write_atomically(tmp_path / "a", b"new")
    assert steps == ["file", "name", "folder"]


FULL_DISK = """
import resource, signal, sys
from prograd_proto import ProgramError, files, program_pb2 as pb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing beyond the limit fails as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
program = pb.ProgramDesc(format_version=1, name="x" * 1_000_000)
try:
    files.save(program, "x.pb", force=True)
except ProgramError as error:
    print(error, type(error.__cause__).__name__)
"""


def test_a_save_that_finds_no_room_leaves_the_old_program(tmp_path: Path):
    old = pb.ProgramDesc(format_version=1, name="old")
    files.save(old, tmp_path / "x.pb")
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # the limit would truncate .pyc files too
    )
    assert run.stdout == "x.pb: the file cannot be written: File too large OSError\n"
    assert files.load(tmp_path / "x.pb") == old
    assert os.listdir(tmp_path) == ["x.pb"]


def test_every_refusal_to_save_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    program = pb.ProgramDesc(format_version=1)
    files.save(program, "x.pb")
    sentences = {
        "x.pb": "x.pb: the file exists; force=True replaces it",
        "no/x.pb": "no/x.pb: the file cannot be written: No such file or directory",
        "x.pb/x.pb": "x.pb/x.pb: the file cannot be written: Not a directory",
        ".": ".: the file cannot be written: what is there is not a regular file",
        "/dev/null": "/dev/null: the file cannot be written: what is there is not a regular file",
    }
    for path, sentence in sentences.items():
        with pytest.raises(ProgramError) as error:
            files.save(program, path)
        assert str(error.value) == sentence


def test_a_device_is_not_replaced_by_a_file_even_with_force(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="what is there is not a regular file"):
        write_atomically(tmp_path / "pipe", b"abc", force=True)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_link_keeps_pointing_where_it_did_and_the_file_keeps_its_mode(tmp_path: Path):
    write_atomically(tmp_path / "real", b"old")
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o600


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path):
    write_atomically(tmp_path / "a", b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_temporary_file_is_never_opened_through_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(atomic.os, "urandom", lambda count: b"\0" * count)
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (tmp_path / f".prograd-{os.getpid()}-000000000000.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "a", b"new")
    assert victim.read_bytes() == b"kept"
