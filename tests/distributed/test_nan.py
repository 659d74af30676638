"""States that become NaN in a run of several processes: all of them end alike, and no file has NaN."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is an extra")
from safetensors.numpy import load_file
from subjects.ranks import ENGINES, LAUNCHER, job, starts_jobs

import prograd
from prograd import Program, adam, constant, ops

WIDTH = 2048  # states of fewer elements are not cut


def saved(folder: Path, rows: int) -> None:
    """A program whose gradient is NaN at rows of zeros, the second eight, in one of its shards."""
    x = np.ones((24, WIDTH), "float32")
    x[12:16] = 0
    prograd.data.write(folder / "rows.safetensors", {"x": x}, splits={"train": range(rows)})
    program = Program("roots", seed=1)
    w = program.parameter("w", (WIDTH,), constant(1.0))
    x = program.input("x", "float32", ("batch", WIDTH))
    program.minimize(ops.mean(ops.sqrt(ops.square(x * w))), adam(0.1))
    program.data("rows.safetensors", splits={"train": "train"}, shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=8, shards=2).save(folder / "p.pb")


@pytest.mark.sampled(3)
@starts_jobs
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("zero", [[], ["--zero"]])
def test_all_processes_end_alike_and_no_file_has_nan(engine, zero, tmp_path):
    saved(tmp_path, 16)
    words = ["execute", "p.pb", "-q", "--threads", "1", "--engine", engine, "--mpi", *zero]
    ended = job(2, [*words, "--checkpoint", "c", "--every", "1", "--save", "s.safetensors"], tmp_path, LAUNCHER)
    assert ended.code == 5, ended
    assert "after step 2: the state 'w' has NaN; " in ended.err
    assert os.listdir(tmp_path / "c") == ["step-0000000001.safetensors"]
    assert all(np.isfinite(array).all() for array in load_file(tmp_path / "c/step-0000000001.safetensors").values())
    assert not (tmp_path / "s.safetensors").exists()


@pytest.mark.sampled(2)
@starts_jobs
@pytest.mark.parametrize("zero", [[], ["--zero"]])
def test_finite_states_are_saved_by_all_processes_or_the_first(zero, tmp_path):
    saved(tmp_path, 8)
    words = ["execute", "p.pb", "-q", "--threads", "1", "--engine", "reference", "--mpi", *zero]
    ended = job(2, [*words, "--collective-timeout", "20", "--save", "s.safetensors"], tmp_path, LAUNCHER)
    assert ended.code == 0, ended
    assert np.isfinite(load_file(tmp_path / "s.safetensors")["w"]).all()
