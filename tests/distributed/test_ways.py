"""Loops, frozen parameters, averages, budgets, spill files and checked steps, with shards and by several processes."""

from contextlib import closing
from functools import cache

import numpy as np
import pytest
from subjects.commands import run_runtime
from subjects.ranks import ENGINES, LAUNCHER, alone, combined, combined_rows, job, starts_jobs

import runtime
from compiler.planning.plan_program import plan_program
from prograd_proto import program_pb2 as pb
from prograd_proto.files import save

STEPS = 3


def trained(program, engine: str, **options):
    """Return the states and their hash after some steps."""
    with closing(runtime.Run(program, engine=engine, threads=1, **options)) as run:
        for _ in range(STEPS):
            run.step(combined_rows())
        return {name: array.copy() for name, array in run.states.arrays.items()}, run.state_sha256


@cache
def spilled() -> pb.ProgramDesc:
    """Return the program with shards, within a budget that makes it recompute and spill."""
    program = pb.ProgramDesc()
    program.CopyFrom(combined().compile(batch=64, shards=4).desc)
    train = next(entry for entry in program.entries if entry.name == "train")
    plan_program(program, budget=train.bindings[0].plan.arena_bytes * 4 // 5, spill=True, seconds=None)
    assert {"spill", "reload"} <= {op.type for block in program.blocks for op in block.ops}
    return program


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_loops_frozen_parameters_averages_and_budgets_keep_the_results_of_shards(engine, tmp_path):
    whole, _ = trained(combined().compile(batch=64), engine)
    states, digest = trained(combined().compile(batch=64, shards=4), engine)
    assert states.keys() == whole.keys()
    for name, array in whole.items():
        np.testing.assert_allclose(states[name], array, rtol=1e-3, atol=3e-5, err_msg=name)
    assert trained(combined().compile(batch=64, shards=4), engine, check_nan=True)[1] == digest
    assert trained(spilled(), engine, spill=tmp_path)[1] == digest


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
@starts_jobs
def test_processes_spill_and_compute_loops_with_the_bits_of_one(engine, tmp_path):
    save(spilled(), tmp_path / "spilled.pb")
    for name, array in combined_rows().items():
        np.save(tmp_path / f"{name}.npy", array)
    feeds = [word for name in combined_rows() for word in ("--feed", f"{name}=@{name}.npy")]
    words = ["execute", "spilled.pb", *feeds, "--steps", str(STEPS), "--spill-dir", ".", "--engine", engine, "-q"]
    one = alone(words, tmp_path)
    many = job(3, [*words, "--mpi", "--check-nan", "--max-memory", "400MB"], tmp_path, LAUNCHER)
    assert many.code == 0, many
    assert many.field("state_sha256") == one.field("state_sha256")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_in_shards_can_be_profiled(engine, tmp_path, capsys):
    save(combined().compile(batch=64, shards=4).desc, tmp_path / "p.pb")
    words = [word for name, array in combined_rows().items() for word in _saved(tmp_path, name, array)]
    code, out, err = run_runtime(capsys, "profile", tmp_path / "p.pb", *words, "--engine", engine, "-q")
    assert code == 0, err
    assert any("join_shards" in line for line in out)


def _saved(folder, name: str, array: np.ndarray) -> tuple[str, str]:
    np.save(folder / f"{name}.npy", array)
    return "--feed", f"{name}=@{folder / name}.npy"
