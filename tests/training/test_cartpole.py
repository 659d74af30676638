"""The example that balances a pole by soft actor-critic."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from prograd import Run

SCRIPT = Path(__file__).parents[2] / "examples" / "cartpole.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cartpole", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def learned(example: Any, steps: int, engine: str) -> tuple[Run, list[int], list[int]]:
    run = Run(example.build().compile(batch=(1, example.BATCH)), engine=engine, threads=1)
    act, train = run.stepper("predict", fetch="chance"), run.stepper("train", fetch="critics")
    with train, act:
        return run, example.learn(act, train, steps), example.play(act, 5 if steps > 1000 else 1)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_equal_seeds_play_and_learn_with_equal_bits(example: Any, engine: str):
    (one, *lengths), (other, *again) = (learned(example, 560, engine) for _ in range(2))
    assert one.states.sha256() == other.states.sha256()
    assert lengths == again


def test_a_step_moves_critics_actor_and_averages_by_the_formulas(example: Any):
    run = Run(example.build().compile(batch=(1, 64)), engine="reference")
    before = {name: np.float64(run.state[name]) for name in run.state}
    rng = np.random.default_rng(0)
    state, later = rng.normal(size=(2, 64, 4)).astype("float32")
    action, goes_on = rng.integers(0, 2, 64), rng.integers(0, 2, 64).astype("float32")
    found = run.step({"state": state, "later": later, "action": action, "goes_on": goes_on})

    def network(name: str, x: np.ndarray) -> np.ndarray:
        w0, b0, w1, b1, w2, b2 = (before[f"{name}.{kind}{i}"] for i in range(3) for kind in "wb")
        return np.maximum(np.maximum(x @ w0 + b0, 0) @ w1 + b1, 0) @ w2 + b2

    scores = network("actor", later)
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    least = np.minimum(network("critic1", later), network("critic2", later))  # the averages begin as the critics
    earned = 0.1 + 0.99 * goes_on * (chances * (least - 0.01 * np.log(chances))).sum(1)
    values = [network(name, state)[np.arange(64), action] for name in ("critic1", "critic2")]
    assert found["critics"] == pytest.approx(sum(np.mean((value - earned) ** 2) for value in values), rel=1e-5)
    moved = {name: np.float64(run.state[name]) - old for name, old in before.items()}
    assert np.allclose(moved["critic1.w0.average"], 0.05 * moved["critic1.w0"], atol=1e-7)
    for name in ("actor.w2", "critic1.w2", "critic2.w2"):
        assert np.abs(moved[name]).max() == pytest.approx(1e-3, rel=1e-2)  # the first step of Adam


@pytest.mark.thorough
def test_the_pole_stands(example: Any):
    _, _, played = learned(example, 40_000, "native")
    assert np.mean(played) >= 475  # 500 here; other seeds, as other processors, give 493 to 500
