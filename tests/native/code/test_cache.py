"""The cache of compiled code: what is found, what is ignored, what goes, and what its keys depend on."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native.bound import lowered
from native.code.test_objects import exponentials

from prograd_proto.files import load
from runtime.__main__ import main
from runtime.codegen.emit.code import CodeSource, emit
from runtime.codegen.emit.group_steps import steps_of
from runtime.codegen.machine import target
from runtime.engines.native import compiled, jit
from runtime.engines.native.cache import key as keys
from runtime.engines.native.cache.entries import clear, find, keep, kept
from runtime.engines.native.cache.entry import Entry, Label, from_bytes, to_bytes
from runtime.engines.native.cache.folder import cache_folder
from runtime.engines.native.cache.key import key_of
from runtime.engines.native.cpu import this_machine
from runtime.engines.native.step_code import StepOptions, step_key
from runtime.entries import bound_entries

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners of files are those of POSIX")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, which is not there yet."""
    monkeypatch.setenv("PROGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry(key="a" * 64, size=100):
    label = Label(key, "digits", "avx2", [["group_0"], ["segment_0"]], [60, size - 60])
    return Entry(label, bytes(range(100)) + bytes(size - 100))


def path_of(folder, made):
    return folder / f"{made.label.key}.code"


def test_what_is_kept_is_found_again_and_by_no_other_key(folder):
    keep(entry())
    assert find("a" * 64) == entry()
    assert find("b" * 64) is None
    path_of(folder, entry()).rename(folder / f"{'b' * 64}.code")
    assert find("b" * 64) is None
    if sys.platform != "win32":
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / f"{'b' * 64}.code").stat().st_mode & 0o777 == 0o600


def test_an_entry_with_any_byte_damaged_or_missing_is_ignored():
    whole = to_bytes(entry())
    assert from_bytes(whole) == entry()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        assert from_bytes(bytes(damaged)) is None
        assert from_bytes(whole[:at]) is None
    assert from_bytes(whole + b"\0") is None


def test_an_entry_that_is_whole_but_says_other_things_is_ignored():
    other = to_bytes(entry()).replace(b'"program"', b'"author"')
    start = len(b"prograd compiled code 3\n")
    assert from_bytes(other) is None
    rest = other[start + 32 :]
    rest = (int.from_bytes(rest[:8], "little") - 1).to_bytes(8, "little") + rest[8:]
    assert from_bytes(other[:start] + keys.sha256(rest).digest() + rest) is None


@POSIX
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_ignored(folder, mode):
    keep(entry())
    path_of(folder, entry()).chmod(mode)
    assert find("a" * 64) is None


@POSIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_ignored_and_nothing_is_put_there(folder, mode):
    keep(entry())
    folder.chmod(mode)
    assert find("a" * 64) is None
    keep(entry("b" * 64))
    assert len(list(folder.iterdir())) == 1


@POSIX
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_ignored(folder, monkeypatch, what):
    keep(entry())
    place = folder if what == "folder" else path_of(folder, entry())
    inode, lstat, fstat = place.stat().st_ino, os.lstat, os.fstat

    def of_another(real):
        def status(of):
            found = real(of)
            return os.stat_result((*found[:4], 4711, *found[5:10])) if found.st_ino == inode else found

        return status

    monkeypatch.setattr(os, "lstat", of_another(lstat))
    monkeypatch.setattr(os, "fstat", of_another(fstat))
    assert find("a" * 64) is None


@POSIX
def test_symbolic_links_are_not_followed(folder, monkeypatch):
    keep(entry())
    path = path_of(folder, entry())
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")
    assert find("a" * 64) is None
    keep(entry())
    assert not path.is_symlink()
    link = folder.with_name("link")
    link.symlink_to(folder)
    monkeypatch.setenv("PROGRAD_CACHE", str(link))
    assert find("a" * 64) is None
    keep(entry("b" * 64))
    assert not (folder / f"{'b' * 64}.code").exists()


@POSIX
def test_pipes_and_folders_in_place_of_a_file_are_ignored(folder):
    keep(entry())
    path_of(folder, entry()).unlink()
    os.mkfifo(path_of(folder, entry()), 0o600)
    assert find("a" * 64) is None
    path_of(folder, entry()).unlink()
    path_of(folder, entry()).mkdir()
    assert find("a" * 64) is None
    keep(entry())
    assert [file.name for file in folder.iterdir()] == [f"{'a' * 64}.code"]


@pytest.mark.parametrize("refusing", ["makedirs", "open", "replace"])
def test_a_disk_that_is_full_or_can_only_be_read_is_no_error(folder, monkeypatch, refusing):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, refusing, refuse)
        keep(entry())
    assert find("a" * 64) is None
    assert not folder.exists() or not list(folder.iterdir())


def test_a_disk_that_is_full_amid_a_file_leaves_nothing(folder, monkeypatch):
    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, content):
            self.file.write(content[:10])
            raise OSError(28, "No space left on device")

    real = open
    monkeypatch.setattr("builtins.open", lambda number, *mode: Full(real(number, *mode)))
    keep(entry())
    monkeypatch.undo()
    assert not list((folder).glob("*"))


def test_the_least_recently_used_go_first(folder):
    room = 3 * len(to_bytes(entry(size=1000)))
    for i, letter in enumerate("abc"):
        keep(entry(letter * 64, 1000), room)
        os.utime(folder / f"{letter * 64}.code", (1e9 + i, 1e9 + i))
    assert find("a" * 64)  # which makes it the last that was used
    keep(entry("d" * 64, 1000), room)
    assert sorted(file.path.name[0] for file in kept()) == ["a", "c", "d"]
    keep(entry("e" * 64, 9000), room)  # larger than the whole cache
    assert sorted(file.path.name[0] for file in kept()) == ["a", "c", "d"]


def test_files_that_no_process_finishes_go_after_an_hour(folder):
    keep(entry())
    for name, age in (("old", 7200), ("new", 60)):
        (folder / f"{name}.code.1-2.part").write_bytes(b"x")
        os.utime(folder / f"{name}.code.1-2.part", (time.time() - age,) * 2)
    keep(entry("b" * 64))
    assert sorted(file.path.name[0] for file in kept()) == ["a", "b", "n"]


def test_clearing_removes_what_is_kept_and_nothing_else(folder):
    keep(entry())
    (folder / "notes.txt").write_text("mine")
    assert [file.path.name for file in clear()] == [f"{'a' * 64}.code"]
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "/home/me/.cache/prograd"),
        ("linux", {"XDG_CACHE_HOME": "/fast"}, "/fast/prograd"),
        ("linux", {"XDG_CACHE_HOME": "here"}, "/home/me/.cache/prograd"),
        ("darwin", {}, "/home/me/Library/Caches/prograd"),
        ("win32", {"LOCALAPPDATA": "/home/me/AppData/Local"}, "/home/me/AppData/Local/prograd"),
        ("linux", {"PROGRAD_CACHE": "/elsewhere"}, "/elsewhere"),
        ("linux", {"PROGRAD_CACHE": ""}, None),
        ("linux", {"PROGRAD_CACHE": "0"}, None),
        ("linux", {"PROGRAD_CACHE": "off"}, None),
    ],
)
def test_the_folder_is_where_the_system_keeps_such_things(monkeypatch, system, variables, expected):
    monkeypatch.delenv("PROGRAD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert cache_folder() == (expected and Path(expected))


def test_without_a_folder_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("PROGRAD_CACHE", "")
    keep(entry())
    assert find("a" * 64) is None
    assert kept() == []


@pytest.mark.thorough
def test_two_processes_that_keep_the_same_entry_at_once_leave_a_whole_one(folder):
    script = (
        "from native.code.test_cache import *\n"
        "for i in range(30):\n    keep(entry(size=50_000), 300_000); keep(entry(f'{i:064}', 50_000), 300_000)\n"
        "    found = find('a' * 64)\n    assert found is None or found == entry(size=50_000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    both = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    keep(entry(size=50_000), 300_000)
    assert find("a" * 64) == entry(size=50_000)
    assert sum(file.nbytes for file in kept()) <= 300_000
    assert not [file for file in kept() if file.path.name.endswith(".part")]


def test_a_key_depends_on_what_is_computed_the_target_and_who_writes_and_compiles(monkeypatch):
    here = target("avx2")
    made = [
        key_of(here, (b"add", b"mul")),
        key_of(here, (b"mul", b"add")),
        key_of(here, (b"addmul",)),
        key_of(here, ()),
        key_of(replace(here, l2_bytes=1 << 20), (b"add", b"mul")),
        key_of(target("avx2", "win32"), (b"add", b"mul")),
    ]
    monkeypatch.setattr(keys, "_compiler", lambda: "llvmlite of tomorrow")
    made.append(key_of(here, (b"add", b"mul")))
    monkeypatch.setattr(keys, "_writer", lambda: "sources of tomorrow")
    made.append(key_of(here, (b"add", b"mul")))
    assert len(set(made)) == len(made)
    monkeypatch.undo()
    assert key_of(here, (b"add", b"mul")) == made[0]


def files_of(folder, *more):
    """The files that a run of an example keeps, under the names of their keys."""
    program = Path(__file__).parents[3] / "examples" / "linear_regression.pb"
    before = {file.path.name for file in kept()}
    assert main(["execute", str(program), "--engine", "native", "--steps", "2", "-q", *more]) == 0
    return {file.path.name for file in kept()} - before


def kinds_of(folder, *more):
    """Return the tables and the functions that a run of an example adds to the cache."""
    new = files_of(folder, *more)
    return {"tables" if file.label.kernels else "functions" for file in kept() if file.path.name in new}


def test_functions_for_one_thread_serve_several_and_what_is_watched_or_fetched_has_its_own(folder):
    assert kinds_of(folder, "--threads", "1") == {"functions", "tables"}
    assert kinds_of(folder, "--threads", "2") == {"tables"}
    assert kinds_of(folder, "--threads", "2", "--check-nan") == {"functions", "tables"}
    assert not files_of(folder, "--threads", "2")


def test_the_key_of_a_step_depends_on_all_that_lowering_reads():
    program = load(Path(__file__).parents[3] / "examples" / "linear_regression.pb")
    train, *_ = (bound.block for entry in program.entries for bound in bound_entries(program, entry.name))
    renamed = type(train)()
    renamed.CopyFrom(train)
    renamed.ops[0].random_stream += 1
    plain, here = StepOptions(), target("avx2")
    options = [
        plain,
        plain._replace(pinned=("loss",)),
        plain._replace(threads=2),
        plain._replace(memory_budget=4096),
        plain._replace(prepacks=True),
        plain._replace(is_instrumented=True),
    ]
    made = [step_key(train, here, each) for each in options]
    made += [step_key(renamed, here, plain), step_key(train, replace(here, l2_bytes=1 << 20), plain)]
    assert len(options) == 1 + len(StepOptions._fields)
    assert len(set(made)) == len(made)
    assert step_key(train, here, plain) == made[0]
    renamed.ops[0].blocks.append(1)
    with_body = [step_key(renamed, here, plain, blocks) for blocks in ((train,), (train, train))]
    assert len({*made, *with_body}) == len(made) + 2
    renamed.ops[0].type = "plugin.op"
    assert step_key(renamed, here, plain) == ""


def test_a_second_run_neither_lowers_nor_writes_nor_imports_what_does(folder):
    program = Path(__file__).parents[3] / "examples" / "linear_regression.pb"
    script = (
        "import sys; from runtime.__main__ import main\n"
        f"code = main(['execute', {str(program)!r}, '--engine', 'native', '--threads', '2', '--steps', '5', '-q'])\n"
        "print(code, *sorted(name for name in sys.modules if name.startswith('runtime.codegen.')))"
    )

    def run():
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        result, end = done.stdout.splitlines()[-2:]
        return result.partition("state_sha256=")[2], end.split()

    (first, [code, *imported]), (second, [again, *left]) = run(), run()
    assert first == second
    assert (code, again) == ("0", "0")
    assert {"runtime.codegen.lower", "runtime.codegen.emit.code", "runtime.codegen.rules"} <= set(imported)
    light = {
        "actions",
        "board",
        "code",
        "code_bounds",
        "code_bytes",
        "costs",
        "elf",
        "machine",
        "lowering",
        "lowering.chunks",
    }
    assert set(left) <= {f"runtime.codegen.{name}" for name in light}


def tasks_of_examples(here):
    """The tasks of all examples that have equals, by what their code is kept by."""
    tasks = defaultdict(list)
    for path in sorted((Path(__file__).parents[3] / "examples").glob("*.pb")):
        program = load(path)
        for bound in (bound for entry in program.entries for bound in bound_entries(program, entry.name)):
            for task in lowered(bound.block, (), here, blocks=program.blocks).kernels:
                if task is not None:
                    tasks[task.key].append(task)
    return {key: equal for key, equal in tasks.items() if len(equal) > 1}


@pytest.mark.thorough
def test_tasks_with_the_same_key_have_the_same_code_in_whatever_program_they_are():
    here = target("avx2")
    tasks = tasks_of_examples(here)
    assert sum(map(len, tasks.values())) > 200
    for key, equal in tasks.items():
        assert len({next(emit(here, [task], [steps_of(here, task)]).modules).text for task in equal}) == 1, key


def test_a_change_of_any_source_is_another_writer(tmp_path, monkeypatch):
    (tmp_path / "room").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "room" / "b.py").write_text("y = 1\n")
    monkeypatch.setattr(keys, "OURS", ([str(tmp_path)],))
    made = [keys._writer.__wrapped__()]
    (tmp_path / "room" / "b.py").write_text("y = 2\n")
    made.append(keys._writer.__wrapped__())
    (tmp_path / "room" / "b.py").rename(tmp_path / "room" / "c.py")
    made.append(keys._writer.__wrapped__())
    (tmp_path / "room" / "d.pyc").write_text("no source")
    assert keys._writer.__wrapped__() == made[-1]
    assert len(set(made)) == 3


def test_code_that_is_kept_is_neither_written_nor_compiled_again(folder, monkeypatch):
    here = this_machine()

    def result(write):
        code = compiled.compiled_code("small", here, (b"small",), write, lambda names: names == [["twice"]])
        x, y = np.linspace(-3, 1, 64, dtype="f"), np.zeros(64, "f")
        code.loaded.function(code.functions[0][0], 2)(x.ctypes.data, y.ctypes.data)
        return y.tobytes()

    first = result(lambda: CodeSource(iter([exponentials(here)]), [["twice"]]))
    assert [file.label.program for file in kept()] == ["small"]
    monkeypatch.setattr(jit, "compiled_of_several", lambda _: pytest.fail("it compiles"))
    assert result(lambda: pytest.fail("it writes")) == first


@pytest.mark.thorough
def test_a_second_run_gives_the_same_bits_and_does_not_import_llvm(folder, tmp_path):
    program = Path(__file__).parents[3] / "examples" / "linear_regression.pb"
    script = (
        "import sys; from runtime.__main__ import main\n"
        f"code = main(['execute', {str(program)!r}, '--engine', 'native', '--steps', '5', '-q'])\n"
        "print(code, 'llvmlite.binding' in sys.modules)"
    )

    def run():
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        result, end = done.stdout.splitlines()[-2:]
        return result.partition("state_sha256=")[2], end

    cold, warm = run(), run()
    assert cold[0] == warm[0]
    assert (cold[1], warm[1]) == ("0 True", "0 False")
    for file in kept():
        file.path.write_bytes(file.path.read_bytes()[:-1])
    assert run() == cold
