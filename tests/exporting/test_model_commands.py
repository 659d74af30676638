"""The commands `compiler export`, `compare` and `gradcheck`."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import prograd
from compiler.__main__ import main
from prograd import Program, layers, ops, sgd
from prograd_proto import program_pb2 as pb
from prograd_proto.files import load, save


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    program = Program("net", seed=2)
    x, label = program.input("x", "float32", ("batch", 64)), program.input("label", "int64", ("batch",))
    h = ops.dropout(ops.tanh(layers.dense(x, "hidden", 64)), ratio=0.5)
    logits = layers.dense(ops.relu(h), "out", 10)
    program.minimize(ops.softmax_cross_entropy(logits, label), sgd(0.1))
    program.outputs(logits=logits)
    program.compile(batch=32).save("net.pb")
    return "net.pb"


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_an_export_of_trained_weights_has_the_numbers_of_the_program(net: str, capsys: pytest.CaptureFixture[str]):
    run = prograd.load(net)
    rng = np.random.default_rng(0)
    run.step({"x": rng.normal(size=(32, 64)).astype(np.float32), "label": rng.integers(0, 10, 32)})
    run.save("trained.safetensors")
    assert main(["export", net, "--load", "trained.safetensors", "-o", "net.onnx"]) == 0
    assert last_line(capsys) == "OK opset=21 nodes=4 weights=4"
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load("net.onnx").graph.initializer}
    np.testing.assert_array_equal(weights["out.b"], run.state["out.b"])
    assert main(["compare", "net.onnx", net, "--dim", "batch=32"]) == 1  # the program has its initial weights
    told = capsys.readouterr().out
    assert "logits begins to differ at 'add_2', which Gemm makes from tensors that both models have" in told
    trained = ["--load", "trained.safetensors"]
    assert main(["compare", "net.onnx", net, "--dim", "batch=32", *trained]) == 0
    assert last_line(capsys).startswith("OK results=1 relative=")
    assert main(["compare", net, net, *trained]) == 1  # the second one alone is trained
    assert main(["export", net, "-o", "net.onnx", "--force"]) == 0
    assert main(["compare", "net.onnx", net, "--dim", "batch=32", "--engine", "native"]) == 0
    assert last_line(capsys).startswith("OK results=1 relative=")


def test_a_result_that_only_one_model_has_is_a_difference(net: str, capsys: pytest.CaptureFixture[str]):
    more = Program.load(net)
    more.outputs(logits=more.fetched("predict")["logits"], hidden=more["x"])
    more.compile().save("more.pb")
    assert main(["compare", net, "more.pb"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["only one of both has the result hidden", "DIFFERS results=1 relative=0"]


def test_two_files_with_sizes_without_a_name_are_compared(net: str, capsys: pytest.CaptureFixture[str]):
    assert main(["export", net, "-o", "net.onnx"]) == 0
    model = onnx.load("net.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1  # as PaddlePaddle writes it
    onnx.save(model, "paddle.onnx")
    for words in ([], ["--dim", "x_0=32"]):
        assert main(["compare", "paddle.onnx", "net.onnx", *words]) == 0
        rows = capsys.readouterr().out
        assert f"logits  [{32 if words else 1}, 10]" in rows


def test_the_gradients_of_a_program_are_checked(net: str, capsys: pytest.CaptureFixture[str]):
    for engine in ("reference", "native"):
        assert main(["gradcheck", net, "--engine", engine, "--elements", "3"]) == 0
        assert last_line(capsys) == "OK parameters=4 elements=12 wrong=0"


def test_the_gradients_of_a_program_with_mixed_precision_are_checked(net: str, capsys: pytest.CaptureFixture[str]):
    assert main(["compile", net, "--mixed", "bfloat16", "-o", "mixed.pb"]) == 0
    capsys.readouterr()
    for engine in ("reference", "native"):
        assert main(["gradcheck", "mixed.pb", "--engine", engine, "--elements", "3"]) == 0
        assert last_line(capsys) == "OK parameters=4 elements=12 wrong=0"
    assert main(["gradcheck", "mixed.pb", "--elements", "3", "--rounding", "1e-3"]) == 1
    assert last_line(capsys).startswith("WRONG parameters=4 elements=12 wrong=")


def test_a_wrong_gradient_is_found(net: str, capsys: pytest.CaptureFixture[str]):
    program = load(net)
    block = program.blocks[program.entries[0].source_block]
    [gradient] = [t.name for t in block.tensors if t.gradient_of == "hidden.b"]
    [op] = [op for op in block.ops if gradient in op.outputs]
    assert op.type == "sum"
    op.type = "max"  # of the same type and attributes
    operators = sorted([*program.operators, pb.OperatorVersion(type="max", version=1)], key=lambda each: each.type)
    del program.operators[:]
    program.operators.extend(operators)
    save(program, Path("wrong.pb"))
    assert main(["gradcheck", "wrong.pb", "--elements", "3"]) == 1
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines() if line.endswith("WRONG")] == ["hidden.b"]
    assert told.splitlines()[-1] == "WRONG parameters=4 elements=12 wrong=1"


def test_a_gradient_that_is_zero_but_for_rounding_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    program = Program("attention", seed=3)
    x, y = program.input("x", "float32", ("batch", 1, 16, 64)), program.input("y", "float32", ("batch", 1, 16, 64))
    queries, keys, values = (layers.dense(x, name, 64) for name in ("queries", "keys", "values"))
    program.minimize(ops.squared_error(ops.scaled_dot_product_attention(queries, keys, values), y), sgd(0.1))
    program.compile(batch=32).save("attention.pb")
    for engine in ("reference", "native"):
        assert main(["gradcheck", "attention.pb", "--engine", engine, "--elements", "3"]) == 0
        told = capsys.readouterr().out
        assert "keys.b" in told  # softmax does not depend on it
        assert told.splitlines()[-1] == "OK parameters=6 elements=18 wrong=0"


def test_a_parameter_whose_loss_has_a_kink_everywhere_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    program = Program("gated", seed=3)
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch", 64))
    gate = program.parameter("gate", (64,), prograd.constant(0.0))
    program.minimize(ops.squared_error(layers.dense(x, "hidden", 64) + ops.relu(gate), y), sgd(0.1))
    program.compile(batch=32).save("gated.pb")
    for engine in ("reference", "native"):
        assert main(["gradcheck", "gated.pb", "--engine", engine, "--elements", "3"]) == 1
        told = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in told if line.endswith("UNDECIDED")] == ["gate"]
        assert told[-2:] == [
            "undecided, as the loss has a kink at every element that was tried: gate; try more by --elements, or other "
            "values by --seed or --load",
            "UNDECIDED parameters=3 elements=6 wrong=0",
        ]
    run = prograd.load("gated.pb")
    run.state["gate"] = np.full(64, 0.5, "float32")
    run.save("moved.safetensors")
    assert main(["gradcheck", "gated.pb", "--elements", "3", "--load", "moved.safetensors"]) == 0
    assert last_line(capsys) == "OK parameters=3 elements=9 wrong=0"


def test_random_integers_that_are_no_positions_are_told_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    program = Program("tens", seed=3)
    code = program.input("code", "int64", ("batch",))
    table = program.parameter("table", (4, 64))
    rows = ops.gather(table, code * 10)
    program.minimize(ops.mean(ops.square(rows)), sgd(0.1))
    program.outputs(rows=rows)
    program.compile(batch=32).save("tens.pb")
    sentence = (
        r"compiler: op \d+ \(gather from test_model_commands\.py:\d+\): index 10 is out of range: there are 4 places, "
        r"from 0; the integers of the inputs are random, so give them by --feed NAME=@FILE\n"
    )
    for words in (["gradcheck", "tens.pb"], ["compare", "tens.pb", "tens.pb"]):
        for engine in ("reference", "native"):
            assert main([*words, "--engine", engine]) == 4
            assert re.fullmatch(sentence, capsys.readouterr().err)
    np.save("zeros.npy", np.zeros(32, np.int64))
    assert main(["gradcheck", "tens.pb", "--feed", "code=@zeros.npy"]) == 0


def test_frozen_parameters_are_named(net: str, capsys: pytest.CaptureFixture[str]):
    assert main(["freeze", net, "--states", "hidden.*", "-o", "frozen.pb"]) == 0
    capsys.readouterr()
    assert main(["gradcheck", "frozen.pb", "--elements", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-2:] == [
        "not checked, as they are frozen: hidden.w, hidden.b",
        "OK parameters=2 elements=4 wrong=0",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["export", "net.pb", "-o", "net.pt"], "export: net.pt does not end in .onnx, the format that is written"),
        (["export", "net.pb", "-o", "n.onnx", "--bind", "rows=3"],
         "to_onnx: the entry 'predict' has no symbol 'rows'"),
        (["export", "net.pb", "-o", "n.onnx", "--load", "absent.safetensors"],
         "absent.safetensors: no such file"),
        (["export", "net.pb", "-o", "n.onnx", "--entry", "train"],
         "to_onnx: the entry 'train' updates states, which ONNX cannot say; view=True, or --view, writes it in a "
         "domain of our own, for viewers"),
        (["compare", "net.pb", "net.pb", "--feed", "x"], "--feed x: there is no file x"),
        (["compare", "net.pb", "absent.onnx"], "absent.onnx: no such file"),
        (["compare", "net.pb", "net.pb", "--load", "absent.safetensors"], "absent.safetensors: no such file"),
        (["gradcheck", "net.pb", "--entry", "predict"], "gradcheck: the entry trains no parameter"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused(net: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    assert main(words) != 0
    assert capsys.readouterr().err.strip() == f"compiler: {told}"
    assert not Path("n.onnx").exists()
