"""The command `prograd`: the verbs of both commands, what both of them have, and its help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from subjects.commands import ended

from compiler.__main__ import main as compiler
from compiler.commands.verbs.command import COMMAND as COMPILER
from prograd.__main__ import main
from prograd.commands.verbs import SHARED, all_verbs
from runtime.__main__ import main as runtime
from runtime.commands.verbs.command import COMMAND as RUNTIME

COMMANDS = ("runtime", "compiler", "prograd")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return ended(capsys, main, *arguments)


def test_it_has_the_verbs_of_both_commands():
    assert all_verbs().verbs.keys() == RUNTIME.verbs.keys() | COMPILER.verbs.keys()
    assert set(SHARED) == RUNTIME.verbs.keys() & COMPILER.verbs.keys()


def test_a_verb_of_either_command_gives_what_that_command_gives(folder: Path, capsys):
    [program] = folder.glob("*.pb")
    for theirs, words in (
        (compiler, ["summary", program.name]),
        (compiler, ["show", program.name, "--entry", "train"]),
        (runtime, ["cache", "--json"]),
    ):
        assert theirs(words) == 0
        expected = capsys.readouterr().out
        assert run(capsys, *words) == (0, expected, "")


def test_check_does_the_checks_of_both(folder: Path, capsys):
    [program] = folder.glob("*.pb")
    code, out, err = run(capsys, "check", program.name)
    assert (code, err) == (0, "")
    assert [line.split(" ")[1].split("=")[0] for line in out.splitlines()] == ["ops", "name"]

    program.write_bytes(program.read_bytes()[:-5])
    code, out, err = run(capsys, "check", program.name)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"prograd: {program.name}: ")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chek"], "there is no verb 'chek'; did you mean 'check'?; see prograd --help"),
        (["execute"], "the following arguments are required: program; see prograd execute --help"),
        (["summary"], "the following arguments are required: program; see prograd summary --help"),
        (["data"], "there is no verb 'data'; the verbs are data pack, data show; see prograd --help"),
        (
            ["execute", "p.pb", "--epoch"],
            "there is no option '--epoch'; did you mean '--epochs'?; see prograd execute --help",
        ),
        (["show", "p.pb", "--entri"], "there is no option '--entri'; did you mean '--entry'?; see prograd show --help"),
        (
            ["completion", "zhs"],
            "argument {bash,zsh,fish}: 'zhs' is not one of bash, zsh, fish; did you mean 'zsh'?; "
            "see prograd completion --help",
        ),
    ],
)
def test_a_mistake_is_one_sentence_in_the_name_of_this_command(capsys, words: list[str], sentence: str):
    assert run(capsys, *words) == (2, "", f"prograd: {sentence}\n")


def test_examples_of_help_begin_with_the_command_that_was_called(capsys):
    for verb in all_verbs().verbs:
        code, out, err = run(capsys, *verb.split(" "), "--help")
        assert (code, err) == (0, "")
        examples = out.partition("examples:\n")[2].splitlines()
        assert examples
        assert not [line for line in examples if line.split()[:1] in (["runtime"], ["compiler"])], verb


def test_completion_is_of_all_verbs(capsys):
    code, out, _ = run(capsys, "completion", "bash")
    assert code == 0
    assert "prograd" in out
    assert all(verb in out for verb in ("execute", "summary", "data pack"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_verb_prints_its_help(command: str):
    done, asked = (
        subprocess.run([sys.executable, "-P", "-m", command, *words], capture_output=True, encoding="utf-8")
        for words in ([], ["--help"])
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == asked.stdout
    assert done.stdout.startswith(f"usage: {command} ")
