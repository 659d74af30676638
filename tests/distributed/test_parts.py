"""Parts of a batch prediction (`--part`, `--scheduler`): the arrays of one process judge them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from subjects.cluster import with_a_lost_worker
from subjects.commands import run_runtime
from subjects.ranks import ENGINES, LAUNCHER, save_network

from runtime.commands.parts.cluster import checked, compute_part
from runtime.errors import ExecutionError

PREDICT = ("net.pb", "--entry", "predict", "--split", "train", "-q")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program of steps of 32, 22 and 1 rows, and 118 rows."""
    folder = tmp_path_factory.mktemp("made")
    save_network(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the process, with the program and its rows."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predicted(capsys, name: str, *more: str) -> bytes:
    """Return the bytes of the probabilities of a prediction."""
    code, _, err = run_runtime(capsys, "execute", *PREDICT, "--fetch", f"probabilities=@{name}.npy", *more)
    assert code == 0, err
    return np.load(f"{name}.npy").tobytes()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("parts", [1, 3, 4])
def test_parts_joined_are_the_prediction_of_one_process(parts, engine, folder, capsys):
    whole = predicted(capsys, "whole", "--engine", engine)
    found = [predicted(capsys, f"p{i}", "--engine", engine, "--part", f"{i}/{parts}") for i in range(1, parts + 1)]
    assert all(found)
    assert b"".join(found) == whole


@pytest.mark.thorough
def test_a_cluster_predicts_the_bits_of_one_process_though_a_worker_is_lost(folder, capsys):
    pytest.importorskip("distributed", reason="Dask is an extra")
    whole = predicted(capsys, "whole")
    words = ["execute", *PREDICT, "--fetch", "probabilities=@joined.npy"]
    done = with_a_lost_worker(0.5, words, folder)
    assert done.returncode == 0, done.stderr
    assert np.load("joined.npy").tobytes() == whole
    assert done.stdout.startswith("OK entry=predict steps=4 ")


def test_an_error_of_a_part_is_that_of_the_run(folder):
    code, said, found = compute_part(os.getcwd(), ["execute", *PREDICT[:-1], "--part", "1/9"], ["probabilities"])
    assert (code, found) == (2, {})
    with pytest.raises(ExecutionError) as caught:
        checked((code, said, found), 1, 9)
    assert str(caught.value) == ("part 1 of 9 failed: --part 1/9: the rows make 4 steps of 32; ask for fewer parts")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--part", "1/9"], "--part 1/9: the rows make 4 steps of 32; ask for fewer parts"),
        (["--part", "1/2", "--out", "p.csv"], "--part joins arrays of --fetch; leave --out out"),
        (["--part", "1/2", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler makes the parts itself; leave --part out"),
        (["--part", "1/2", "--mpi"], "--part and --mpi both share the rows; give one of them"),
    ],
)
def test_parts_that_make_no_sense_are_refused(words, sentence, folder, capsys):
    if "--mpi" in words:  # a process of its own: it joins a job
        pytest.importorskip("mpi4py", reason="mpi4py is an extra")
        command = [sys.executable, "-m", "runtime", "execute", *PREDICT, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **_library()})
        code, out, err = done.returncode, done.stdout.splitlines(), done.stderr
    else:
        code, out, err = run_runtime(capsys, "execute", *PREDICT, *words)
    assert (code, out) == (2, [])
    assert err == f"runtime: {sentence}\n"


def _library() -> dict[str, str]:
    if LAUNCHER is None:
        pytest.skip("there is no MPI library")
    return LAUNCHER.environment


def test_entries_with_results_for_all_rows_are_refused(folder, capsys):
    code, out, err = run_runtime(capsys, "execute", "net.pb", "--entry", "evaluate", "--part", "1/2", "-q")
    assert (code, out) == (2, [])
    assert err == (
        "runtime: the entry 'evaluate' has 'loss' for all rows together, which parts do not have; "
        "parts are for entries that give results for each row, as predictions do, and --mpi shares any entry\n"
    )
    code, out, err = run_runtime(capsys, "execute", "net.pb", "--part", "1/2", "-q")
    assert (code, out) == (2, [])
    assert err == "runtime: --part shares the rows of a prediction, and the entry 'train' trains\n"
