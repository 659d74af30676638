"""The verb `cache`: what it lists, removes and refuses."""

import json
import os
import sys
from pathlib import Path

import pytest

from runtime.__main__ import main
from runtime.engines.native.cache.entries import keep
from runtime.engines.native.cache.entry import Entry, Label


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PROGRAD_CACHE", str(folder))
    for i, (program, name) in enumerate((("digits", "avx2"), ("", "avx2"), ("two\nlines", "neon"))):
        keep(Entry(Label(f"{i}" * 64, program, name, [["group_0"]], [2000 * i]), bytes(2000 * i)))
        os.utime(folder / f"{str(i) * 64}.code", (1e9 + i, 1e9 + i))
    (folder / "damaged.code").write_bytes(b"x" * 5000)
    os.utime(folder / "damaged.code", (5e8, 5e8))
    return folder


def test_it_lists_what_is_kept_the_last_used_first(folder, capsys):
    assert main(["cache"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        "    KiB  last used         for      program",
        "      4  2001-09-09 01:46  neon     two\\nlines",
        "      2  2001-09-09 01:46  avx2     every program",
        "      0  2001-09-09 01:46  avx2     digits",
        "      5  1985-11-05 00:53           not used: not whole, or not safe",
    ]
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert lines[-1] == f"KEPT files=4 bytes={total} most=268435456 folder={folder}"


def test_the_tables_of_a_step_are_told_from_its_functions(folder, capsys):
    keep(Entry(Label("f" * 64, "digits", "avx2", [], [100], "0" * 64), bytes(100)))
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("  avx2     digits (tables)")
    assert main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"][0]["holds"] == "tables"


def test_quiet_leaves_the_result_line(folder, capsys):
    assert main(["cache", "-q"]) == 0
    assert capsys.readouterr().out.startswith("KEPT files=4 ")


def test_as_json_it_says_the_same(folder, capsys):
    assert main(["cache", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["folder"], said["most_bytes"]) == (str(folder), 256 << 20)
    assert said["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert said["kept"][2] == {
        "file": f"{'0' * 64}.code",
        "bytes": (folder / f"{'0' * 64}.code").stat().st_size,
        "used": "2001-09-09T01:46:40+00:00",
        "whole": True,
        "holds": "functions",
        "program": "digits",
        "instruction_set": "avx2",
    }
    assert [file["whole"] for file in said["kept"]] == [True, True, True, False]


def test_clear_removes_it_and_leaves_the_rest(folder, capsys):
    (folder / "notes.txt").write_text("mine")
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("REMOVED files=4 bytes=")
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert main(["cache", "--clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == []


def test_a_file_that_cannot_be_removed_is_named(folder, monkeypatch, capsys):
    def refuse(self, missing_ok=False):
        raise PermissionError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["cache", "--clear"]) == 4
    assert capsys.readouterr() == ("", f"runtime: {folder / ('2' * 64)}.code: read-only file system\n")


def test_a_folder_that_is_not_there_has_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "none"))
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"KEPT files=0 bytes=0 most=268435456 folder={tmp_path / 'none'}\n"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("value", ["", "0", "off"])
def test_without_a_folder_it_says_why_nothing_is_kept(value, monkeypatch, capsys):
    monkeypatch.setenv("PROGRAD_CACHE", value)
    assert main(["cache"]) == 0
    out, err = capsys.readouterr()
    assert out == "KEPT files=0 bytes=0 most=268435456 folder=\n"
    assert err == "runtime: nothing is kept, as the environment variable PROGRAD_CACHE turns the cache off\n"


@pytest.mark.parametrize("value", ["1", "false", "here/cache", "~/cache"])
def test_a_relative_folder_is_refused_and_not_made(value, tmp_path, monkeypatch, capsys):
    program = str(Path(__file__).parents[2] / "examples" / "digits_mlp.pb")
    monkeypatch.setenv("PROGRAD_CACHE", value)
    monkeypatch.chdir(tmp_path)
    for command in (["cache"], ["execute", program, "--engine", "native"]):
        assert main(command) == 2
        err = capsys.readouterr().err.splitlines()  # the run may speak of its rows before
        assert err[-1] == (
            f"runtime: PROGRAD_CACHE is {value!r}, a relative path; "
            "give an absolute path, or off to store no compiled code"
        )
    assert not Path(value).exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes of folders are those of POSIX")
@pytest.mark.parametrize("more", [[], ["--clear"]], ids=["list", "clear"])
def test_a_folder_that_is_not_ours_alone_is_left_alone(folder, monkeypatch, capsys, more):
    folder.chmod(0o777)
    before = sorted(folder.iterdir())
    assert main(["cache", *more]) == 2
    assert capsys.readouterr().err == (
        f"runtime: {folder} may be written by others, so it is not used; PROGRAD_CACHE names another one\n"
    )
    link = folder.with_name("link")
    link.symlink_to(folder)
    monkeypatch.setenv("PROGRAD_CACHE", str(link))
    assert main(["cache", *more]) == 2
    assert f"{link} is a symbolic link, so it is not used" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before
