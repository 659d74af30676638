"""Only regular files are read: a pipe, device, folder or loop of links is a sentence, for every reader."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compiler import Program, from_file, ops, optimizers
from compiler.__main__ import main as compile_
from prograd_proto.regular_files import open_regular
from runtime.__main__ import main as run
from runtime.files.tensor_files import write_safetensors

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such files in its folders")

LOOP = "Too many levels of symbolic links"
KINDS = {
    "pipe": (os.mkfifo, "this is not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "this is not a regular file"),
    "folder": (Path.mkdir, "this is a folder, not a file"),
    "loop": (lambda path: path.symlink_to(path.name), LOOP),
}

each_kind = pytest.mark.parametrize("kind", KINDS)


def in_place_of(path: Path, kind: str) -> str:
    """Put what is no regular file at a path; what is said of it."""
    make, words = KINDS[kind]
    path.unlink(missing_ok=True)
    make(path)
    return words


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Path:
    """A folder with a program that reads a data file and a file of initial values."""
    folder = tmp_path_factory.mktemp("compiled")
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.float32)
    write_safetensors(folder / "d.safetensors", {"x": x, "y": y}, {}, force=True)
    write_safetensors(folder / "i.safetensors", {"w": np.zeros(2, np.float32)}, {}, force=True)
    program = Program("small")
    x, y = program.input("x", "float32", ("batch", 2)), program.input("y", "float32", ("batch",))
    w = program.parameter("w", (2,), from_file("i.safetensors"))
    program.minimize(ops.mean(ops.square(ops.sum(x * w, axis=(1,)) - y)), optimizers.sgd(0.1))
    program.data("d.safetensors")
    program.compile(batch=2).save(folder / "p.pb", force=True)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(capsys, kind: str, *command: str) -> tuple[int, str]:
    """The code and the last line of stderr of a command; one that may wait for ever is given a minute."""
    if kind == "pipe":
        done = subprocess.run([sys.executable, "-P", "-m", *command], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr.splitlines()[-1]
    code = {"runtime": run, "compiler": compile_}[command[0]](command[1:])
    return code, capsys.readouterr().err.splitlines()[-1]


@each_kind
def test_nothing_but_a_regular_file_is_opened(kind: str, tmp_path: Path):
    words = in_place_of(tmp_path / "f", kind)
    with pytest.raises(OSError, match=words):
        open_regular(tmp_path / "f")


def test_a_link_to_a_regular_file_is_opened(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("f")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"bytes"


@each_kind
@pytest.mark.parametrize("command", ["runtime check", "runtime execute", "compiler check", "compiler show"])
def test_a_program_is_a_regular_file(kind: str, command: str, folder: Path, capsys):
    words = in_place_of(folder / "p.pb", kind)
    name = command.partition(" ")[0]
    assert outcome(capsys, kind, *command.split(), "p.pb") == (3, f"{name}: p.pb: the file cannot be read: {words}")


@each_kind
@pytest.mark.parametrize("verb", ["check", "execute"])
@pytest.mark.parametrize("file", ["d.safetensors", "i.safetensors"])
def test_a_file_beside_a_program_is_regular(kind: str, verb: str, file: str, folder: Path, capsys):
    words = in_place_of(folder / file, kind)
    code, said = outcome(capsys, kind, "runtime", verb, "p.pb")
    outside = f"runtime: {file}: the file leads out of the program's folder, to /dev/zero"
    expected = outside if kind == "device" else f"runtime: {file}: the program's file cannot be read: {words}"
    assert (code, said) == (4, expected)


OPTIONS = {
    "data.safetensors": ("safetensors", "--data=data.safetensors"),
    "data.npz": ("npz", "--data=data.npz"),
    "x.npy": ("npy", "--feed=x=@x.npy"),
    "want.npy": ("npy", "--expect=loss=@want.npy"),
    "s.safetensors": ("safetensors", "--load=s.safetensors"),
}


@each_kind
@pytest.mark.parametrize("file", OPTIONS)
def test_a_file_that_an_option_names_is_regular(kind: str, file: str, folder: Path, capsys):
    form, option = OPTIONS[file]
    words = in_place_of(folder / file, kind)
    expected = f"this cannot be read as a {form} file: {words}"
    if (kind, option.split("=")[0]) == ("folder", "--data"):
        expected = f"this is a folder; name the files of rows in it, as in '{file}/part-*.safetensors'"
    assert run(["execute", "p.pb", "-q", option]) == 4
    assert capsys.readouterr().err == f"runtime: {file}: {expected}\n"


@each_kind
def test_a_table_of_buffers_and_a_text_form_are_regular(kind: str, folder: Path, capsys):
    words = in_place_of(folder / "b.csv", kind)
    assert compile_(["place", "b.csv"]) == 4
    assert capsys.readouterr().err == f"compiler: b.csv: the file cannot be read: {words}\n"
    in_place_of(folder / "p.txt", kind)
    assert compile_(["compile", "p.txt"]) == 3
    assert capsys.readouterr().err == f"compiler: p.txt: the file cannot be read: {words}\n"


@each_kind
def test_a_record_and_the_metrics_beside_it_are_regular(kind: str, folder: Path, capsys):
    command = ["execute", "p.pb", "-q", "--record", "r.json", "--metrics", "m.csv"]
    assert run(command) == 0
    capsys.readouterr()
    words = in_place_of(folder / "m.csv", kind)
    assert outcome(capsys, kind, "runtime", "replay", "p.pb", "-q", "--record", "r.json", "--expect-metrics", "m.csv")[
        1
    ].endswith(words)
    words = in_place_of(folder / "r.json", kind)
    assert outcome(capsys, kind, "runtime", "replay", "p.pb", "-q", "--record", "r.json") == (
        4, f"runtime: r.json: the record cannot be read: {words}"
    )  # fmt: skip
