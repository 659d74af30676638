"""Confusion matrices with the names of classes, printed and drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from subjects.commands import run_runtime

import prograd
from prograd import Program, layers, metrics, ops, sgd
from prograd_proto.files import load, save
from runtime.pictures.drawings import Table, page
from runtime.rows.encoding.class_names import class_names

KINDS = ("cat", "dog", "owl")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7}.5,{('red', 'blue', 'green')[i % 3]},{KINDS[i // 2 % 3]}" for i in range(60)]
    Path("a.csv").write_text("\n".join(["size,colour,kind", *rows]) + "\n")
    prograd.data.pack("a.csv", "a.safetensors", join={"x": ["size"]}, split={"train": 0.8, "test": 0.2})
    program = Program("animals", seed=1)
    x, kind = program.input("x", "float32", ("rows", 1)), program.input("kind", "int64", ("rows",))
    colour = layers.embedding(program.input("colour", "int64", ("rows",)), "colours", 3, 2)
    logits = layers.dense(ops.concat(x, colour, axis=1), "out", 3)
    program.minimize(ops.softmax_cross_entropy(logits, kind), sgd(0.1))
    program.entry("evaluate", confusion=metrics.confusion_matrix(logits, kind))
    program.outputs(p=ops.softmax(logits))
    program.data("a.safetensors", splits={"train": "train", "test": "test"}, shuffle=True, remainder="drop")
    program.training(epochs=2, evaluate="test")
    program.compile(rows=12).save("a.pb")
    return tmp_path


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_printed_confusion_matrix_has_the_names_of_the_labels(engine, capsys):
    words = ("--entry", "evaluate", "--engine", engine, "-q", "--force")
    code, out, _ = run_runtime(capsys, "execute", "a.pb", *words, "--fetch", "confusion", "--fetch", "confusion=@c.npy")
    assert code == 0
    assert out[0] == "confusion: int64[3, 3], a row for each label"
    assert out[1].split() == ["label", "\\", "predicted", *KINDS]
    counts = np.load("c.npy")
    assert counts.sum() == 12
    assert [line.split()[0] for line in out[2:5]] == list(KINDS)
    assert [[int(word) for word in line.split()[1:]] for line in out[2:5]] == counts.tolist()
    assert len({len(line) for line in out[1:5]}) == 1


def test_labels_come_before_other_columns_with_as_many_classes():
    program = load("a.pb")
    assert class_names(program, 3) == list(KINDS)  # colours have three names, too
    assert class_names(program, 4) is None
    program.data.encoding = ""
    assert class_names(program, 3) is None


def test_a_drawn_confusion_matrix_has_the_names_at_both_axes(here, capsys):
    np.save("c.npy", np.arange(9).reshape(3, 3))
    np.save("other.npy", np.arange(16).reshape(4, 4))
    assert run_runtime(capsys, "plot", "c.npy", "other.npy", "--classes", "a.pb", "-o", "c.svg")[0] == 0
    axes = page([], [Table("c", np.load("c.npy"), KINDS)]).axes[0]
    assert [[text.get_text() for text in ticks] for ticks in (axes.get_xticklabels(), axes.get_yticklabels())] == [
        [*KINDS],
        [*KINDS],
    ]
    code, _, err = run_runtime(capsys, "plot", "other.npy", "--classes", "a.pb", "-o", "o.svg")
    assert (code, err) == (
        2,
        "runtime: --classes a.pb: its encoding has no column with the classes of other [4, 4]\n",
    )
    program = load("a.pb")
    program.data.encoding = ""
    save(program, "plain.pb")
    code, _, err = run_runtime(capsys, "plot", "c.npy", "--classes", "plain.pb", "-o", "o.svg")
    assert (code, err) == (
        2,
        "runtime: --classes plain.pb: the program names no classes, as its rows were not packed from a table or a "
        "folder of images; leave --classes out\n",
    )
    assert not Path("o.svg").exists()
