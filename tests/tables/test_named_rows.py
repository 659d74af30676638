"""Predictions for the rows of a table, a text or a split that a path or a name tells, from the command and Python."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from subjects.commands import told

import prograd
from prograd import Program, adam, layers, ops
from runtime.__main__ import main
from runtime.rows.tables import csv_pieces, text_pieces

TEXTS = ["good fine", "bad awful", "good good", "awful"] * 8


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier of moods by words, and a regression of prices whose label is scaled."""
    monkeypatch.chdir(tmp_path)
    rows = {"text": TEXTS, "mood": [("happy", "sad")["a" in text] for text in TEXTS]}
    prograd.data.pack(rows, "moods.safetensors", words={"text": 4}, split={"train": 0.75, "test": 0.25})
    program = Program("moods", seed=1)
    text, mood = program.input("text", "int64", ("batch", 4)), program.input("mood", "int64", ("batch",))
    words = layers.embedding(text, "words", count=8, size=32)
    scores = layers.dense(ops.mean(words, axis=1), "scores", 2)
    program.minimize(ops.softmax_cross_entropy(scores, mood), adam(0.1))
    program.outputs(probabilities=ops.softmax(scores))
    program.data("moods.safetensors", splits={"train": "train", "test": "test"}, remainder="drop")
    program.training(epochs=10)
    program.compile(batch=8).save("moods.pb")
    run = prograd.load("moods.pb")
    run.train(progress=False)
    run.save("t.safetensors")


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_lines_of_a_text_are_rows_of_predictions(engine: str, capsys: pytest.CaptureFixture[str]):
    Path("new.txt").write_bytes(b"good\r\n\r\nawful bad\rfine\n")
    Path("new.text.gz").write_bytes(gzip.compress(b"bad\n"))
    words = ["execute", "moods.pb", "-q", "--entry", "predict", "--load", "t.safetensors", "--engine", engine]
    assert main([*words, "--data", "new.txt", "--decode", "probabilities=mood"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "probabilities: text[3] = ['happy', 'sad', 'happy']"
    assert main([*words, "--data", "new.text.gz", "--out", "o.csv"]) == 0
    assert Path("o.csv").read_text().splitlines()[1].startswith("0,sad,")
    run = prograd.load("moods.pb", engine=engine)
    run.load("t.safetensors")
    assert run.predict("new.txt")["mood"].tolist() == ["happy", "sad", "happy"]


def test_pieces_of_a_text_are_its_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_pieces, "PIECE_ROWS", 2)
    lines = ["one", "", "two\x0bthree", "  ", "four", "five"]
    Path("t.txt").write_text("\n".join(lines))
    with open("t.txt", "rb") as stream:
        pieces = [*text_pieces.text_pieces(Path("t.txt"), stream)]
    assert [piece.columns["text"].tolist() for piece in pieces] == [["one", "two\x0bthree"], ["four", "five"]]
    assert [piece.numbers.tolist() for piece in pieces] == [[1, 3], [5, 6]]
    assert all(piece.in_lines for piece in pieces)


def test_texts_that_cannot_be_read_are_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys):
    words = ["execute", "moods.pb", "-q", "--entry", "predict", "--load", "t.safetensors", "--data", "t.txt"]
    for content, said in (
        (b"caf\xe9\n", "the file is not text in UTF-8: it has the byte 0xe9, as in Latin-1; iconv -f latin1 -t utf-8 "
         "t.txt makes it so"),
        (b"\n \n", "the table has no rows; give some below the names of its columns"),
        (b"123456\n", "line 1 has more than 5 characters; make lines of it"),
    ):  # fmt: skip
        monkeypatch.setattr(text_pieces, "MAX_LINE_CHARACTERS", 5 if b"123" in content else 1 << 20)
        Path("t.txt").write_bytes(content)
        assert main(words) == 4
        assert capsys.readouterr().err == f"runtime: t.txt: {said}\n"
    assert csv_pieces.MAX_LINE_CHARACTERS == 1 << 26


def test_tables_and_splits_are_predicted_by_name():
    run = prograd.load("moods.pb")
    run.load("t.safetensors")
    Path("new.csv").write_text("text,id\ngood,1\nbad,2\n")
    assert run.predict("new.csv")["mood"].tolist() == ["happy", "sad"]
    split = run.predict("test")
    assert split["mood"].tolist() == [("happy", "sad")[int(number)] for number in split["probabilities"].argmax(axis=1)]
    assert len(split["mood"]) == 8
    Path("new.csv").write_text("id\n1\n")
    for name, sentence in (
        ("new.csv", "new.csv: the rows have no column 'text'; add it"),
        ("tset", "'tset' is neither a table nor an image, nor a split of the data; did you mean 'test'?"),
    ):
        with pytest.raises((prograd.UsageError, prograd.DataError)) as caught:
            run.predict(name)
        assert str(caught.value) == sentence


def test_a_program_without_an_encoding_takes_no_path():
    program = Program("plain", seed=1)
    program.outputs(y=program.input("x", "float32", ("batch", 2)) * 2.0)
    run = prograd.Run(program.compile(batch=1))
    Path("new.csv").write_text("x\n1\n")
    assert told(prograd.UsageError, lambda: run.predict("new.csv")) == (
        "'new.csv' names rows, and the program has no encoding of them; give arrays for its feeds"
    )
    np.testing.assert_array_equal(run.predict(np.ones((1, 2), np.float32))["y"], [[2, 2]])


def test_quantiles_are_decoded_number_by_number(capsys: pytest.CaptureFixture[str]):
    area = np.linspace(40, 200, 32)
    prograd.data.pack({"area": area, "price": 2000 * area}, "rows.safetensors", standardise=["area", "price"])
    program = Program("q", seed=1)
    area, price = program.input("area", "float32", ("batch",)), program.input("price", "float32", ("batch",))
    guesses = layers.dense(area[:, None], "guesses", 3)
    program.minimize(ops.squared_error(guesses, ops.broadcast_to(price[:, None], shape=("batch", 3))), adam(0.1))
    program.outputs(quantiles=guesses)
    program.data("rows.safetensors")
    program.training(epochs=1)
    program.compile(batch=32).save("q.pb")
    prograd.load("q.pb").save("q.safetensors")
    Path("new.csv").write_text("area\n50\n150\n")
    words = ["execute", "q.pb", "-q", "--entry", "predict", "--load", "q.safetensors", "--data", "new.csv"]
    assert main([*words, "--out", "o.csv"]) == 0
    assert capsys.readouterr().err == (
        "runtime: warning: the output 'quantiles' may predict price, and is given as the program computes it, not in "
        "units of the column; give it the name of the column, or ask for --decode quantiles=price\n"
    )
    scaled = np.loadtxt("o.csv", delimiter=",", skiprows=1)[:, 1:]
    assert main([*words, "--out", "o.csv", "--force", "--decode", "quantiles=price"]) == 0
    assert capsys.readouterr().err == ""
    assert Path("o.csv").read_text().splitlines()[0] == "row,quantiles.0,quantiles.1,quantiles.2"
    values = np.loadtxt("o.csv", delimiter=",", skiprows=1)[:, 1:]
    np.testing.assert_allclose(values, prograd.data.decode(scaled, "price", "rows.safetensors"), rtol=1e-6)


def test_bytes_become_texts_in_tables_and_need_no_packed_rows(capsys: pytest.CaptureFixture[str]):
    program = Program("bytes", seed=1)
    program.outputs(text=program.input("x", "uint8", ("batch", 4)))
    program.compile(batch=(2, 1)).save("bytes.pb")
    np.save("x.npy", np.frombuffer(b"abcdef\0\0", np.uint8).reshape(2, 4))
    words = ["execute", "bytes.pb", "-q", "--entry", "predict", "--feed", "x=@x.npy"]
    assert main([*words, "--decode", "text=utf-8", "--out", "o.csv"]) == 0
    assert Path("o.csv").read_text() == "row,text\n0,abcd\n1,ef\n"
    capsys.readouterr()
    for more in ([], ["--out", "p.csv"]):
        assert main([*words, "--decode", "text=name", *more]) == 4
        assert capsys.readouterr().err == (
            "runtime: the program 'bytes' has no rows that say how values become numbers; pack them by compiler data "
            "pack, and name the file by program.data\n"
        )
