"""Conditions and loops of ONNX files that depend on data: values and gradients, on both engines."""

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install "prograd[onnx]"')

import prograd  # noqa: E402
from prograd import ops  # noqa: E402

helper = onnx.helper
X = np.random.default_rng(3).normal(0, 0.3, (32, 64)).astype(np.float32)
W = np.random.default_rng(4).normal(0, 0.1, (64, 64)).astype(np.float32)


def value(name: str, kind: int = 1, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], constants: dict[str, Any]) -> Any:
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, [value("y")], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def branching() -> Any:
    then = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "other", [], [value("b")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    return model(nodes, [value("x", 1, (32, 64)), value("c", 9, ())], {"w": W})


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_on_data_runs_alone_and_has_gradients(engine: Any, flag: bool):
    program = prograd.from_onnx(branching())
    assert "cond(" in str(program.compile())
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    found = run.step({"x": X, "c": np.array(flag)}, entry="predict")["y"]
    np.testing.assert_allclose(found, X @ W if flag else -X, rtol=1e-4, atol=1e-5)
    run.step({"x": X, "c": np.array(flag)})
    wanted = W - (X.T @ np.ones((32, 64), np.float32) if flag else 0)
    np.testing.assert_allclose(run.state["w"], wanted, rtol=1e-4, atol=1e-4)


def looping(bound: Any) -> Any:
    """Return a loop that multiplies by a matrix until the first element of a counter reaches a limit."""
    nodes = [
        helper.make_node("MatMul", ["v", "w"], ["v1"]),
        helper.make_node("Add", ["n", "one"], ["n1"]),
        helper.make_node("Less", ["n1", "limit"], ["more"]),
    ]
    inputs = [value("i", 7, ()), value("go", 9, ()), value("v", 1, (32, 64)), value("n", 1, ())]
    body = helper.make_graph(nodes, "body", inputs, [value("more", 9, ()), value("v1"), value("n1")])
    nodes = [
        helper.make_node("Less", ["zero", "limit"], ["first"]),
        helper.make_node("Loop", ["bound", "first", "x", "zero"], ["y", "count"], body=body),
    ]
    constants = {"w": W, "one": np.float32(1), "zero": np.float32(0), "bound": np.int64(bound)}
    return model(nodes, [value("x", 1, (32, 64)), value("limit", 1, ())], constants)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("limit", "trips"), [(0.0, 0), (1.0, 1), (3.0, 3), (9.0, 5)])
def test_a_loop_runs_as_often_as_its_data_says_up_to_its_bound(engine: Any, limit: float, trips: int):
    program = prograd.from_onnx(looping(5))
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    feeds = {"x": X, "limit": np.float32(limit)}
    powers = [np.linalg.matrix_power(W.astype(np.float64), k) for k in range(trips + 1)]
    found = run.step(feeds, entry="predict")["y"]
    np.testing.assert_allclose(found, X @ powers[trips], rtol=1e-4, atol=1e-5)
    run.step(feeds)
    ones = np.ones((32, 64))
    dw = sum((powers[k].T @ X.T @ ones @ powers[trips - 1 - k].T for k in range(trips)), np.zeros((64, 64)))
    np.testing.assert_allclose(run.state["w"], W - dw, rtol=1e-3, atol=1e-3)
