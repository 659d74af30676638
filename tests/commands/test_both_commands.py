"""Common behaviour of `compiler` and `runtime`: options of all verbs, signals, streams, and exit codes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from importlib import metadata

import pytest
from subjects.commands import run_compiler, run_runtime
from subjects.small_programs import rich

from compiler.commands.verbs.command import COMMAND as COMPILER
from runtime.command_line.parsing import verb_parser
from runtime.command_line.tables import Command
from runtime.commands.verbs.command import COMMAND as RUNTIME

ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
each_command = pytest.mark.parametrize("command", ["compiler", "runtime"])


def run(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> tuple[int, str, str]:
    if command == "compiler":
        return run_compiler(capsys, *words)
    code, lines, err = run_runtime(capsys, *words)
    return code, "\n".join(lines), err


@each_command
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chek"], "there is no verb 'chek'; did you mean 'check'?; see {} --help"),
        (["check"], "the following arguments are required: program; see {} check --help"),
        (["check", "p.pb", "q.pb"], "'q.pb' is one word too many; see {} check --help"),
        (["check", "p.pb", "--quit"], "there is no option '--quit'; did you mean '--quiet'?; see {} check --help"),
        (["-q", "check", "p.pb"], "-q comes after the verb; see {} check --help"),
        (["check", "\0"], "an argument has the letter NUL, which no name of a file has; see {} --help"),
        (["check", "p.pb", "--plugin"], "argument --plugin: expected one argument; see {} check --help"),
    ],
)
def test_what_is_mistyped_is_answered_in_the_same_words(capsys, command: str, words: list[str], sentence: str):
    assert run(capsys, command, *words) == (2, "", f"{command}: {sentence.format(command)}\n")


def test_sources_that_nothing_installed_compile_and_name_no_version(monkeypatch: pytest.MonkeyPatch, capsys):
    def nothing_installed(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", nothing_installed)
    assert rich().compile(batch=4).desc.producer == "prograd unknown"
    assert run_runtime(capsys, "--version") == (0, ["prograd unknown"], "")


@each_command
def test_the_version_is_that_of_both(capsys, command: str):
    code, out, err = run(capsys, command, "--version")
    assert (code, err) == (0, "")
    assert out.startswith("prograd 0.")


@pytest.mark.parametrize("command", [COMPILER, RUNTIME], ids=["compiler", "runtime"])
def test_every_verb_has_the_same_first_options(command: Command):
    for verb in command.verbs.values():
        usage = " ".join(verb_parser(command, verb).format_usage().split())
        assert usage.startswith(f"usage: {command.name} {verb.name} [-h] [--plugin NAME] [-q] [--traceback] ")


@pytest.mark.parametrize(("first", "seconds"), [("data", ["pack", "show"]), ("import", ["onnx", "torch", "lm"])])
def test_the_first_word_of_two_has_the_help_of_all_its_verbs(capsys, first: str, seconds: list[str]):
    code, out, err = run(capsys, "compiler", first, "--help")
    assert (code, err) == (0, "")
    assert [line.split()[3] for line in out.splitlines() if line.startswith("usage: ")] == seconds


@each_command
@pytest.mark.parametrize("words", [["--traceback", "check", "none.pb"], ["check", "none.pb", "--traceback"]])
def test_a_traceback_is_shown_wherever_it_is_asked_for(folder, command: str, words: list[str]):
    done = subprocess.run([sys.executable, "-P", "-m", command, *words], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("ProgramError: none.pb: no such file\n")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["check", "none.pb"], 3, "none.pb: no such file"),
        (["check", "."], 3, ".: the file cannot be read: this is a folder, not a file"),
    ],
)
def test_the_same_mistake_has_the_same_sentence_and_code(folder, capsys, words: list[str], code: int, sentence: str):
    ends = [run(capsys, command, *words) for command in ("compiler", "runtime")]
    assert ends[0][2].removeprefix("compiler: ") == ends[1][2].removeprefix("runtime: ")
    assert [end[0] for end in ends] == [code, code]
    assert ends[0][2] == f"compiler: {sentence}\n"


def test_an_entry_that_is_not_there_is_usage_for_both(folder, capsys):
    assert run(capsys, "compiler", "show", "p.pb", "--entry", "tran")[0] == 2
    assert run(capsys, "runtime", "execute", "p.pb", "--entry", "tran")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "p.pb", "-o", "no/q.pb"],
        ["plan", "p.pb", "-o", "no/q.pb"],
        ["show", "p.pb", "--html", "no/m.html"],
    ],
    ids=lambda words: words[0],
)
def test_where_a_file_is_to_go_is_looked_at_before_any_work(folder, capsys, words: list[str]):
    for command, found in (("compiler", words), ("runtime", ["execute", "p.pb", "--save", words[-1]])):
        missing = f"{command}: {words[-1]}: there is no such folder\n"
        assert run(capsys, command, *found) == (2, "", missing)
        exists = f"{command}: p.pb: the file exists; --force replaces it\n"
        assert run(capsys, command, *found[:-1], "p.pb") == (2, "", exists)


@pytest.mark.skipif(not os.path.isdir("/proc/1"), reason="a folder in which nobody can make a file")
def test_a_file_that_cannot_be_written_is_a_matter_of_data(folder, capsys):
    sentence = "/proc/{}: the file cannot be written: No such file or directory"
    for name, words in {
        "q.pb": ["compiler", "compile", "p.pb", "-o", "/proc/q.pb"],
        "m.html": ["compiler", "show", "p.pb", "--html", "/proc/m.html"],
        "s": ["runtime", "execute", "p.pb", "-q", "--steps", "1", "--save", "/proc/s"],
    }.items():
        assert run(capsys, *words) == (4, "", f"{words[0]}: {sentence.format(name)}\n")


def test_quiet_leaves_out_notes(folder, capsys):
    os.mkdir("elsewhere")
    words = ["compile", "p.pb", "-o", "elsewhere/q.pb"]
    code, _, err = run(capsys, "compiler", *words)
    assert (code, err) == (0, "note: elsewhere/q.pb reads rows.safetensors, which must lie beside it\n")
    assert run(capsys, "compiler", *words, "--force", "-q")[::2] == (0, "")


def shell(command: str, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    line = f"exec {shlex.quote(sys.executable)} -P -m {command} {words} {redirection}"
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.sampled(4)
@each_command
@pytest.mark.parametrize(
    ("redirection", "code", "sentence"),
    [
        (">/dev/full", 6, "stdout: the file cannot be written: No space left on device"),
        (">&-", 4, "stdout: the results cannot be written: it is closed"),
        (">/dev/full 2>&-", 6, None),
        (">&- 2>&-", 4, None),
    ],
)
def test_results_that_cannot_be_written_are_an_error(folder, command: str, redirection: str, code: int, sentence):
    done = shell(command, "check p.pb", redirection)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == (f"{command}: {sentence}\n" if sentence else "")


@pytest.mark.sampled(6)
@each_command
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "<&- 2>&-"])
def test_what_happens_to_stderr_changes_no_result(folder, command: str, redirection: str):
    done = shell(command, "check p.pb", redirection)
    assert done.returncode == 0
    assert done.stdout.startswith("OK ")
    assert shell(command, "check none.pb", redirection).returncode == 3


@each_command
def test_a_reader_that_leaves_is_no_fault(folder, command: str):
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-P", "-m", command, "check", "p.pb"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (130, "")


AT_IMPORT = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Finder())
sys.argv = ["compiler", "check", "p.pb"]
from compiler.__main__ import main
sys.exit(main())
"""
AT_WORK = """
import os, sys
import compiler.build.well_formed as door
def verify(program):
    os.kill(os.getpid(), {number})
    sum(range(1000))
    print("went on")
door.verify = verify
sys.argv = ["compiler", "check", "p.pb"]
from compiler.__main__ import main
sys.exit(main())
"""
SCRIPTS = [
    *(AT_IMPORT.replace("{module!r}", repr(module)) for module in ("compiler.commands", "numpy", "registry.ops")),
    AT_WORK,
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", ENDINGS)
@pytest.mark.parametrize("script", SCRIPTS, ids=["commands", "numpy", "operators", "at work"])
def test_a_signal_at_any_time_is_one_sentence(folder, script: str, number: signal.Signals):
    code = script.format(number=int(number))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "compiler: interrupted\n")


def test_what_is_ignored_stays_ignored(folder):
    ignored = f"import signal\nsignal.signal({int(signal.SIGHUP)}, signal.SIG_IGN)\n"
    code = ignored + AT_WORK.format(number=int(signal.SIGHUP))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("went on\nOK ")
