"""examples/camera.py: a head is trained on a frozen trunk that an ONNX file brings, on every engine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import prograd
from prograd import Program, adam, layers, ops

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small crops, a trunk that has hardly learnt, and the program of the example."""
    folder = tmp_path_factory.mktemp("camera") / "gate"
    small = ["--crops", "80", "--size", "32", "--steps", "4"]
    for words in (["make_camera.py", str(folder), *small], ["camera.py", str(folder)]):
        subprocess.run([sys.executable, EXAMPLES / words[0], *words[1:]], check=True, env=SOURCES, capture_output=True)
    return folder


def executed(folder: Path, *words: str, before: tuple[str, ...] = (sys.executable,)) -> str:
    """Return the last line that `runtime execute` prints."""
    command = [*before, "-m", "runtime", "execute", str(folder / "camera.pb"), *words]
    return subprocess.run(command, check=True, env=SOURCES, capture_output=True, text=True).stdout.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native", "native.sse2"])
def test_the_head_is_trained_and_the_trunk_stays(gate: Path, engine: str, tmp_path: Path):
    trained = tmp_path / "trained.safetensors"
    said = executed(gate, "--engine", engine, "--epochs", "2", "--save", str(trained))
    assert "evaluate.accuracy=" in said
    begun, states = prograd.load(gate / "camera.pb").states.arrays, load_file(trained)
    changed = {name for name in states if not np.array_equal(begun[name], states[name])}
    parts = {f"{layer}.{part}" for layer in ("hidden", "scores") for part in ("w", "b")}
    assert changed == {"step", "total_steps", *parts, *(f"{part}.{slot}" for part in parts for slot in "mv")}
    found = tmp_path / "states.npy"
    rows = ("--data", str(gate / "crops.safetensors"), "--split", "test")
    executed(gate, "--load", str(trained), "--entry", "predict", *rows, "--fetch", f"state=@{found}")
    assert np.load(found).shape == (16,)


@pytest.mark.thorough
def test_the_next_version_of_a_product_loads_what_the_last_one_trained(gate: Path, tmp_path: Path):
    old = prograd.load(gate / "camera.pb")
    old.train(steps=2)
    old.save(tmp_path / "old.safetensors")
    program = prograd.from_onnx(gate / "trunk.onnx", name="camera", seed=1)
    program.freeze("*", statistics=True)
    hidden = ops.relu(layers.dense(program["features"], "hidden", 128))
    scores = layers.dense(hidden, "scores", 5)  # two more states of the gate
    program.minimize(ops.softmax_cross_entropy(scores, program.input("state", "int64", ("batch",))), adam(1e-3))
    new = prograd.Run(program.compile(batch=16))
    new.load(tmp_path / "old.safetensors", only=["hidden.*", "block*", "stem*", "last*"])
    assert np.array_equal(new.state["hidden.w"], old.state["hidden.w"])
    assert new.state["scores.w"].shape == (128, 5)


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="qemu-x86_64 is not installed")
def test_a_processor_without_avx_trains_to_the_same_bits(gate: Path):
    """QEMU's Nehalem has SSE4.2 and no AVX; it finds the code that this machine has compiled for SSE2."""
    here = executed(gate, "--steps", "2", "--engine", "native.sse2")
    python = os.path.realpath(sys.executable)
    there = executed(gate, "--steps", "2", "--engine", "native", before=("qemu-x86_64", "-cpu", "Nehalem", python))
    assert "instructions=sse2" in there
    assert here.split("state_sha256=")[1] == there.split("state_sha256=")[1]


def test_crops_show_each_state_of_the_gate_and_a_picture_shows_each_shape(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import make_camera

    for draw, kinds in ((make_camera.gates, 3), (make_camera.shapes, make_camera.SHAPES)):
        pictures, kind = draw(60, 48)
        assert pictures.shape == (60, 48, 48, 3)
        assert pictures.dtype == np.uint8
        assert set(kind) == set(range(kinds))
        assert len({picture.tobytes() for picture in pictures}) == 60


def test_the_trunk_has_the_layers_of_mobilenet(monkeypatch: pytest.MonkeyPatch):
    """Sandler et al. (2018), table 2: 17 blocks, three of them halve the pictures, and 1,280 features."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import make_camera

    program = Program("trunk")
    features = make_camera.trunk(program.input("image", "uint8", ("batch", 96, 96, 3)))
    assert features.shape == ("batch", 1280)
    filters = [name for name in program.states if name.endswith(".w")]
    assert len(filters) == 1 + 2 + 16 * 3 + 1
