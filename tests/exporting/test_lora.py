"""Low-rank adapters: values, gradients, what is trained, merging, and the options of imports."""

from pathlib import Path

import numpy as np
import pytest

import prograd
from compiler.__main__ import main
from compiler.exporters.merged_states import adapters_alone, merged_states
from prograd import Program, adam, layers, ops
from registry import OpError

ENGINES = ("reference", "native")
WEIGHTS = ["block.attention.q.w", "block.attention.k.w", "block.attention.v.w", "block.attention.out.w"]


def built(*rules: tuple[str, int, float | None]) -> Program:
    program = Program("net", seed=1)
    x = program.input("x", "float32", ("batch", 8, 8, 16))
    label = program.input("label", "int64", ("batch",))
    h = ops.relu(layers.conv(x, "mix", 32, window=1))
    h = layers.transformer_block(ops.reshape(h, shape=("batch", 64, 32)), "block", 4)
    logits = layers.dense(ops.mean(h, axis=1), "head", 10)
    for pattern, rank, alpha in rules:
        program.lora(pattern, r=rank, alpha=alpha)
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(1e-2))
    program.outputs(logits=logits)
    return program


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((32, 8, 8, 16)).astype(np.float32), "label": rng.integers(0, 10, 32)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ENGINES)
def test_adapters_begin_with_the_program_as_it_is_and_train_alone(engine: str):
    plain, adapted = built(), built(("block.attention*", 4, 8.0), ("mix", 2, None))
    runs = [prograd.Run(program.compile(batch=32), engine=engine) for program in (plain, adapted)]  # type: ignore[arg-type]
    x = {"x": feeds()["x"]}
    first = [run.step(x, entry="predict")["logits"] for run in runs]
    run = runs[1]
    for name in WEIGHTS:  # random streams are counted, so that the weights of both programs are equal
        np.testing.assert_array_equal(runs[0].state[name], run.state[name])
    np.testing.assert_allclose(first[0], first[1], rtol=1e-6, atol=1e-6)
    before = {name: np.array(run.state[name]) for name in run.state}
    losses = [float(run.step(feeds())["loss"]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    slots = (".m", ".v")
    changed = {n for n in before if not np.array_equal(before[n], run.state[n]) and not n.endswith(slots)}
    assert changed == {"step", *(f"{name}.lora_{side}" for name in [*WEIGHTS, "mix.w"] for side in "ab")}
    assert sum(name.endswith(".m") for name in before) == 10  # no slots of frozen parameters


def test_an_adapter_equals_a_weight_with_the_product_added():
    run = prograd.Run(built(("block.attention*", 4, 8.0)).compile(batch=32))
    rng = np.random.default_rng(1)
    plain = prograd.Run(built().compile(batch=32))
    for name in WEIGHTS:
        a, b = (rng.normal(0, 0.3, shape).astype(np.float32) for shape in ((32, 4), (4, 32)))
        run.state[f"{name}.lora_a"], run.state[f"{name}.lora_b"] = a, b
        plain.state[name] = np.array(run.state[name]) + 2 * a @ b
    x = {"x": feeds()["x"]}
    wanted = plain.step(x, entry="predict")["logits"]
    np.testing.assert_allclose(run.step(x, entry="predict")["logits"], wanted, rtol=1e-4, atol=1e-5)
    merged = merged_states(run.program, run.states.arrays)
    assert not any("lora" in name for name in merged)
    for name in WEIGHTS:
        np.testing.assert_allclose(merged[name], plain.state[name], rtol=1e-6, atol=1e-7)


def test_the_gradients_of_adapters_are_those_of_the_product():
    """With G the gradient of the sum, that of A is scale * G @ B.T, and that of B is scale * A.T @ G."""
    program = Program("product", seed=1)
    x, y = program.input("x", "float64", ("batch", 64)), program.input("y", "float64", ("batch", 32))
    w = program.parameter("w", (64, 32), dtype="float64")
    prediction = x @ w
    assert program.lora("w", r=3, alpha=6.0) == ["w"]
    program.minimize(ops.squared_error(prediction, y, reduction="sum"), prograd.sgd(1.0))
    run = prograd.Run(program.compile(batch=32))
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(64, 3)), rng.normal(size=(3, 32))
    run.state["w.lora_a"], run.state["w.lora_b"] = a, b
    fed = {"x": rng.normal(size=(32, 64)), "y": rng.normal(size=(32, 32))}
    whole = run.state["w"] + 2 * a @ b
    g = fed["x"].T @ (2 * (fed["x"] @ whole - fed["y"]))
    run.step(fed)
    np.testing.assert_allclose(a - run.state["w.lora_a"], 2 * g @ b.T, rtol=1e-9)
    np.testing.assert_allclose(b - run.state["w.lora_b"], 2 * a.T @ g, rtol=1e-9)


@pytest.mark.parametrize("outputs_first", [False, True])
@pytest.mark.parametrize("on_the_left", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_adapter_beside_a_product_equals_the_sum(engine: str, on_the_left: bool, outputs_first: bool):
    program = Program("product", seed=1)
    x = program.input("x", "float32", (32, 64))
    w = program.parameter("w", (96, 64) if outputs_first else (64, 96), dtype="bfloat16")
    wide = ops.cast(w, dtype="float32")
    if on_the_left:
        y = ops.transpose(ops.matmul(wide, x, transpose_a=not outputs_first, transpose_b=True), axis=(1, 0))
    else:
        y = ops.matmul(x, wide, transpose_b=outputs_first)
    assert program.lora("w", r=4, alpha=8.0) == ["w"]
    program.outputs(y=y)
    run = prograd.Run(program.compile(), engine=engine)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    fed = rng.standard_normal((32, 64)).astype(np.float32)
    left, right = ("w.lora_b", "w.lora_a") if outputs_first else ("w.lora_a", "w.lora_b")
    assert not np.any(run.state["w.lora_b"])
    for name in (left, right):
        run.state[name] = rng.standard_normal(run.state[name].shape).astype(np.float32)
    whole = np.asarray(run.state["w"], np.float64) + 2 * np.asarray(run.state[left]) @ np.asarray(run.state[right])
    wanted = fed @ (whole.T if outputs_first else whole)
    np.testing.assert_allclose(run.predict({"x": fed})["y"], wanted, rtol=1e-3, atol=1e-3)


def test_a_program_of_a_file_gets_adapters_in_all_its_entries(tmp_path: Path):
    path = tmp_path / "net.pb"
    program = Program("net", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    program.outputs(y=layers.dense(ops.tanh(layers.dense(x, "hidden", 64)), "out", 8))
    program.compile(batch=32).save(path)
    opened = Program.load(path)
    assert opened.lora("hidden", r=2) == ["hidden.w"]
    run = prograd.Run(opened.compile(batch=32))
    x_ = {"x": np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)}
    before = run.step(x_, entry="predict")["y"]
    run.state["hidden.w.lora_b"] = np.ones((2, 64), np.float32)
    assert np.abs(run.step(x_, entry="predict")["y"] - before).max() > 1e-3


def test_adapters_are_saved_alone_merged_and_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    compiled = built(("block.attention*", 2, None)).compile(batch=32)
    compiled.save("tune.pb")
    run = prograd.load("tune.pb")
    for _ in range(3):
        run.step(feeds())
    run.save("tuned.safetensors")
    assert main(["merge", "tune.pb", "--load", "tuned.safetensors", "--adapters", "-o", "adapters.safetensors"]) == 0
    assert main(["merge", "tune.pb", "--load", "tuned.safetensors", "-o", "merged.safetensors"]) == 0
    assert Path("adapters.safetensors").stat().st_size < Path("merged.safetensors").stat().st_size / 4
    x = {"x": feeds()["x"]}
    wanted = run.step(x, entry="predict")["logits"]
    again = prograd.load("tune.pb")
    again.load("adapters.safetensors", only="*.lora_*")
    np.testing.assert_array_equal(again.step(x, entry="predict")["logits"], wanted)
    plain = prograd.Run(built().compile(batch=32))
    plain.load("merged.safetensors")
    np.testing.assert_allclose(plain.step(x, entry="predict")["logits"], wanted, rtol=1e-4, atol=1e-5)
    assert len(adapters_alone(run.program, run.states.arrays)) == 8
    onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    names = {tensor.name: tensor for tensor in prograd.to_onnx(run).graph.initializer}
    assert not any("lora" in name for name in names)
    merged = merged_states(run.program, run.states.arrays)
    for name in WEIGHTS:
        np.testing.assert_allclose(onnx.numpy_helper.to_array(names[name]), merged[name], rtol=1e-5, atol=1e-6)


def test_wrong_adapters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refusal(*rules: tuple[str, int, float | None]) -> str:
        with pytest.raises(OpError) as error:
            built(*rules)
        return str(error.value).rpartition("lora: ")[2]

    assert refusal(("heads", 4, None)) == "no parameter matches 'heads'; did you mean 'head.w'?"
    assert refusal(("head.b", 4, None)) == "'head.b' matches no matrix, only head.b"
    assert refusal(("head", 11, None)) == "r=11 is not from 1 to 10, as head.w needs"
    assert refusal(("head", 2, None), ("head.w", 2, None)) == "head.w has an adapter already"
    with pytest.raises(OpError, match="adapters come before minimize and gradients, which would not see them"):
        built().lora("head")
    monkeypatch.chdir(tmp_path)
    built().compile(batch=32).save("plain.pb")
    assert main(["merge", "plain.pb", "-o", "merged.safetensors"]) != 0
    told = capsys.readouterr().err.strip()
    assert told == "compiler: merge: the program has no adapters; compiler import --lora, or Program.lora, adds them"
