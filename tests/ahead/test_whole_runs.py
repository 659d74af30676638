"""A run in C ends with the hash of `runtime execute`: order of rows, epochs, evaluations, best states, early end."""

# pyright: basic

from pathlib import Path

import numpy as np
import pytest
from ahead.hosts import Net, needs_cc
from ahead.runs import classifier, rows_of, rows_of_program, run_in_c
from safetensors.numpy import load_file

import prograd

pytestmark = needs_cc
EXAMPLES = Path(__file__).parents[2] / "examples"
NO_ROWS, NOT_FINITE = 8, 10


def assert_same_run(path, folder, epochs=0, engine="avx2"):
    """Make the run of a program in C and in Python, and compare hashes and metrics."""
    net = Net(path, folder, "--cpu", engine)
    run = prograd.load(path, engine=f"native.{engine}", threads=1)
    result = run.train(**({"epochs": epochs} if epochs else {}))
    code, heard = run_in_c(net, *rows_of_program(run, path.parent), epochs)
    assert code == 0, net.error
    assert net.sha256() == run.states.sha256()
    return result, heard


@pytest.mark.thorough
def test_the_digits_end_with_the_hash_of_python(tmp_path):
    result, heard = assert_same_run(EXAMPLES / "digits_mlp.pb", tmp_path / "out", epochs=3)
    losses = [value for _, is_evaluation, name, value in heard if name == "loss" and not is_evaluation]
    assert losses == result.history["loss"]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["avx2", "sse2"])
def test_the_whole_run_of_the_convolutional_digits_ends_with_the_hash_of_python(tmp_path, engine):
    assert_same_run(EXAMPLES / "digits_cnn.pb", tmp_path / "out", engine=engine)


@pytest.mark.thorough
def test_a_last_step_of_fewer_rows_counts_by_its_rows(tmp_path):
    assert_same_run(classifier(tmp_path, epochs=4), tmp_path / "out")


@pytest.mark.thorough
def test_rows_that_are_left_out_are_those_of_python(tmp_path):
    path = classifier(tmp_path, epochs=4, remainder="drop", evaluate="test")
    assert_same_run(path, tmp_path / "out")


@pytest.mark.thorough
def test_the_best_states_are_restored(tmp_path):
    path = classifier(tmp_path, epochs=12, evaluate="test", keep_best="accuracy")
    _, heard = assert_same_run(path, tmp_path / "out")
    assert len({epoch for epoch, *_ in heard}) == 12


@pytest.mark.thorough
def test_a_run_that_improves_no_longer_ends_early(tmp_path):
    path = classifier(tmp_path, epochs=40, evaluate="test", keep_best="loss", stop_after=2)
    _, heard = assert_same_run(path, tmp_path / "out")
    assert 2 < len({epoch for epoch, *_ in heard}) < 40


@pytest.mark.thorough
def test_a_run_that_no_library_makes_says_why(tmp_path):
    path = classifier(tmp_path, epochs=4)
    net = Net(path, tmp_path / "out", "--cpu", "avx2")
    data = load_file(tmp_path / "rows.safetensors")
    feeds = [data["x"], data["label"]]
    code, _ = run_in_c(net, rows_of(feeds, np.arange(40)), None)
    assert (code, net.error) == (NO_ROWS, "the rows to train on do not fill the steps of an epoch")
    feeds[0][7] = np.nan
    code, _ = run_in_c(net, rows_of(feeds, np.arange(210)), None)
    assert (code, net.error) == (NOT_FINITE, "step 3: loss is nan; a lower learning rate or clipping may help")
