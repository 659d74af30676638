"""Every argument of every verb of both commands with absurd values: a sentence and a documented code."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.judge import call, faults
from hostile.programs import furnish
from hostile.verbs import Verb, verbs

ABSURD = [
    "",
    "\0",
    "9" * 24,
    " ",
    "x" * 300,
    "9" * 5000,
    "-1",
    "nan",
    "1e400",
    "\u0663",
    "\u00b2",
    ".",
    "none/none",
    "loop",
    "pipe",
    "x=@.",
    "file/below",
    "\udcff",
    "a\nOK\x1b[2J",
    "=",
    "x=@loop",
    "x=@" + "y" * 300,
    "x=@\0",
    "x=" + "[" * 3000,
    "x=[[" + "9" * 30 + ", 1, 2]]",
    'x=[["a", null, {}]]',
]
QUICK = {
    "execute": ["-q", "--steps", "1"],
    "profile": ["--steps", "1"],
    "replay": ["-q", "--steps", "1"],
    "serve": ["-q", "--max-time", "10ms"],
}
NEEDED = {"replay": ["--expect-sha256", "0" * 64], "serve": ["--port", "0"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("file").write_bytes(b"x")
    Path("b.csv").write_text("id,lower,upper,size\na,0,1,64\n")
    os.mkfifo("pipe")
    monkeypatch.setattr("runtime.commands.bench.ROUND_SECONDS", 1e-3)  # what is measured is not looked at
    return tmp_path


def calls(verb: Verb, value: str) -> Iterator[list[str]]:
    """The words of the verb with the value in each place in turn."""
    word = verb.name.partition(" ")[2]
    files = ["b.csv" if file.endswith(".csv") else "good.pb" for file in verb.files]
    for i in range(len(files)):
        yield [word, *files[:i], value, *files[i + 1 :], *NEEDED.get(word, [])]
    for option in verb.options:
        if not option.flags or option.is_switch:
            continue
        flag = option.flags[-1]
        more = [*QUICK.get(word, []), *NEEDED.get(word, [])]
        if flag == "--epochs":
            more = ["-q"]
        at_last = more if word == "serve" else []  # it must end even where a time of a century is none too absurd
        yield [word, *files, *more, f"{flag}={value}", *at_last]


@pytest.mark.thorough
@pytest.mark.parametrize("value", ABSURD, ids=lambda value: ascii(value)[:30])
def test_an_absurd_argument_is_refused_in_a_sentence(folder: Path, value: str):
    before = {path.name for path in folder.iterdir()}
    found: list[str] = []
    for verb in verbs():
        for words in calls(verb, value):
            code, out, err, seconds = call(verb.command, words)
            wrong = faults(verb.name, words, code, out, err, seconds)
            found += [f"{verb.name} {ascii(words)[:120]}: {what}: {err[-300:]}" for what in wrong]
    assert not found, "\n".join(found)
    assert {path.name for path in folder.iterdir()} >= before


def test_every_verb_and_every_option_is_called():
    assert {verb.name.partition(" ")[2] for verb in verbs()} >= {"execute", "check", "profile", "show", "diff", "plan"}
    assert sum(len(list(calls(verb, "x"))) for verb in verbs()) > 60
