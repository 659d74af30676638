"""The examples: short scripts whose committed programs are what they make, and do what they say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import runtime
from prograd_proto.files import load
from prograd_proto.identity import program_sha256

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "make_digits.py")

each_example = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def test_every_program_has_its_script():
    assert {path.stem for path in FOLDER.glob("*.pb")} == {path.stem for path in SCRIPTS}


@each_example
def test_an_example_is_short(script: Path):
    assert 40 <= len(script.read_text(encoding="utf-8").splitlines()) <= 80


@each_example
def test_a_script_makes_the_committed_program_to_the_byte(script: Path, tmp_path: Path):
    copy = tmp_path / "examples"
    copy.mkdir()
    for path in (script, FOLDER / "digits.safetensors"):
        shutil.copy(path, copy)
    command = [sys.executable, "-W", "error", f"examples/{script.name}"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
    made, committed = copy / f"{script.stem}.pb", FOLDER / f"{script.stem}.pb"
    assert program_sha256(load(made)) == program_sha256(load(committed))
    assert made.read_bytes() == committed.read_bytes(), f"run python examples/{script.name}"


@each_example
def test_an_example_trains_to_the_same_states_each_time(script: Path):
    hashes = set()
    for _ in range(2):
        run = runtime.load(FOLDER / f"{script.stem}.pb")
        losses = [event.metrics["loss"] for event in run.train(steps=20) if hasattr(event, "metrics")]
        assert losses
        hashes.add(run.states.sha256())
    assert len(hashes) == 1


def test_the_regression_finds_the_weights_that_made_its_targets():
    run = runtime.load(FOLDER / "linear_regression.pb")
    list(run.train())
    seen = run.evaluate("test")
    assert seen["loss"] < 1e-3
    images = np.random.default_rng(0).integers(0, 17, (7, 8, 8, 1)).astype(np.uint8)
    # What always has no ink, such as the corners, teaches nothing: these weights stay as they were.
    assert np.median(np.abs(run.state["w"] - 1)) < 0.02
    assert run.predict(images)["ink"].shape == (7,)


def test_the_convolutional_network_knows_held_out_digits():
    run = runtime.load(FOLDER / "digits_cnn.pb")
    list(run.train())
    assert run.evaluate("test")["accuracy"] >= 0.98


def test_the_digits_name_their_source_and_licence_and_hold_out_every_third_row():
    from safetensors import safe_open

    with safe_open(FOLDER / "digits.safetensors", "np") as file:
        assert "CC BY" in file.metadata()["licence"]
        assert "10.24432/C50P49" in file.metadata()["source"]
        rows = np.arange(len(file.get_tensor("label")))
        np.testing.assert_array_equal(file.get_tensor("test"), rows[rows % 3 == 2])
        np.testing.assert_array_equal(file.get_tensor("train"), rows[rows % 3 != 2])
