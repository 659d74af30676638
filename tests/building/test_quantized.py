"""Programs whose weights are codes of few bits."""

from typing import Any

import numpy as np
import pytest
from subjects.commands import told

import prograd
from compiler.__main__ import main as compiler
from compiler.quantization.block_codes import narrow, wide
from prograd import OpError, Program, adam, constant, layers, ops

pytestmark = pytest.mark.usefixtures("here")

ROWS = {"x": np.random.default_rng(3).normal(size=(32, 64)).astype("f4"), "y": np.arange(32) % 10}


def net(rows: str = "batch", *, dtype: Any = "float32") -> Program:
    program = Program("net", seed=1)
    x, y = program.input("x", "float32", (rows, 64)), program.input("y", "int64", (rows,))
    hidden = ops.relu(layers.dense(x, "hidden", 128))
    table = program.parameter("table", (10, 32), dtype=dtype, trainable=dtype == "float32")
    looked_up = ops.cast(ops.embedding(table, y), dtype="float32")
    logits = layers.dense(ops.concat(hidden, looked_up, axis=-1), "head", 32)[:, :10]
    loss = ops.softmax_cross_entropy(logits, y)
    program.minimize(loss, adam(0.01))
    program.outputs(logits=logits)
    return program


def trained(engine: str) -> prograd.Run:
    net().compile(batch=32).save("net.pb", force=True)
    run = prograd.load("net.pb", engine=engine)
    for _ in range(20):
        run.step(ROWS)
    run.save("trained.safetensors", force=True)
    return run


@pytest.mark.parametrize("form", ["q8_0", "q4_0"])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_command_writes_a_program_that_predicts_nearly_the_same(engine: str, form: str):
    run = trained(engine)
    wanted = run.predict(ROWS)["logits"]
    words = ["quantize", "net.pb", "--load", "trained.safetensors", "--weights", form, "--keep", "head"]
    assert compiler([*words, "-o", "small.pb"]) == 0
    small = prograd.load("small.pb", engine=engine)
    assert "train" not in small.entries
    assert {"hidden.w.codes", "hidden.w.scales", "table.codes", "head.w", "hidden.b"} <= set(small.state)
    assert "hidden.w" not in small.state
    found = small.predict(ROWS)["logits"]
    near = {"q8_0": 0.05, "q4_0": 0.6}[form]
    assert 0 < np.abs(found - wanted).max() < near
    for name in ("hidden.w", "table"):  # exactly the program whose weights are what the codes stand for
        run.state[name] = wide(*narrow(run.state[name], form))
    np.testing.assert_allclose(found, run.predict(ROWS)["logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_adapters_are_trained_on_weights_of_few_bits(engine: str):
    trained(engine)
    states = prograd.load("net.pb").state
    program = Program("tune", seed=2)
    x, y = program.input("x", "float32", (32, 64)), program.input("y", "int64", (32,))
    weight = program.parameter("w", (64, 32), prograd.from_file("base.safetensors", "w"), dtype="bfloat16")
    logits = ops.matmul(x, ops.cast(weight, dtype="float32"))[:, :10]
    loss = ops.softmax_cross_entropy(logits, y)
    from safetensors.numpy import save_file

    save_file({"w": np.asarray(states["hidden.w"])[:, :32].copy()}, "base.safetensors")
    program.lora("w", r=4)
    assert program.quantize("q8_0", values={"w": np.asarray(states["hidden.w"])[:, :32]}) == ["w"]
    program.minimize(loss, adam(0.05))
    program.compile().save("tune.pb")
    run = prograd.load("tune.pb", engine=engine)
    losses = [float(run.step(ROWS)["loss"]) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]
    assert run.state["w.codes"].dtype == np.uint8


def test_the_rounding_is_that_of_ggml():
    x = np.array([[127.0, -127, 0.5, -0.5, 1.5, 2.5, 0.49999997, 63.4] + [0.0] * 24], "f4")
    codes, scales = narrow(x, "q8_0")
    assert codes.view("i1")[0, :8].tolist() == [127, -127, 1, -1, 2, 3, 0, 63]
    assert scales.tolist() == [[1.0]]
    codes, scales = narrow(np.array([[-8.0, 7, 8, 0.4, 0.6] + [0.0] * 26 + [-1.0]], "f4"), "q4_0")
    assert (codes[0, :5] & 15).tolist() == [0, 15, 15, 8, 9]
    assert codes[0, 15] >> 4 == 7
    assert scales.tolist() == [[1.0]]
    assert not wide(*narrow(np.zeros((2, 64), "f4"), "q8_0")).any()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"weights": "q5"}, "quantize: weights='q5' is none of 'q8_0', 'q4_0', 'int8'"),
        ({"keep": ["heads"]}, "quantize: keep='heads' matches no parameter; did you mean 'head.w'?"),
        ({"keep": ["*"]}, "quantize: each weight that could become codes is to stay as it is; there is nothing to do"),
        ({}, "quantize: the values of hidden.w are not known before the program runs; give values=run.state"),
        (
            {"values": {"hidden.w": np.full((64, 128), np.nan), "table": np.ones((10, 32)), "head.w": 0}},
            "quantize: hidden.w has numbers that are not finite, or beyond what scales of float16 can hold; "
            "keep='hidden.w' leaves it as it is",
        ),
    ],
)
def test_what_cannot_be_quantised_is_refused(options: dict[str, Any], fault: str):
    assert told(OpError, lambda: net().quantize(**options)).partition(": ")[2] == fault


def test_narrow_rows_are_no_blocks():
    program = Program("narrow")
    program.outputs(y=program.input("x", "float32", (4, 31)) * program.parameter("w", (4, 31), constant(1.0)))
    with pytest.raises(OpError, match="no parameter has two axes and rows of 32 elements or a multiple; there is noth"):
        program.quantize("q8_0")
