"""Ownership of a folder of checkpoints, and files that are never removed from it."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from subjects.commands import told
from subjects.small_programs import linear, rich, save

import runtime
from compiler import Program, zeros
from prograd_proto import ProgramError
from prograd_proto.files import load
from registry import OpError
from runtime.__main__ import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    save(rich(), tmp_path, evaluate=None, keep_best=None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def execute(*arguments) -> int:
    return main(["execute", "p.pb", "-q", *map(str, arguments)])


def content(path: str | Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def steps(path: str | Path) -> list[int]:
    return sorted(int(name[5:15]) for name in os.listdir(path) if name.endswith(".safetensors"))


@pytest.mark.parametrize("other", ["another program", "the same program"])
def test_resuming_into_a_folder_of_another_run_changes_nothing_there(folder, capsys, other):
    execute("--checkpoint", "r1", "--every", 5)
    if other == "another program":
        save(linear(), folder, name="q.pb", evaluate=None, keep_best=None)
        main(["execute", "q.pb", "-q", "--checkpoint", "r2", "--every", "4", "--keep", "5"])
    else:
        execute("--checkpoint", "r2", "--every", 4, "--keep", 5, "--seed", 3)
    before = content("r2")
    capsys.readouterr()
    arguments = [
        "--load",
        "r1/step-0000000015.safetensors",
        "--resume",
        "--checkpoint",
        "r2",
        "--every",
        5,
        "--keep",
        2,
    ]
    assert execute(*arguments) == 2
    assert capsys.readouterr().err == (
        "runtime: r2: there are checkpoints already; --resume continues them, --force starts over\n"
    )
    assert content("r2") == before
    assert execute(*arguments, "--force") == 0
    assert steps("r2") == [20, 21]


def test_a_library_run_that_was_trained_elsewhere_does_not_rotate_another_ones_checkpoints(folder):
    list(runtime.load("p.pb").events(checkpoint="r2", every=4, keep=9))
    before = content("r2")
    run = runtime.load("p.pb")
    next(iter(run.events()))
    found = told(runtime.UsageError, lambda: run.events(checkpoint="r2", every=1, keep=1))
    assert found == "r2: there are checkpoints already; run.resume continues them, force=True starts over"
    assert content("r2") == before


def test_going_back_to_an_earlier_checkpoint_of_a_folder_wants_force(folder, capsys):
    execute("--checkpoint", "c", "--every", 5, "--keep", 9)
    before = content("c")
    arguments = ["--load", "c/step-0000000010.safetensors", "--resume", "--checkpoint", "c", "--every", 6, "--keep", 9]
    assert execute(*arguments) == 2
    assert capsys.readouterr().err == (
        "runtime: c/step-0000000015.safetensors: this is later than step 10, where the run stands; "
        "resume from it, or --force removes it\n"
    )
    assert content("c") == before
    assert execute(*arguments, "--force") == 0
    assert steps("c") == [5, 10, 12, 18, 21]


HOLDER = """
import sys, runtime
run = runtime.load("p.pb")
events = run.events(checkpoint="c", every=1)
next(events)
print("holds", flush=True)
sys.stdin.read()
"""


def test_two_processes_are_kept_apart_until_the_first_ends_however_it_does(folder, capsys):
    child = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "holds\n"
    for arguments in (["--checkpoint", "c"], ["--checkpoint", "c", "--force"], ["--checkpoint", "c", "--resume"]):
        assert execute(*arguments) == 2
        assert (
            f"runtime: c: process {child.pid} writes checkpoints here; wait for its end, or name another folder\n"
            in (capsys.readouterr().err)
        )
    child.kill()
    child.communicate()
    assert (folder / "c" / ".prograd-lock").exists()
    assert execute("--checkpoint", "c", "--resume") == 0
    assert [name for name in os.listdir("c") if name.startswith(".")] == []


def test_two_runs_of_one_process_are_kept_apart_until_the_first_is_dropped(folder):
    first = runtime.load("p.pb").events(checkpoint="c")
    second = runtime.load("p.pb")
    wanted = "c: another run of this process writes checkpoints here; name another folder"
    assert told(runtime.UsageError, lambda: second.events(checkpoint="c")) == wanted
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(told(runtime.UsageError, lambda: second.events(checkpoint="c")))
    )
    thread.start()
    thread.join()
    assert found == [wanted]
    del first
    list(second.events(checkpoint="c"))


def test_a_run_that_cannot_begin_lets_go_of_the_folder(folder):
    run = runtime.load("p.pb")
    assert "has no fetch and no tensor 'none'" in told(
        runtime.UsageError, lambda: run.events(checkpoint="c", fetch=["none"])
    )
    list(runtime.load("p.pb").events(checkpoint="c"))


def newer(file: Path) -> None:
    """Make it a whole checkpoint of a format to come."""
    with safe_open(file, "np") as opened:
        metadata = opened.metadata()
    text = json.dumps(json.loads(metadata["prograd"]) | {"format": 3})
    digest = hashlib.sha256(text.encode()).hexdigest()
    save_file(load_file(file), file, metadata={"prograd": text, "prograd_sha256": digest})


def test_a_newer_format_is_neither_passed_over_nor_written_over(folder, capsys):
    execute("--checkpoint", "c", "--every", 5)
    newer(folder / "c" / "step-0000000021.safetensors")
    before = content("c")
    for arguments in (["--resume"], ["--force"], ["--load", "c/step-0000000020.safetensors", "--resume", "--force"]):
        assert execute("--checkpoint", "c", *arguments) == 4
        assert capsys.readouterr().err.startswith(
            "runtime: c/step-0000000021.safetensors: "
            "the checkpoint has format 3, this prograd reads those up to 2; update prograd"
        )
        assert content("c") == before


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EMFILE, errno.EIO])
def test_what_cannot_be_read_is_neither_passed_over_nor_removed(folder, capsys, monkeypatch, fault):
    execute("--checkpoint", "c", "--every", 5)
    before = content("c")
    opened = os.open

    def refuse(path, *more, **options):
        if "step-0000000021" in str(path):
            raise OSError(fault, os.strerror(fault))
        return opened(path, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    file = "c/step-0000000021.safetensors: this cannot be read as a safetensors file: "
    assert execute("--checkpoint", "c", "--resume") == 4
    assert capsys.readouterr().err == (
        f"runtime: {file}{os.strerror(fault)}; move the file away to go on from the one before it\n"
    )
    assert execute("--checkpoint", "c", "--force") == 4
    monkeypatch.undo()
    assert content(folder / "c") == before


def test_an_older_checkpoint_that_cannot_be_known_is_never_rotated_away(folder, capsys):
    execute("--checkpoint", "c", "--every", 5, "--steps", 10)
    newer(folder / "c" / "step-0000000005.safetensors")
    assert execute("--checkpoint", "c", "--resume", "--retarget-schedule", "--every", 2, "--keep", 1) == 0
    assert steps("c") == [5, 21]


def test_a_damaged_newest_checkpoint_is_set_aside_and_written_anew(folder, capsys):
    execute("--checkpoint", "whole")
    execute("--checkpoint", "c", "--every", 5)
    newest = folder / "c" / "step-0000000021.safetensors"
    damaged = newest.read_bytes()[:-1]
    newest.write_bytes(damaged)
    capsys.readouterr()
    assert execute("--checkpoint", "c", "--resume", "--every", 5) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("runtime: warning: c/step-0000000021.safetensors: this cannot be read as a safetensors ")
    assert lines[0].endswith("; the one before it is taken")
    assert (folder / "c" / "step-0000000021.safetensors.damaged").read_bytes() == damaged
    assert newest.read_bytes() == (folder / "whole" / newest.name).read_bytes()


def test_a_checkpoint_that_cannot_be_removed_stays_with_a_warning(folder, capsys, monkeypatch):
    unlink = Path.unlink

    def refuse(self: Path, **options):
        if self.suffix == ".safetensors":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(self, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert execute("--checkpoint", "c", "--every", 8, "--keep", 1) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"runtime: warning: c/step-{step:010}.safetensors: this old checkpoint cannot be removed: Permission denied"
        for step in (8, 16)
    ]
    assert steps("c") == [8, 16, 21]


def test_a_folder_that_cannot_be_listed_is_one_sentence(folder, capsys):
    Path("file").touch()
    assert execute("--checkpoint", "file", "--resume") == 4
    assert capsys.readouterr().err == "runtime: file: the folder cannot be listed: Not a directory\n"


def test_no_state_has_the_name_that_safetensors_keep(tmp_path):
    program = Program("p")
    assert told(OpError, lambda: program.parameter("__metadata__", (2,), zeros())).endswith(
        "the name '__metadata__' belongs to the files that states are saved to; take another one"
    )
    desc = load(save(linear(), tmp_path))
    state = next(state for state in desc.states if state.name == "b")
    state.name = state.op.outputs[0] = "__metadata__"
    assert told(ProgramError, lambda: runtime.Run(desc, tmp_path)) == (
        "state '__metadata__': no file could hold it: safetensors keep this name for themselves"
    )
