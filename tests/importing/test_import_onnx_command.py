"""The command `compiler import onnx`."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prograd
from compiler.__main__ import main


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    weights = {"body.w": rng.normal(0, 0.2, (64, 32)), "head.w": rng.normal(0, 0.2, (32, 5))}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    make = onnx.helper
    graph = make.make_graph(
        [
            make.make_node("MatMul", ["x", "body.w"], ["a"]),
            make.make_node("Tanh", ["a"], ["h"]),
            make.make_node("MatMul", ["h", "head.w"], ["logits"]),
        ],
        "net",
        [make.make_tensor_value_info("x", 1, ("batch", 64))],
        [make.make_tensor_value_info("logits", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)]), "net.onnx")
    return weights


def test_a_file_becomes_a_program_that_predicts(net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]):
    assert main(["import", "onnx", "net.onnx", "-o", "net.pb"]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("OK states=2 program_sha256=")
    assert "note: the weights are in net.weights.safetensors, which must lie beside net.pb" in told.err
    x = np.linspace(-1, 1, 32 * 64, dtype=np.float32).reshape(32, 64)
    wanted = np.tanh(x @ net["body.w"]) @ net["head.w"]
    np.testing.assert_allclose(prograd.load("net.pb").predict(x)["logits"], wanted, rtol=1e-4, atol=1e-5)


def test_the_suffix_says_which_format_a_file_has(net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]):
    assert main(["import", "net.onnx", "--explain"]) == 0
    assert main(["import", "--explain", "net.onnx"]) == 0
    assert main(["import", "net.onnx", "-o", "net.pb"]) == 0
    assert Path("net.pb").exists()
    capsys.readouterr()
    for words in (["net.txt"], ["--explain"]):
        with pytest.raises(SystemExit):
            main(["import", *words])
        assert capsys.readouterr().err == (
            "compiler: there is no verb 'import'; the verbs are import onnx, import torch, import lm; "
            "see compiler --help\n"
        )


HEADS: dict[str, list[tuple[str, list[str], str, dict[str, int]]]] = {
    "softmax": [("Softmax", ["logits"], "y", {"axis": -1})],
    "written softmax": [
        ("Exp", ["logits"], "e", {}),
        ("ReduceSum", ["e", "axes"], "s", {"keepdims": 1}),
        ("Div", ["e", "s"], "y", {}),
    ],
    "softmax and reshape": [("Softmax", ["logits"], "p", {"axis": 1}), ("Reshape", ["p", "shape"], "y", {})],
    "sigmoid": [("Sigmoid", ["logits"], "y", {})],
    "softmax over rows": [("Softmax", ["logits"], "y", {"axis": 0})],
    "other sum": [
        ("Exp", ["logits"], "e", {}),
        ("ReduceSum", ["e", "axis_of_rows"], "s", {"keepdims": 1}),
        ("Div", ["e", "s"], "y", {}),
    ],
}


def end_in(head: str) -> None:
    """Append nodes to net.onnx, and make `y` its result."""
    model = onnx.load("net.onnx")
    make = onnx.helper
    model.graph.node.extend(make.make_node(kind, ins, [out], **more) for kind, ins, out, more in HEADS[head])
    numbers = {"axes": [1], "shape": [-1, 5], "axis_of_rows": [0]}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.array(n), name) for name, n in numbers.items())
    del model.graph.output[:]
    model.graph.output.append(make.make_tensor_value_info("y", 1, None))
    onnx.save(model, "net.onnx")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("head", HEADS)
def test_a_loss_of_logits_is_of_those_before_a_softmax_or_a_sigmoid(
    net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], head: str, engine: str
):
    end_in(head)
    loss = "binary_cross_entropy_with_logits" if head == "sigmoid" else "softmax_cross_entropy"
    words = ["--loss", loss, "--optimizer", "sgd:1e-2", "--batch", "32"]
    assert main(["import", "onnx", "net.onnx", *words, "-o", "tune.pb"]) == 0
    is_found = head not in ("softmax over rows", "other sum")
    noted = f"note: {loss.split('_')[0] if head != 'sigmoid' else head} makes 'y', so the loss is of the logits before"
    assert (noted in capsys.readouterr().err) == is_found
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(32, 64)).astype(np.float32), rng.integers(0, 5, 32)
    untyped: Any = np
    z = untyped.asarray(np.tanh(x @ net["body.w"]) @ net["head.w"], dtype=np.float64)
    if head == "sigmoid":
        target = rng.integers(0, 2, (32, 5)).astype(np.float32)
        wanted = untyped.mean(untyped.log1p(untyped.exp(z)) - target * z)
    else:
        target = labels
        z = z if is_found else untyped.exp(z) / untyped.exp(z).sum(0)
        wanted = untyped.mean(untyped.log(untyped.exp(z).sum(1)) - z[np.arange(32), labels])
    run = prograd.load("tune.pb", engine=engine)
    np.testing.assert_allclose(float(run.step({"x": x, "target": target})["loss"]), wanted, rtol=1e-5)


def test_only_matching_parameters_are_trained(net: dict[str, np.ndarray]):
    words = ["--loss", "softmax_cross_entropy", "--train", "head.*", "--optimizer", "adam:1e-2", "--batch", "32"]
    assert main(["import", "onnx", "net.onnx", *words, "-o", "tune.pb"]) == 0
    run = prograd.load("tune.pb")
    x, labels = np.ones((32, 64), np.float32), np.zeros(32, np.int64)
    losses = [float(run.step({"x": x, "target": labels})["loss"]) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_array_equal(run.state["body.w"], net["body.w"])
    assert not np.array_equal(run.state["head.w"], net["head.w"])


def test_the_table_of_names_says_what_is_trained_and_why(
    net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
):
    words = ["--loss", "softmax_cross_entropy", "--train", "head.*", "--optimizer", "adam:1e-2", "--names"]
    assert main(["import", "onnx", "net.onnx", *words, "-o", "tune.pb"]) == 0
    rows = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert ["body.w", "body.w", "64x32", "no", "the training leaves it out"] in rows
    assert ["head.w", "head.w", "32x5", "yes", "MatMul reads it as a weight"] in rows


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], "import: -o FILE names the program to write, or --explain prints what cannot be imported"),
        (["-o", "a.pb", "--loss", "squared_error"], "import onnx: training needs both --loss and --optimizer"),
        (
            ["-o", "a.pb", "--loss", "squared_error", "--optimizer", "adam"],
            "--optimizer adam: write NAME:RATE, as in adam:1e-3",
        ),
        (
            ["-o", "a.pb", "--loss", "squared_error", "--optimizer", "adam:1", "--train", "tail.*"],
            "--train tail.*: no parameter has such a name; they are body.w, head.w",
        ),
        (["-o", "a.pb", "--lora", "tail.*:r=2"], "compiler: --lora tail.*:r=2: no parameter matches 'tail.*'"),
        (["-o", "a.pb", "--input", "x"], "--input x: write NAME=[SHAPE], as in image=[batch,3,224,224]"),
        (["-o", "a.pb", "--constant", "x=a"], "--constant x=a: write NAME=VALUES, as in shape=1,64"),
    ],
)
def test_a_wrong_option_is_refused(
    net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], words: list[str], wanted: str
):
    assert main(["import", "onnx", "net.onnx", *words]) != 0
    assert wanted in capsys.readouterr().err
    assert not Path("a.pb").exists()


def test_check_prints_that_everything_can_be_imported(net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]):
    assert main(["import", "onnx", "net.onnx", "--explain"]) == 0
    assert capsys.readouterr().out == "everything can be imported\n"


@pytest.mark.parametrize(("option", "form"), [("--max-rows", "NAME=COUNT"), ("--dim", "NAME=SIZE")])
def test_a_word_without_a_number_is_refused(
    option: str, form: str, net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
):
    assert main(["import", "net.onnx", option, "logits", "-o", "net.pb"]) == 2
    assert capsys.readouterr().err == f"compiler: {option} logits: write {form}, as in batch=64\n"


def test_imports_in_one_folder_keep_their_own_weights(net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]):
    assert main(["import", "net.onnx", "-o", "a.pb"]) == 0
    before = Path("a.weights.safetensors").read_bytes()
    model = onnx.load("net.onnx")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * 2, tensor.name))
    onnx.save(model, "net.onnx")
    assert main(["import", "net.onnx", "-o", "b.pb", "--force"]) == 0
    assert Path("a.weights.safetensors").read_bytes() == before
    assert main(["import", "net.onnx", "-o", "a.pb", "--force"]) == 0  # its own weights may be replaced
    assert Path("a.weights.safetensors").read_bytes() == Path("b.weights.safetensors").read_bytes()


def test_weights_of_another_program_are_never_replaced(net: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]):
    weights = Path("b.weights.safetensors")
    weights.write_bytes(b"of another program")
    assert main(["import", "net.onnx", "-o", "b.pb", "--force"]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "compiler: b.weights.safetensors: the program's initial values would replace a file of other content, which is "
        "not of b.pb; give the program another name, or remove the file"
    )
    assert (weights.read_bytes(), Path("b.pb").exists()) == (b"of another program", False)
    program = prograd.from_onnx("net.onnx", name="shared")
    program.compile(batch=4).save("one.pb")
    other = prograd.from_onnx("net.onnx", name="shared", tie=True)
    next(iter(other.arrays.values()))["body.w"] = np.ones((64, 32), np.float32)
    with pytest.raises(prograd.ProgramError, match=r"which is not of two\.pb; give the program another name"):
        other.compile(batch=4).save("two.pb", force=True)
    other.compile(batch=4).save("one.pb", force=True)
