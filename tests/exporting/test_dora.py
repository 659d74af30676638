"""Adapters of DoRA: values, gradients, what they begin with, merging, ONNX files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from subjects.commands import told

import prograd
from compiler.exporters.merged_states import merged_states
from prograd import Program, layers, ops
from registry import OpError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(32, 64)).astype("f4")
Y = RNG.normal(size=(32, 96)).astype("f4")
ENGINES = ("reference", "native")


def built(folder: Path, *, outputs_first: bool = False, on_the_left: bool = False) -> Program:
    shape = (96, 64) if outputs_first else (64, 96)
    save_file({"w": np.random.default_rng(1).normal(0, 0.2, shape).astype("f4")}, folder / "w.safetensors")
    program = Program("net", seed=1)
    program.folder = folder
    x, y = program.input("x", "float32", (32, 64)), program.input("y", "float32", (32, 96))
    w = program.parameter("w", shape, prograd.from_file("w.safetensors"))
    if on_the_left:
        made = ops.transpose(ops.matmul(w, x, transpose_a=not outputs_first, transpose_b=True), axis=(1, 0))
    else:
        made = ops.matmul(x, w, transpose_b=outputs_first)
    assert program.lora("w", r=4, alpha=8.0, dora=True) == ["w"]
    program.outputs(made=made)
    program.minimize(ops.squared_error(made, y, reduction="sum"), prograd.sgd(1e-4))
    return program


def factors(run: prograd.Run, outputs_first: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return W, A and B as [inputs, outputs] and their products, in float64, and the magnitudes."""
    w, a, b, m = (run.state[name].astype("f8") for name in ("w", "w.lora_a", "w.lora_b", "w.lora_magnitude"))
    return (w.T, a.T, b.T, m) if outputs_first else (w, a, b, m)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("outputs_first", [False, True])
@pytest.mark.parametrize("on_the_left", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_values_and_gradients_are_those_of_the_paper(
    tmp_path: Path, engine: str, on_the_left: bool, outputs_first: bool
):
    program = built(tmp_path, outputs_first=outputs_first, on_the_left=on_the_left)
    run = prograd.Run(program.compile(), tmp_path, engine=engine)  # type: ignore[arg-type]
    w, a, b, m = factors(run, outputs_first)
    np.testing.assert_allclose(m, np.linalg.norm(w, axis=0), rtol=1e-6)
    np.testing.assert_allclose(run.predict({"x": X})["made"], X @ w, rtol=1e-4, atol=1e-5)
    for name in ("w.lora_a", "w.lora_b", "w.lora_magnitude"):
        run.state[name] = run.state[name] + RNG.normal(0, 0.2, run.state[name].shape).astype("f4")
    w, a, b, m = factors(run, outputs_first)
    norms = np.linalg.norm(w + 2 * a @ b, axis=0)  # constant in gradients
    plain = X @ (w + 2 * a @ b)
    wanted = plain * m / norms
    np.testing.assert_allclose(run.predict({"x": X})["made"], wanted, rtol=1e-4, atol=1e-4)
    g = 2 * (wanted - Y)
    run.step({"x": X, "y": Y})
    _, a2, b2, m2 = factors(run, outputs_first)
    product = X.T @ (g * m / norms)
    np.testing.assert_allclose((m - m2) / 1e-4, (g * plain / norms).sum(0), rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose((a - a2) / 1e-4, 2 * product @ b.T, rtol=2e-2, atol=5e-2)
    np.testing.assert_allclose((b - b2) / 1e-4, 2 * a.T @ product, rtol=2e-2, atol=5e-2)
    merged = merged_states(run.program, run.states.arrays)
    assert merged.keys() == {"w"}
    whole = (w + 2 * a2 @ b2) * m2 / np.linalg.norm(w + 2 * a2 @ b2, axis=0)
    np.testing.assert_allclose(merged["w"].T if outputs_first else merged["w"], whole, rtol=1e-5, atol=1e-6)


def test_a_program_of_a_file_keeps_its_weights_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    save_file({"w": RNG.normal(size=(64, 96)).astype("f4")}, "net.weights.safetensors")
    program = Program("net", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.outputs(y=x @ program.parameter("w", (64, 96), prograd.from_file("net.weights.safetensors")))
    program.compile(batch=32).save("net.pb")
    opened = Program.load("net.pb")
    opened.lora("w", r=2, dora=True)
    opened.compile(batch=32).save("tuned.pb")
    assert load_file("net.magnitudes.safetensors").keys() == {"w.lora_magnitude"}
    one, other = (prograd.load(name).predict({"x": X})["y"] for name in ("net.pb", "tuned.pb"))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_weights_of_few_bits_get_magnitudes_and_an_onnx_file_has_the_scaled_weights(tmp_path: Path):
    program = built(tmp_path)
    run = prograd.Run(program.compile(), tmp_path)
    run.step({"x": X, "y": Y})
    onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    [weight] = [t for t in prograd.to_onnx(run).graph.initializer if list(t.dims) == [64, 96]]
    merged = merged_states(run.program, run.states.arrays)["w"]
    np.testing.assert_allclose(onnx.numpy_helper.to_array(weight), merged, rtol=1e-5, atol=1e-6)
    small = Program("small", seed=1)
    small.folder = tmp_path
    x = small.input("x", "float32", (32, 64))
    small.outputs(y=x @ small.parameter("w", (64, 96), prograd.from_file("w.safetensors")))
    small.quantize("q8_0")
    small.lora("w", r=2, dora=True)
    run = prograd.Run(small.compile(), tmp_path)
    w = load_file(tmp_path / "w.safetensors")["w"]
    np.testing.assert_allclose(run.state["w.lora_magnitude"], np.linalg.norm(w, axis=0), rtol=2e-3)
    np.testing.assert_allclose(run.predict({"x": X})["y"], X @ w, rtol=0.1, atol=0.1)


def test_weights_without_values_or_with_other_readers_are_refused(tmp_path: Path):
    program = Program("net", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    y = layers.dense(x, "hidden", 64)
    assert told(OpError, lambda: program.lora("hidden", r=2, dora=True)).partition(": ")[2] == (
        "lora: DoRA begins with the norms of hidden.w, whose values are not known before the program runs; give it "
        "initial=from_file(...), or leave dora out"
    )
    rows = ops.gather(program.tensor("hidden.w"), program.input("rows", "int64", ("batch",)), axis=0)
    program.outputs(y=y + rows)
    assert told(OpError, lambda: program.lora("hidden", r=2, dora=True)).partition(": ")[2] == (
        "lora: DoRA is for weights of two axes that only products read, all in one orientation, and gather reads "
        "hidden.w; leave it out, or add its adapter without dora"
    )
