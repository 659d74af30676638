"""Mixed precision of imported programs, as an argument of the import."""

from __future__ import annotations

from typing import Any

import pytest

import prograd
from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS


def has_pairs(desc: pb.ProgramDesc) -> bool:
    """Return True if the program has tensors of bfloat16."""
    return any(tensor.dtype == NUMBERS["bfloat16"] for block in desc.blocks for tensor in block.tensors)


def from_torch(**options: Any) -> prograd.Program:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    loss, optimizer = torch.nn.MSELoss(), torch.optim.SGD(module.parameters(), 0.1)
    inputs = {"input": torch.zeros(32, 64)}
    return prograd.from_torch(module, inputs, batch="batch", loss=loss, optimizer=optimizer, **options)


def from_onnx(**options: Any) -> prograd.Program:
    onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    numpy, helper = pytest.importorskip("numpy"), onnx.helper
    weights = onnx.numpy_helper.from_array(numpy.ones((64, 128), "f4"), "w")
    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size])
        for name, size in (("x", 64), ("y", 128))
    )
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", [x], [y], [weights])
    program = prograd.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), **options)
    target = program.input("target", "float32", ("batch", 128))
    program.minimize(prograd.ops.squared_error(program["y"], target), prograd.sgd(0.1))
    return program


@pytest.mark.parametrize("imported", [from_torch, from_onnx])
def test_an_import_takes_mixed_precision(imported: Any) -> None:
    as_asked = imported(mixed="bfloat16").compile(batch=32)
    assert has_pairs(as_asked.desc)
    assert as_asked.sha256 == imported().compile(batch=32, mixed="bfloat16").sha256
    assert not has_pairs(imported().compile(batch=32).desc)


@pytest.mark.parametrize("imported", [from_torch, from_onnx])
def test_mixed_precision_of_a_compilation_comes_first(imported: Any) -> None:
    kept = prograd.mixed("bfloat16", keep=["*"])
    assert not has_pairs(imported(mixed="bfloat16").compile(batch=32, mixed=kept).desc)


@pytest.mark.parametrize("imported", [from_torch, from_onnx])
def test_other_requests_are_refused(imported: Any) -> None:
    with pytest.raises(CompileError, match=r'^mixed=3: give "bfloat16" or prograd.mixed\("bfloat16", keep=\[…\]\)$'):
        imported(mixed=3)
    with pytest.raises(CompileError, match="mixed='int8': operands can be rounded to bfloat16 only"):
        imported(mixed="int8").compile(batch=32)
