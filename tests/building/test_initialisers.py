"""Initial values of parameters."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from subjects.steps import Stepper

import runtime
from compiler import OpError, Program, initialisers, ops, sgd


def started(initial, shape, dtype="float64", seed=1):
    program = Program(seed=seed)
    w = program.parameter("w", shape, initial, dtype=dtype)
    program.minimize(ops.sum(w), sgd(0.1))
    return Stepper(program.compile()).states.arrays["w"]


FANS = {"fan_in": 60, "fan_out": 240, "fan_avg": 150}


@pytest.mark.parametrize("mode", FANS)
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_variance_scaling_has_the_variance_of_its_mode(mode, distribution):
    w = started(initialisers.variance_scaling(2.0, mode=mode, distribution=distribution), (3, 4, 5, 20))
    assert np.var(w) == pytest.approx(2 / FANS[mode], rel=0.12)
    limit = {"normal": np.inf, "truncated_normal": 2 / 0.8796, "uniform": np.sqrt(3)}[distribution]
    assert np.abs(w).max() <= limit * np.sqrt(2 / FANS[mode]) * 1.0001
    assert np.abs(w).max() > 1.7 * np.sqrt(2 / FANS[mode])


def test_truncated_normal_stays_within_its_deviations():
    w = started(initialisers.truncated_normal(1.0, 0.1, low=-1.0, high=0.5), (40, 50))
    assert 0.9 <= w.min() < 0.901
    assert 1.049 < w.max() <= 1.05


def test_orthogonal_and_identity_are_what_they_are_called():
    w = started(initialisers.orthogonal(2.0), (6, 4))
    np.testing.assert_allclose(w.T @ w, 4 * np.eye(4), atol=1e-13)
    assert started(initialisers.identity(), (2, 3), "float32").tolist() == [[1, 0, 0], [0, 1, 0]]


def test_variance_scaling_of_no_known_kind_is_an_error():
    with pytest.raises(OpError, match=r"variance_scaling: scale=1\.0, mode='fan', distribution='uniform'; a scale is"):
        initialisers.variance_scaling(mode="fan", distribution="uniform")


def test_a_parameter_begins_with_a_tensor_of_a_file_that_becomes_part_of_the_program(tmp_path: Path):
    w, b = np.arange(6, dtype="float32").reshape(2, 3), np.ones(3, "float32")
    save_file({"layer.w": w, "b": b}, tmp_path / "weights.safetensors")
    program = Program()
    v = program.parameter("w", (2, 3), initialisers.from_file("weights.safetensors", "layer.w"))
    c = program.parameter("b", (3,), initialisers.from_file(Path("weights.safetensors")))
    program.minimize(ops.sum(v + c), sgd(0.1))
    program.average(0.9)
    compiled = program.compile()
    compiled.save(tmp_path / "p.pb")
    assert [file.path for file in compiled.desc.files] == ["weights.safetensors"]
    run = runtime.load(tmp_path / "p.pb")
    assert run.state["w"].tolist() == run.state["w.average"].tolist() == w.tolist()
    assert run.state["b"].tolist() == b.tolist()
