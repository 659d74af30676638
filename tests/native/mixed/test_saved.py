"""Saved states of mixed precision: float32 masters that resume, and that a float32 program takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from subjects.random_networks import network

import prograd
from prograd import Program, ops, sgd

SEED = 9


def run_of(path: Path, mixed: str | None, engine: str) -> tuple[prograd.Run, dict[str, Any]]:
    program, feeds = network(SEED)
    program.compile(batch=16, mixed=mixed).save(path, force=True)
    return prograd.load(path, engine=engine), feeds


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_run_resumes_with_equal_bits(tmp_path: Path, engine: str) -> None:
    run, feeds = run_of(tmp_path / "p.pb", "bfloat16", engine)
    run.step(feeds)
    run.save(tmp_path / "states.safetensors")
    run.step(feeds)
    again = prograd.load(tmp_path / "p.pb", engine=engine)
    again.resume(tmp_path / "states.safetensors")
    again.step(feeds)
    assert again.state_sha256 == run.state_sha256


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_float32_programs_take_the_states_of_a_mixed_run(tmp_path: Path, engine: str) -> None:
    mixed, feeds = run_of(tmp_path / "mixed.pb", "bfloat16", engine)
    mixed.step(feeds)
    mixed.save(tmp_path / "states.safetensors")
    single, _ = run_of(tmp_path / "single.pb", None, engine)
    single.load(tmp_path / "states.safetensors")
    parameters = [name for name in mixed.state if name.endswith((".w", ".b", ".scale", ".bias"))]
    assert len(parameters) > 2
    for name in parameters:
        assert np.asarray(mixed.state[name]).dtype == np.asarray(single.state[name]).dtype
        assert np.array_equal(mixed.state[name], single.state[name])
    rows = {"x": feeds["x"]}
    a, b = (np.asarray(run.predict(rows)["logits"]) for run in (mixed, single))
    assert np.abs(a - b).max() < 0.05 * np.abs(b).max()


def test_a_residual_stream_is_rounded_where_it_is_asked_for() -> None:
    program = Program("residual", seed=1)
    x = program.input("x", "float32", ("batch", 32))
    with program.scope("residual"):
        sums = x + x @ program.parameter("w", (32, 32))
    y = ops.gelu(sums) @ program.parameter("v", (32, 32)) + sums
    program.minimize(ops.mean(y * y), sgd(0.1))
    found = []
    for lower in ([], [sums.name]):
        desc = program.compile(batch=8, mixed=prograd.mixed("bfloat16", lower=lower)).desc
        ops_of_train = desc.blocks[desc.entries[0].source_block].ops
        readers = [op.type for op in ops_of_train if sums.name in op.inputs]
        found.append(readers)
    assert "gelu" in found[0]  # the forward pass reads the float32 sum
    assert found[1] == ["cast"]  # all ops read the rounded one
