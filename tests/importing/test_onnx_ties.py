"""Weights that an exporter merged or copied: untied and tied again while importing."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prograd
from compiler.__main__ import main

helper = onnx.helper
W = np.random.default_rng(5).normal(0, 0.3, (64, 64)).astype(np.float32)


def model(nodes: list[Any], weights: dict[str, Any]) -> Any:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, (32, 64))],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def merged() -> Any:
    """Return a product with a weight, with the same weight under another name, and with it directly again."""
    nodes = [
        helper.make_node("Identity", ["first.weight"], ["second.weight"]),
        helper.make_node("MatMul", ["x", "first.weight"], ["a"]),
        helper.make_node("MatMul", ["a", "second.weight"], ["b"]),
        helper.make_node("MatMul", ["b", "first.weight"], ["y"]),
    ]
    return model(nodes, {"first.weight": W})


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_merged_weights_are_untied(engine: Any):
    x = np.random.default_rng(6).normal(size=(32, 64)).astype(np.float32)
    program = prograd.from_onnx(merged(), untie=True)
    assert sorted(t.name for t in program.tensors_of_file) == ["first.weight", "first.weight.2", "second.weight"]
    assert program.notes_of_import == []
    found = prograd.Run(program.compile(), engine=engine).step({"x": x}, entry="predict")["y"]
    np.testing.assert_allclose(found, x @ W @ W @ W, rtol=1e-3, atol=1e-4)
    [note] = prograd.from_onnx(merged()).notes_of_import
    assert note == (
        "the exporter merged 1 parameters with others of equal values, so training ties them; export with "
        "torch.onnx.export(..., dynamo=True, optimize=False) to keep it, or untie them by --untie"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_copied_weight_is_tied_again(engine: Any):
    nodes = [
        helper.make_node("MatMul", ["x", "embedding"], ["a"]),
        helper.make_node("MatMul", ["a", "copy"], ["y"]),
    ]
    made = model(nodes, {"embedding": W, "copy": np.ascontiguousarray(W.T)})
    x = np.random.default_rng(7).normal(size=(32, 64)).astype(np.float32)
    program = prograd.from_onnx(made, tie=True)
    assert [t.name for t in program.tensors_of_file] == ["embedding"]
    found = prograd.Run(program.compile(), engine=engine).step({"x": x}, entry="predict")["y"]
    np.testing.assert_allclose(found, x @ W @ W.T, rtol=1e-3, atol=1e-4)
    [note] = prograd.from_onnx(made).notes_of_import
    assert note.startswith("'copy' is the transposed copy of") or note.startswith("'embedding' is the transposed copy")
    assert note.endswith("or tie them by --tie")


def test_the_command_prints_a_row_for_each_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    onnx.save(merged(), "net.onnx")
    assert main(["import", "net.onnx", "--untie", "--names", "-o", "net.pb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["in", "the", "file", "in", "the", "program", "shape", "trained", "why"]
    assert lines[1].split()[:4] == ["first.weight", "first.weight", "64x64", "yes"]
    assert len(lines) == 5


def test_a_name_that_is_no_text_is_refused(tmp_path: Path):
    path = tmp_path / "net.onnx"
    data = merged().SerializeToString().replace(b"second.weight", b"second\xffweight")
    path.write_bytes(data)
    with pytest.raises(prograd.CompileError) as told:
        prograd.from_onnx(path)
    assert str(told.value) in (
        f"{path}: this is not an ONNX file, or a damaged one: a name in it is no text",
        f"{path}: this is not an ONNX file, or a damaged one",
    )
