"""One run by several processes: the result line of one process judges it."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from subjects.ranks import ENGINES, LAUNCHER, alone, job, run_of, starts_jobs

pytestmark = starts_jobs


@pytest.fixture(scope="module")
def wanted(folder: Path) -> Callable[[str], str]:
    """The hash of the states after one process of an engine."""
    return cache(lambda engine: alone(run_of(engine), folder).field("state_sha256"))


def by_ranks(count: int, folder: Path, engine: str, *more: str):
    """Return the end of a run by `count` processes; it must succeed."""
    ended = job(count, run_of(engine, "--mpi", *more), folder, LAUNCHER)
    assert ended.code == 0, ended
    return ended


@pytest.mark.sampled(9)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_any_number_of_processes_trains_to_the_states_of_one(count, engine, folder, wanted):
    assert by_ranks(count, folder, engine).field("state_sha256") == wanted(engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_and_checkpoints_are_written_once_and_any_number_of_processes_goes_on(engine, folder, wanted):
    run = f"run-{engine}"
    kept = ["--checkpoint", run, "--every", "4", "--metrics", f"{run}.csv"]
    by_ranks(4, folder, engine, *kept, "--steps", "16", "--max-time", "1h")
    lines = (folder / f"{run}.csv").read_text().splitlines()
    whole = alone(run_of(engine, "--metrics", f"{run}-one.csv"), folder)
    assert lines == (folder / f"{run}-one.csv").read_text().splitlines()
    os.remove(folder / run / "step-0000000016.safetensors")
    ended = by_ranks(2, folder, engine, *kept, "--resume", "--steps", "16")
    assert ended.field("state_sha256") == whole.field("state_sha256") == wanted(engine)
    os.remove(folder / run / "step-0000000016.safetensors")
    assert alone(run_of(engine, *kept, "--resume"), folder).field("state_sha256") == wanted(engine)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_evaluation_and_prediction_have_the_bits_of_one_process(engine, folder):
    for entry, rows in (("evaluate", "test"), ("predict", "train")):
        words = ["--entry", entry, "--split", rows]
        fetch = ["--fetch", f"probabilities=@{engine}-{{}}.npy"] if entry == "predict" else []
        one = alone(run_of(engine, *words, *[word.format("one") for word in fetch]), folder)
        many = by_ranks(3, folder, engine, *words, *[word.format("many") for word in fetch])
        of_run = [line.partition(" wall=")[0] for line in (one.out, many.out)]
        assert of_run[0] == of_run[1]
    one, many = (np.load(folder / f"{engine}-{name}.npy") for name in ("one", "many"))
    assert one.tobytes() == many.tobytes()


@pytest.mark.thorough
def test_tables_and_files_of_states_are_written_once(folder):
    words = ["--entry", "predict", "--split", "train"]
    alone(run_of("native", *words, "--out", "one.csv"), folder)
    by_ranks(3, folder, "native", *words, "--out", "many.csv")
    assert (folder / "many.csv").read_bytes() == (folder / "one.csv").read_bytes()
    assert (folder / "one.csv").read_bytes().count(b"\n") == 119
    one = alone(run_of("native", "--save", "trained.safetensors", "--steps", "4"), folder)
    assert one.code == 0, one
    more = ["--load", "trained.safetensors", "--in-place", "--steps", "4"]
    alone(run_of("native", *more[:2], "--save", "wanted.safetensors", *more[3:]), folder)
    by_ranks(2, folder, "native", "--zero", *more)
    assert (folder / "trained.safetensors").read_bytes() == (folder / "wanted.safetensors").read_bytes()


def test_a_run_of_one_process_imports_no_mpi(folder):
    code = (
        "import sys, runtime; run = runtime.load('net.pb'); run.train(steps=2, progress=False); "
        "print('mpi4py' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
