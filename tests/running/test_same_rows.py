"""A run that goes on has the rows that it began with, or is told to change them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.commands import told

import prograd
from prograd import DataError, Program, layers, ops, sgd
from runtime.__main__ import main
from runtime.rows import data_files, fingerprint
from runtime.rows.fingerprint import fingerprint as of
from runtime.rows.orders import Listed, Span
from runtime.rows.rows import Rows
from runtime.runs.checkpoints import checkpoint

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((24, 3)).astype("f"), np.arange(24) % 2
ROWS = {"x": X, "y": Y}
SPLITS = {"train": range(16), "other": range(1, 17), "test": range(16, 24)}
OTHER = X.copy()
OTHER[3, 1] += 1
NOT_THOSE = " are not those that it began with; give these, or ask for the change: train(change_data=True)"
NOT_THOSE_IN_COMMAND = NOT_THOSE.replace("train(change_data=True)", "--change-data")


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a program, the checkpoint of its second step of six, and rows; the hash of the whole run."""
    monkeypatch.chdir(tmp_path)
    prograd.data.write("rows.safetensors", ROWS, splits=SPLITS)
    program = Program("given", seed=1)
    x, y = program.input("x", "float32", ("n", 3)), program.input("y", "int64", ("n",))
    scores = layers.dense(x, "out", 2)
    program.minimize(ops.softmax_cross_entropy(scores, y), sgd(0.1))
    program.metrics(accuracy=ops.accuracy(scores, y))
    program.data("rows.safetensors", splits={name: name for name in SPLITS}, shuffle=True, remainder="drop")
    program.training(epochs=3, evaluate="test")
    program.compile(n=8).save("p.pb", force=True)
    run = prograd.load("p.pb")
    list(run.events(checkpoint="c", every=2, keep=9))
    for file in sorted(Path("c").glob("step-*"))[1:]:
        file.unlink()
    return run.state_sha256


def resumed(data: str | None = None, split: str | None = None, **options: object) -> str:
    run = prograd.load("p.pb", data=data)
    run.resume("c")
    list(run.events(data=split, **options))
    return run.state_sha256


def test_equal_rows_are_the_same_wherever_and_however_they_are_stored(begun: str, monkeypatch: pytest.MonkeyPatch):
    keys = load_file("rows.safetensors")
    np.savez("same.npz", **keys)
    save_file({"x": X.astype("f8"), "y": Y, **{name: keys[name] for name in SPLITS}}, "double.safetensors")
    assert [resumed(), resumed("same.npz"), resumed("double.safetensors")] == [begun] * 3
    monkeypatch.setattr(data_files, "IN_MEMORY", 0)  # they stay in their file
    assert resumed("same.npz") == resumed() == begun


@pytest.mark.parametrize(
    ("change", "purpose"),
    [({"x": OTHER}, "trains on"), ({"y": 1 - Y}, "trains on"), ({"test": np.arange(15, 23)}, "is evaluated on")],
)
def test_other_rows_are_refused_before_the_first_step(begun: str, change: dict[str, np.ndarray], purpose: str):
    save_file(load_file("rows.safetensors") | change, "others.safetensors")
    with pytest.raises(DataError) as caught:
        resumed("others.safetensors")
    assert str(caught.value) == f"the rows that the run {purpose}, of others.safetensors,{NOT_THOSE}"
    assert [file.name for file in Path("c").iterdir()] == ["step-0000000002.safetensors"]  # and no lock


def test_another_split_is_refused_too_and_arrays_that_are_not_shuffled(begun: str):
    assert told(DataError, lambda: resumed(split="other")) == f"the rows that the run trains on{NOT_THOSE}"
    with pytest.raises(DataError, match="the run trains on are not those"):
        resumed(split={"x": X[:16], "y": Y[:16]}, shuffle=False)  # type: ignore[arg-type]


def test_the_command_goes_on_with_others_if_it_is_asked_to_and_then_has_those(
    begun: str, capsys: pytest.CaptureFixture[str]
):
    prograd.data.write("others.safetensors", ROWS | {"x": OTHER}, splits=SPLITS)
    command = ["execute", "p.pb", "-q", "--checkpoint", "c", "--resume", "--every", "1"]
    assert main([*command, "--data", "others.safetensors"]) == 4
    sentence = f"runtime: the rows that the run trains on, of others.safetensors,{NOT_THOSE_IN_COMMAND}\n"
    assert capsys.readouterr().err == sentence
    assert main([*command, "--data", "others.safetensors", "--change-data"]) == 0
    assert begun not in capsys.readouterr().out
    assert main(command) == 4  # its own rows are now the others
    assert "--change-data" in capsys.readouterr().err
    assert main(["execute", "p.pb", "--change-data"]) == 2
    assert "--change-data belongs to --resume" in capsys.readouterr().err
    assert main([*command, "--change-data", "--record", "r.json"]) == 2
    assert "and --change-data makes two of it" in capsys.readouterr().err


def test_a_run_of_this_process_may_be_given_other_rows_at_any_time(begun: str):
    run = prograd.load("p.pb")
    for data in ({"x": X[:16], "y": Y[:16]}, {"x": OTHER[:16], "y": Y[:16]}):
        list(run.events(data=data, steps=run.position.steps + 2, retarget_schedule=True))
    assert run.position.steps == 4


def test_a_checkpoint_that_names_no_rows_goes_on_with_any_and_says_so(
    begun: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    [file] = Path("c").glob("step-*")
    rewrite(file, lambda position: position.pop("rows_sha256"))
    caplog.set_level("INFO", "prograd")
    assert resumed() == begun
    assert caplog.text == ""
    prograd.data.write("others.safetensors", ROWS | {"x": OTHER}, splits=SPLITS)
    assert resumed("others.safetensors") != begun
    assert caplog.messages == [
        "the run goes on with the rows of others.safetensors; nobody knows if earlier steps had the same"
    ]


@pytest.mark.parametrize("rows", [{"train": 3}, ["train"], "train"])
def test_a_fingerprint_that_is_none_is_a_damaged_description(begun: str, rows: object):
    [file] = Path("c").glob("step-*")
    rewrite(file, lambda position: position.update(rows_sha256=rows))
    with pytest.raises(DataError) as caught:
        prograd.load("p.pb").resume(file)
    assert str(caught.value) == f"{file}: the checkpoint's description is damaged: rows_sha256 has what is no text"


def test_large_rows_are_known_by_blocks_the_first_and_the_last_among_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fingerprint, "MAX_WHOLE_BYTES", 64 * 16)  # blocks of two rows of eight bytes
    x = np.arange(1000)
    whole = made(x)
    assert made(x.copy()) == whole
    for row in (0, 1, 998, 999):
        changed = x.copy()
        changed[row] += 1
        assert made(changed) != whole
    looked_at = sum(made(np.where(x == row, -1, x)) != whole for row in range(0, 1000, 7))
    assert 10 < looked_at < 30  # of 143
    small = np.arange(128)
    assert len({made(np.where(small == row, -1, small)) for row in range(128)}) == 128


def test_what_a_fingerprint_tells_apart():
    x = np.arange(6, dtype="f")
    rows = [
        Rows({"x": x}, {}, Span(0, 6)),
        Rows({"y": x}, {}, Span(0, 6)),
        Rows({"x": x.reshape(6, 1)}, {}, Span(0, 6)),
        Rows({"x": x.view("i4")}, {}, Span(0, 6)),
        Rows({"x": x}, {}, Span(0, 5)),
        Rows({"x": x}, {}, Listed(np.arange(5, -1, -1))),
        Rows({"x": x}, {"k": np.zeros(1, "f")}, Span(0, 6)),
        Rows({"x": x}, {"k": np.ones(1, "f")}, Span(0, 6)),
        Rows({}, {}, Span(0, 6)),
    ]
    assert len({of(one, shuffled=shuffled) for one in rows for shuffled in (False, True)}) == 2 * len(rows)
    listed = Rows({"x": np.r_[9, x].astype("f")}, {}, Listed(np.arange(1, 7)))
    assert of(listed, shuffled=False) == of(rows[0], shuffled=False)


def made(x: np.ndarray) -> str:
    return of(Rows({"x": x}, {}, Span(0, len(x))), shuffled=False)


def rewrite(file: Path, change: object) -> None:
    """Write a checkpoint with another position."""
    tensors, about = checkpoint.read_checkpoint(file)[1:]
    change(about["position"])  # type: ignore[operator]
    text = json.dumps(about, sort_keys=True, separators=(",", ":"))
    save_file(tensors, file, {"prograd": text, "prograd_sha256": sha256(text.encode()).hexdigest()})
