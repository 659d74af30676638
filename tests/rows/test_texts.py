"""Texts as feeds and fetches of `runtime execute`: bytes of UTF-8 in rows of uint8."""

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import run_runtime as run

from compiler import Program, ops

FEEDS = ("execute", "p.pb", "--entry", "predict", "--decode", "after=utf-8", "--feed")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a program that gives the letters after those of a text."""
    program = Program("after")
    x = program.input("x", "uint8", ("n", 90))
    program.outputs(after=ops.where(ops.greater(x, 64), x + 1, x), length=ops.sum(ops.cast(x, dtype="float32"), axis=1))
    program.compile(n=2).save(tmp_path / "p.pb")
    monkeypatch.chdir(tmp_path)


def test_texts_are_fed_and_printed(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, *FEEDS, 'x=["HAL", "", "IBM"]')
    assert (code, err) == (0, "")
    assert out[0] == "after: text[3] = ['IBM', '', 'JCN']"


def test_a_long_text_is_printed_in_its_own_lines_without_escape_sequences(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, *FEEDS, f'x="{"A" * 85}\\n[\\u001a"')
    assert out[:3] == ["after: text[1] = ", "  " + "B" * 85, "  \\\\u001a"]


def test_a_text_may_be_written_to_a_file_and_expected_as_bytes(capsys: pytest.CaptureFixture[str]):
    np.save("x.npy", np.frombuffer(b"HAL".ljust(90, b"\0"), np.uint8)[np.newaxis])
    run(capsys, "execute", "p.pb", "--entry", "predict", "--feed", "x=@x.npy", "--fetch", "after=@y.npy")
    assert np.load("y.npy")[0].tobytes().rstrip(b"\0") == b"IBM"


def test_bytes_that_are_no_text_are_shown_as_such(capsys: pytest.CaptureFixture[str]):
    np.save("x.npy", np.full((1, 90), 254, np.uint8))
    _, out, _ = run(capsys, *FEEDS, "x=@x.npy")
    assert out[1] == "  " + "\N{REPLACEMENT CHARACTER}" * 90


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*FEEDS, f'x="{"é" * 46}"'], "--feed x: a text has 92 bytes, and a row of 'x' has 90"),
        (
            [*FEEDS, 'x="A"', "--decode", "length=utf-8"],
            "--decode length=utf-8: 'length' is float32[1]; texts are uint8 rows of bytes",
        ),
    ],
)
def test_what_is_no_text_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, *arguments)
    assert (code, err.strip()) == (2, f"runtime: {sentence}")
