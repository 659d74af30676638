"""Recurrent layers whose states are multiplied as codes, beside loops over steps in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles import integers
from safetensors.numpy import save_file

import prograd
from compiler.__main__ import main as compiler
from prograd import Program, layers, ops, sgd

ENGINES = ["reference", "native"]
ROWS, STEPS, WIDE, HIDDEN = 24, 7, 5, 16
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
CELLS = {"lstm": 2}

Array = np.ndarray[Any, np.dtype[Any]]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gates(kind: str, x: Array, a: Array, old: list[Array]) -> list[Array]:
    if kind == "rnn":
        return [np.tanh(x + a)]
    x, a = (np.split(v, GATES[kind], axis=1) for v in (x, a))  # type: ignore[assignment]
    if kind == "gru":
        update, new = sigmoid(x[1] + a[1]), np.tanh(x[2] + sigmoid(x[0] + a[0]) * a[2])
        return [(1 - update) * new + update * old[0]]
    i, f, g, o = (one + two for one, two in zip(x, a, strict=True))
    c = sigmoid(f) * old[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def in_numpy(kind: str, x: Array, state: Any, bias: Array, counts: Array | None, reverse: bool) -> Array:
    """Return the states after each step, with the codes and scales of a quantised program."""
    old = [np.zeros((ROWS, HIDDEN), "f4")] * CELLS.get(kind, 1)
    codes, scales, scale, zero = (state[f"r.{word}"] for word in ("codes", "scales", "input_scale", "input_zero"))
    after = np.zeros((ROWS, STEPS, HIDDEN), "f4")
    for t in reversed(range(STEPS)) if reverse else range(STEPS):
        sums = integers.product(integers.codes(old[0] / scale, zero), codes, int(zero), np.array(128))
        new = gates(kind, x[:, t], sums.astype("f4") * (scale * scales) + bias, old)
        if counts is not None:
            new = [np.where((counts > t)[:, None], *pair) for pair in zip(new, old, strict=True)]
        old = [v.astype("f4") for v in new]
        after[:, t] = old[0]
    return after


def layer(kind: str, has_lengths: bool, reverse: bool) -> Program:
    """Return one direction of a layer alone."""
    program = Program("layer")
    wide = GATES[kind] * HIDDEN
    x = program.input("x", "float32", ("batch", STEPS, wide))
    r = program.parameter("r", (HIDDEN, wide))
    counts = program.input("counts", "int64", ("batch",)) if has_lengths else None
    steps = ops.range.on(program)(stop=STEPS)
    mask = None if counts is None else steps < ops.unsqueeze(counts, axis=(-1,))
    first = ops.full.on(program)(shape=("batch", HIDDEN), value=0.0)
    if kind == "rnn":
        y = ops.rnn_layer(x, r, first, mask, reverse=reverse)
    elif kind == "gru":
        bias = program.parameter("bias", (wide,))
        y = ops.gru_layer(x, r, bias, first, mask, reverse=reverse)
    else:
        y, _ = ops.lstm_layer(x, r, first, first, mask, reverse=reverse)
    program.outputs(y=y)
    return program


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("has_lengths", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_states_are_multiplied_as_codes(kind: str, has_lengths: bool, engine: str):
    reverse = kind == "gru"
    program = layer(kind, has_lengths, reverse)
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(ROWS, STEPS, GATES[kind] * HIDDEN)).astype("f4")
    counts = numbers.integers(1, STEPS + 1, ROWS) if has_lengths else None
    rows = {"x": x} | ({} if counts is None else {"counts": counts})
    run = prograd.Run(program.compile(batch=ROWS), engine=engine)
    for name, state in run.state.items():
        if name in ("r", "bias"):
            run.state[name] = numbers.normal(0, 0.4, state.shape).astype("f4")
    floats = run.predict(rows)["y"]
    assert program.quantize("int8", run=run, rows=rows) == ["r"]
    small = prograd.Run(program.compile(batch=ROWS), engine=engine)
    assert not any(op.type.endswith("_layer") for op in program.block.desc.ops)
    bias = small.state["bias"] if kind == "gru" else np.float32(0)
    found = small.predict(rows)["y"]
    np.testing.assert_allclose(found, in_numpy(kind, x, small.state, bias, counts, reverse), atol=2e-6)
    ends = float(floats.min()), float(floats.max())
    np.testing.assert_allclose(float(small.state["r.input_scale"]), (ends[1] - ends[0]) / 255, rtol=1e-5)
    assert 1e-5 < np.abs(found - floats).max() < 0.1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program with a recurrent layer, its rows and trained states into an empty folder."""
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(1)
    x = numbers.normal(size=(64, STEPS, WIDE)).astype("f4")
    save_file({"x": x, "label": (x[:, :, 0].sum(1) > 0).astype("i8")}, "rows.safetensors")
    program = Program("recurrent", seed=1)
    sequence, label = program.input("x", "float32", ("batch", STEPS, WIDE)), program.input("label", "int64", ("batch",))
    y, *_ = layers.lstm(sequence, "memory", HIDDEN, bidirectional=True)
    logits = layers.dense(y[:, -1], "head", 2)
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.5))
    program.outputs(logits=logits)
    program.data("rows.safetensors", splits={"train": slice(0, 48), "test": slice(48, 64)})
    program.training(epochs=4, evaluate="test")
    program.compile(batch=16).save("net.pb")
    run = prograd.load("net.pb")
    run.train()
    run.save("t.safetensors")


QUANTIZE = "quantize net.pb --load t.safetensors --data rows.safetensors --split train -o small.pb"


@pytest.mark.usefixtures("home")
def test_a_command_quantises_recurrent_layers_and_tells_their_errors(capsys: pytest.CaptureFixture[str]):
    assert compiler([*QUANTIZE.split(), "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("weight "))
    weights = ["memory.input", "memory.state", "memory.back.input", "memory.back.state", "head.w"]
    assert [line.split()[0] for line in lines[at + 1 : at + 6]] == weights
    assert 0 < float(lines[at + 2].split()[-1].rstrip("%")) < 3
    assert any(line.startswith("loss: ") for line in lines)
    small, rows = prograd.load("small.pb"), {"x": np.ones((16, STEPS, WIDE), "f4")}
    alone = small.predict({"x": rows["x"][:1]})["logits"]
    np.testing.assert_allclose(small.predict(rows)["logits"], np.repeat(alone, 16, 0), atol=1e-6)


@pytest.mark.usefixtures("home")
def test_layers_that_are_kept_stay_as_they_are(capsys: pytest.CaptureFixture[str]):
    assert compiler([*QUANTIZE.split(), "-q", "--keep", "memory.state", "--keep", "memory.back.state"]) == 0
    desc = prograd.load("small.pb").program
    entry = next(entry for entry in desc.entries if entry.name == "predict")
    found = [op.type for op in desc.blocks[entry.source_block].ops]
    assert found.count("lstm_layer") == 2
    assert found.count("integer_matmul") == 3
    assert "scan" not in found


@pytest.mark.usefixtures("home")
def test_an_exported_layer_is_a_scan_of_integers():
    onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    assert compiler([*QUANTIZE.split(), "-q"]) == 0
    assert compiler(["export", "small.pb", "--entry", "predict", "-o", "small.onnx", "-q"]) == 0
    scans = [node for node in onnx.load("small.onnx").graph.node if node.op_type == "Scan"]
    assert len(scans) == 2
    assert "MatMulInteger" in {node.op_type for node in scans[0].attribute[0].g.node}
