"""Text from files is escaped before it reaches a terminal, result line, table or picture."""

import csv
import io
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from subjects.commands import ended
from subjects.small_programs import linear, rich, save

from compiler import Program, ops, sgd
from compiler.__main__ import main as compiler
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load
from prograd_proto.files import save as save_file
from prograd_proto.printable import MAX_SENTENCE_CHARACTERS, field_name, printable, result_line, sentence, word
from prograd_proto.text import from_text, to_text
from runtime.__main__ import main as runtime

ATTACKS = {
    "a line end": "a\nOK state_sha256=dead",
    "a carriage return": "a\rb",
    "an escape sequence": "\x1b[31mred\x1b[2J",
    "an eight-bit control": "a\x9b31mb",
    "a turned direction": "a\u202ecod.exe",
    "an isolate": "a\u2066b\u2069",
    "zero width": "a\u200bb\ufeffc\u00ad",
    "drawn as nothing": "a\u034f\u3164\ufe0fb\U000e0101",
    "a line separator": "a\u2028b\u2029",
    "a no-break space": "a\u00a0b",
    "a private letter": "a\ue000b\U0010ffff",
    "a tag": "a\U000e0041b",
    "a NUL and a bell": "a\0b\x07",
}
"""Strings that act on a terminal, or hide something on it."""


def acts(text: str) -> set[str]:
    """Letters that are more than their picture, judged by Unicode's categories alone; line ends may stand."""
    from unicodedata import category

    return {c for c in text if c != "\n" and category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_what_acts_is_written_as_an_escape(text: str):
    assert not acts(printable(text))
    assert "\n" not in printable(text)
    assert printable(text).isprintable()


def test_escapes_are_those_of_json():
    assert printable("a\n\x1b\u202e\U000e0041\ud800") == "a\\n\\u001b\\u202e\\udb40\\udc41\\ud800"
    assert printable("größe 大 😀") == "größe 大 😀"


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_the_text_form_reads_escapes_back(text: str):
    program = pb.ProgramDesc(format_version=1, name=text)
    assert from_text(to_text(program)) == program
    assert not acts(to_text(program))


def test_a_sentence_keeps_its_beginning_and_its_end():
    long = sentence("where: " + "x" * 10_000_000 + "; do this")
    assert (len(long), long[:8], long[-9:]) == (MAX_SENTENCE_CHARACTERS, "where: x", "; do this")
    assert len(sentence("\x1b" * 10_000)) == MAX_SENTENCE_CHARACTERS
    assert sentence("x" * MAX_SENTENCE_CHARACTERS) == "x" * MAX_SENTENCE_CHARACTERS


def test_a_field_has_no_spaces_and_one_equals_sign():
    line = result_line("OK", [("a =b", "train state_sha256=dead"), ("loss", 0.123456789), ("n", 3)])
    assert line == "OK a__b=train_state_sha256=dead loss=0.123457 n=3"
    assert len(word("x" * 1000)) == len(field_name("x" * 1000)) == 200


def hostile(path: Path, text: str) -> pb.ProgramDesc:
    """A program whose name, producer, lines and slots are hostile; it is safe to run all the same."""
    program = load(path)
    program.name = program.producer = text
    program.locations[:] = [text + str(i) for i in range(len(program.locations))]
    for state in program.states:
        if state.slot:
            state.slot = text
    save_file(program, path, force=True)
    return program


VERBS = [
    (runtime, "check"),
    (runtime, "execute", "--steps", "1"),
    (runtime, "execute", "--steps", "1", "--log-format", "json"),
    (runtime, "profile", "--steps", "1", "--by", "line"),
    (runtime, "profile", "--steps", "1", "--by", "op"),
    (compiler, "show"),
    (compiler, "show", "--entry", "train", "--bound"),
    (compiler, "show", "--memory", "--order"),
    (compiler, "check"),
    (compiler, "plan"),
    (compiler, "compile"),
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: " ".join(verb[1:]))
def test_no_verb_prints_a_hostile_name_as_it_stands(tmp_path: Path, capsys, verb):
    text = "".join(ATTACKS.values())
    hostile(save(rich(), tmp_path, epochs=1), text)
    command, name, *more = verb
    code, out, err = ended(capsys, command, name, tmp_path / "p.pb", *more)
    assert code == 0
    assert not acts(out + err)
    assert sum(line.startswith("OK ") for line in out.splitlines()) == (name != "show")


def test_a_difference_is_told_without_what_is_hostile(tmp_path: Path, capsys):
    old = save(rich(), tmp_path)
    new = save(rich(), tmp_path, name="q.pb")
    hostile(new, "".join(ATTACKS.values()))
    code, out, err = ended(capsys, compiler, "diff", old, new)
    assert (code, acts(out + err)) == (1, set())


def test_a_refusal_is_one_short_line_whatever_the_file_says(tmp_path: Path, capsys):
    program = hostile(save(linear(), tmp_path), "x" * 3_000_000 + "\n\x1b[2J")
    block = program.blocks[program.entries[0].bindings[0].block]
    next(op for op in block.ops if op.inputs).inputs[0] = "y\nOK" * 1000
    save_file(program, tmp_path / "p.pb", force=True)
    for command, verb in ((runtime, "check"), (runtime, "execute"), (compiler, "check"), (compiler, "compile")):
        code, out, err = ended(capsys, command, verb, tmp_path / "p.pb")
        assert (code, out) == (3, "")
        assert err.count("\n") == 1
        assert len(err) <= MAX_SENTENCE_CHARACTERS + len("compiler: \n")
        assert not acts(err)


def test_an_entry_forges_no_field(tmp_path: Path, capsys):
    program = load(save(linear(), tmp_path, epochs=1, evaluate=None, keep_best=None))
    forged = "train state_sha256=dead"
    next(entry for entry in program.entries if entry.name == "train").name = forged
    program.run.entry = forged
    save_file(program, tmp_path / "p.pb", force=True)
    _, out, _ = ended(capsys, runtime, "execute", tmp_path / "p.pb", "-q")
    fields = [field.partition("=")[0] for field in out.split()]
    assert fields.count("state_sha256") == 1


def test_a_metric_has_no_name_of_the_result_lines_own(tmp_path: Path, capsys, monkeypatch):
    program = Program("names")
    x = program.input("x", "float32", ("n", 3))
    w = program.parameter("w", (3,))
    program.minimize(ops.mean((x * w) ** 2), sgd(0.1))
    program.fetch("state sha256", ops.sum(w))
    program.fetch("step", ops.sum(w))
    program.fetch("=1+1", ops.sum(w))
    program.compile(n=2).save(tmp_path / "p.pb")
    monkeypatch.chdir(tmp_path)
    feed = ["--feed", "x=[[1, 2, 3], [4, 5, 6]]"]
    for file in ("m.csv", "m.jsonl"):
        code, out, _ = ended(capsys, runtime, "execute", "p.pb", "-q", *feed, "--metrics", file)
        assert code == 0
        assert [field.partition("=")[0] for field in out.split()].count("state_sha256") == 1
    rows = list(csv.reader(io.StringIO(Path("m.csv").read_text())))
    assert rows[0] == ["event", "epoch", "step", "loss", "rate", "state sha256", "metric.step", "'=1+1"]
    assert rows[1][:3] == ["step", "1", "1"]
    assert '"step": 1, ' in Path("m.jsonl").read_text().splitlines()[0]


def test_pictures_hold_nothing_that_is_a_mark_or_a_control(tmp_path: Path, capsys):
    text = "<script>alert(1)</script>\"'&]]>" + "".join(ATTACKS.values())
    hostile(save(rich(), tmp_path), text)
    names = tmp_path / "m.svg", tmp_path / "m.html"
    assert ended(capsys, compiler, "show", tmp_path / "p.pb", "--svg", names[0], "--html", names[1])[0] == 0
    ElementTree.parse(names[0])
    for name in names:
        assert "<script" not in name.read_text()
        assert not acts(name.read_text())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_terminal_that_lacks_letters_gets_escapes(tmp_path: Path, encoding):
    program = hostile(save(linear(), tmp_path, epochs=1), "größe 大")
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    for command in (
        ["runtime", "check", "p.pb"],
        ["runtime", "check", "größe.pb"],
        ["compiler", "show", "p.pb"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert done.returncode == (3 if "größe.pb" in command else 0)
        assert b"Traceback" not in done.stderr
        if command[0] == "compiler":
            assert from_text(done.stdout.decode(encoding)) == program
