"""Training with mixed precision: equal bits on instruction sets and threads, and losses of both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from native.building import SETS
from subjects.random_networks import network

import prograd

STEPS = 3


def trained(path: Path, seed: int, engine: str, threads: int = 1, mixed: str | None = "bfloat16") -> tuple[float, str]:
    """Return the last loss and the digest of the states."""
    program, feeds = network(seed)
    program.compile(batch=16, mixed=mixed).save(path / "p.pb", force=True)
    run = prograd.load(path / "p.pb", engine=engine, threads=threads)
    losses = [float(run.step(feeds)["loss"]) for _ in range(STEPS)]
    return losses[-1], run.state_sha256


@pytest.mark.thorough
@pytest.mark.skipif(len(SETS) < 2, reason="this machine has one instruction set")
@pytest.mark.parametrize("seed", range(12))
def test_states_do_not_depend_on_the_instruction_set(tmp_path: Path, seed: int) -> None:
    first, *others = SETS
    assert trained(tmp_path, seed, f"native.{others[seed % len(others)]}") == trained(tmp_path, seed, f"native.{first}")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12, 18))
def test_states_do_not_depend_on_threads(tmp_path: Path, seed: int) -> None:
    assert trained(tmp_path, seed, "native", threads=2) == trained(tmp_path, seed, "native")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(18, 30))
def test_both_engines_and_float32_have_similar_losses(tmp_path: Path, seed: int) -> None:
    single, _ = trained(tmp_path, seed, "reference", mixed=None)
    for engine in ("reference", "native"):
        loss, _ = trained(tmp_path, seed, engine)
        assert loss == pytest.approx(single, rel=0.02)
