"""Saved runs leave out the states that no step updates and that have the values of the program's own files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from subjects.commands import told

import prograd
from prograd import Program, adam, ops
from runtime.errors import DataError
from runtime.runs.checkpoints.checkpoint import read_checkpoint

RNG = np.random.default_rng(7)
X = RNG.normal(size=(32, 64)).astype("f4")
LABEL = RNG.integers(0, 8, 32)
TRUNK = RNG.normal(0, 0.2, (64, 96)).astype("f4")


def made(folder: Path, trunk: np.ndarray = TRUNK, *, trains_trunk: bool = False) -> Path:
    """Save a program whose trunk is frozen and comes from a file."""
    folder.mkdir(exist_ok=True)
    save_file({"trunk": trunk, "shift": np.full(96, 0.5, "f4")}, folder / "weights.safetensors")
    save_file({"x": X, "label": LABEL}, folder / "rows.safetensors")
    program = Program("net", seed=1)
    x, label = program.input("x", "float32", ("batch", 64)), program.input("label", "int64", ("batch",))
    trunk_ = program.parameter("trunk", (64, 96), initial=prograd.from_file("weights.safetensors"))
    shift = program.buffer("shift", (96,), initial=prograd.from_file("weights.safetensors"))
    head = program.parameter("head", (96, 8))
    loss = ops.softmax_cross_entropy(ops.matmul(ops.relu(ops.matmul(x, trunk_) + shift), head), label)
    if not trains_trunk:
        program.freeze("trunk")
    program.minimize(loss, adam(1e-2))
    program.data("rows.safetensors", splits={"train": slice(0, 24), "test": slice(24, 32)})
    program.training(epochs=3, evaluate="test", keep_best="loss")
    program.compile(batch=8, folder=folder).save(folder / "net.pb", force=True)
    return folder / "net.pb"


def about(path: Path) -> dict[str, object]:
    with safe_open(path, "np") as opened:
        return json.loads(opened.metadata()["prograd"])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_save_has_what_the_run_changes_and_loading_gives_all(tmp_path: Path, engine: str):
    path = made(tmp_path / "a")
    run = prograd.load(path, engine=engine)
    run.train()
    run.save(tmp_path / "s.safetensors")
    names = {"head", "head.m", "head.v", "seed", "step", "total_steps"}
    assert {name for name in load_file(tmp_path / "s.safetensors") if ":" not in name} == names
    assert [*about(tmp_path / "s.safetensors")["left_out"]] == ["shift", "trunk"]
    loaded, resumed = prograd.load(path, engine=engine), prograd.load(path, engine=engine)
    assert loaded.load(tmp_path / "s.safetensors").loaded.keys() == {"trunk", "shift", "head"}
    resumed.resume(tmp_path / "s.safetensors")
    assert resumed.state_sha256 == run.state_sha256
    assert loaded.state["head"].tobytes() == run.state["head"].tobytes()
    resumed.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "s.safetensors").read_bytes()


def test_a_value_that_the_run_replaced_is_saved(tmp_path: Path):
    path = made(tmp_path / "a")
    run = prograd.load(path)
    run.state["trunk"] = TRUNK * 2
    run.save(tmp_path / "s.safetensors")
    assert [*about(tmp_path / "s.safetensors")["left_out"]] == ["shift"]
    other = prograd.load(path)
    other.resume(tmp_path / "s.safetensors")
    assert other.state["trunk"].tobytes() == (TRUNK * 2).tobytes()
    other.state["trunk"] = TRUNK
    other.save(tmp_path / "t.safetensors")
    assert load_file(tmp_path / "t.safetensors")["trunk"].tobytes() == TRUNK.tobytes()


def test_a_resumed_run_takes_replaced_values_from_the_files_again(tmp_path: Path):
    path = made(tmp_path / "a")
    run = prograd.load(path)
    run.save(tmp_path / "s.safetensors")
    for how in ("resume", "load"):
        other = prograd.load(path)
        other.state["trunk"] = TRUNK * 2
        getattr(other, how)(tmp_path / "s.safetensors")
        assert other.state["trunk"].tobytes() == TRUNK.tobytes()
        other.save(tmp_path / f"{how}.safetensors")
        assert "trunk" in about(tmp_path / f"{how}.safetensors")["left_out"]


def test_a_file_with_all_states_is_read_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = made(tmp_path / "a")
    run = prograd.load(path)
    run.train()
    monkeypatch.setattr(run.states, "digests", dict)  # as earlier versions wrote it
    run.save(tmp_path / "w.safetensors")
    assert "trunk" in load_file(tmp_path / "w.safetensors")
    for how in ("resume", "load"):
        other = prograd.load(path)
        getattr(other, how)(tmp_path / "w.safetensors")
        assert other.state["head"].tobytes() == run.state["head"].tobytes()
        other.save(tmp_path / f"{how}.safetensors")
        assert "trunk" not in load_file(tmp_path / f"{how}.safetensors")


def test_a_program_of_the_same_weights_loads_the_file_and_one_of_others_refuses_it(tmp_path: Path):
    run = prograd.load(made(tmp_path / "a"))
    run.train()
    run.save(tmp_path / "s.safetensors")
    same = prograd.load(made(tmp_path / "b", trains_trunk=True))
    same.train()
    same.load(tmp_path / "s.safetensors")
    assert same.state["trunk"].tobytes() == TRUNK.tobytes()
    other = prograd.load(made(tmp_path / "c", TRUNK * 2))
    before = other.state_sha256
    assert told(DataError, lambda: other.load(tmp_path / "s.safetensors")) == (
        f"{tmp_path}/s.safetensors: the file leaves out 'trunk', which stayed as in the files of its program, and the "
        "state 'trunk' of this program has no such value in its own; load it into a program of the same weights"
    )
    assert other.state_sha256 == before
    other.load(tmp_path / "s.safetensors", only="head")
    assert other.state["head"].tobytes() == run.state["head"].tobytes()


def test_a_program_without_its_file_refuses_a_save_without_its_weights(tmp_path: Path):
    path = made(tmp_path / "a")
    prograd.load(path).save(tmp_path / "s.safetensors")
    (tmp_path / "a" / "weights.safetensors").unlink()
    for how in ("resume", "load"):
        with pytest.raises(DataError) as caught:
            getattr(prograd.load(path), how)(tmp_path / "s.safetensors")
        where = tmp_path / "a" / "weights.safetensors"
        assert str(caught.value) == f"{where}: the program's file cannot be read: No such file or directory"


def test_a_left_out_state_with_no_hash_is_damage(tmp_path: Path):
    path = tmp_path / "s.safetensors"
    prograd.load(made(tmp_path / "a")).save(path)
    with safe_open(path, "np") as opened:
        line = {**json.loads(opened.metadata()["prograd"]), "left_out": {"trunk": 5}}
    line["format"] = 1
    save_file(load_file(path), path, {"prograd": json.dumps(line)})
    with pytest.raises(DataError) as caught:
        read_checkpoint(path)
    fault = "left_out has no hashes by state"
    assert str(caught.value) == f"{path}: the checkpoint's description is damaged: {fault}"


def test_checkpoints_and_best_states_leave_them_out_and_resume(tmp_path: Path):
    path = made(tmp_path / "a")
    whole = prograd.load(path)
    whole.train(checkpoint=tmp_path / "whole", every=5)
    first = prograd.load(path)
    assert any(
        isinstance(event, prograd.CheckpointWritten) for event in first.events(checkpoint=tmp_path / "c", every=5)
    )
    again = prograd.load(path)
    again.resume(tmp_path / "c")
    again.train(checkpoint=tmp_path / "c", every=5)
    assert again.state_sha256 == whole.state_sha256
    names = sorted(file.name for file in (tmp_path / "whole").glob("*.safetensors"))
    assert names == sorted(file.name for file in (tmp_path / "c").glob("*.safetensors"))
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
        assert not {"trunk", "run:best:trunk"} & load_file(tmp_path / "c" / name).keys()
        assert "run:best:head" in load_file(tmp_path / "c" / name) or name < "step-0000000004"
    last = prograd.load(path)
    last.resume(tmp_path / "c")
    last.state["trunk"] = TRUNK * 2
    last.train()
    assert last.state["trunk"].tobytes() == TRUNK.tobytes(), "the best states had the value of the file"


def test_a_program_that_is_not_saved_yet_loads_what_was_trained_before(tmp_path: Path):
    run = prograd.load(made(tmp_path / "a"))
    run.train()
    run.save(tmp_path / "s.safetensors")
    program = Program("net", seed=1)
    program.arrays = {"weights.safetensors": {"trunk": TRUNK, "shift": np.full(96, 0.5, "f4")}}  # as imports bring them
    x = program.input("x", "float32", ("batch", 64))
    trunk = program.parameter("trunk", (64, 96), initial=prograd.from_file("weights.safetensors"))
    shift = program.buffer("shift", (96,), initial=prograd.from_file("weights.safetensors"))
    hidden = ops.relu(ops.matmul(x, trunk) + shift)
    program.freeze("trunk")
    program.outputs(kind=ops.argmax(ops.matmul(hidden, program.parameter("head", (96, 8), trainable=False))))
    new = prograd.Run(program.compile(batch=8))
    new.load(tmp_path / "s.safetensors", only=["trunk", "shift", "head"])
    assert np.array_equal(new.state["head"], run.state["head"])
    assert np.array_equal(new.state["trunk"], TRUNK)
