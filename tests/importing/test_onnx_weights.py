"""Tests of the choice of parameters among the tensors of an ONNX file."""

import math
from typing import Any

import numpy as np
import onnx
import pytest
from importing.test_from_onnx import drawn, model

import prograd

node = onnx.helper.make_node
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"


def trained(source: Any) -> set[str]:
    return {t.name for t in prograd.from_onnx(source).tensors_of_file if t.trained}


def constant(name: str, array: Any) -> Any:
    return node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))


def noted(source: Any, kinds: dict[str, str]) -> Any:
    """Return a model with the notes of PyTorch's exporter."""
    source.producer_name = "pytorch"
    for name, kind in kinds.items():
        info = source.graph.value_info.add(name=name)
        info.metadata_props.add(key=KIND, value=kind)
    return source


def group_norm(ones: str, zeros: str, scale: str, shift: str) -> list[Any]:
    """Return the nodes of a group normalisation of [n, 8, 6], whose own weights are behind it."""
    return [
        node("Reshape", ["x", "groups"], ["g"]),
        node("InstanceNormalization", ["g", ones, zeros], ["i"]),
        node("Reshape", ["i", "whole"], ["r"]),
        node("Mul", ["r", scale], ["m"]),
        node("Add", ["m", shift], ["y"]),
    ]


SHAPES = {"groups": np.array([0, 2, -1]), "whole": np.array([0, 8, 6])}


def test_the_weights_behind_the_reshape_of_a_group_normalisation_are_trained_and_its_constants_are_not():
    ones, zeros, shift = "/norm/Constant_output_0", "/norm/Constant_1_output_0", "/norm/Unsqueeze_output_0"
    nodes = [
        constant(ones, np.ones(2)),
        constant(zeros, np.zeros(2)),
        node("Unsqueeze", ["norm.bias", "one"], [shift]),
        *group_norm(ones, zeros, "w", shift),
    ]
    weights = {**SHAPES, "w": drawn(8, 1), "norm.bias": drawn(8), "one": np.array([1])}
    assert trained(model(nodes, {"x": ("n", 8, 6)}, ["y"], weights)) == {"w", "norm.bias"}


def test_an_affine_instance_normalisation_with_a_name_of_its_own_is_trained_from_ones():
    nodes = [node("InstanceNormalization", ["x", "norm.weight", "norm.bias"], ["y"])]
    weights = {"norm.weight": np.ones(8, np.float32), "norm.bias": np.zeros(8, np.float32)}
    assert trained(model(nodes, {"x": ("n", 8, 6)}, ["y"], weights)) == set(weights)


def test_weights_in_constant_nodes_behind_a_reshaped_instance_normalisation_are_trained():
    nodes = [constant("ones", np.full(2, 0.5)), constant("zeros", np.zeros(2)), constant("s", drawn(8, 1))]
    nodes += [constant("b", drawn(8, 1)), *group_norm("ones", "zeros", "s", "b")]
    assert trained(model(nodes, {"x": ("n", 8, 6)}, ["y"], SHAPES)) == {"ones", "zeros", "s", "b"}


def test_notes_of_the_exporter_decide_what_a_parameter_is():
    nodes = [
        node("Mul", ["x", "mean"], ["c"]),
        node("Exp", ["scale"], ["e"]),
        node("Div", ["c", "e"], ["d"]),
        node("Div", ["d", "gamma"], ["y"]),
    ]
    weights = {"mean": drawn(8), "scale": np.float32(0.3), "gamma": 1 + drawn(8)}
    source = model(nodes, {"x": ("n", 8)}, ["y"], weights)
    assert trained(source) == {"mean"}
    source.producer_name = "pytorch"
    assert trained(source) == {"mean", "scale"}
    assert trained(noted(source, {"mean": "BUFFER", "scale": "PARAMETER", "gamma": "PARAMETER"})) == {"scale", "gamma"}
    reasons = {t.reason for t in prograd.from_onnx(source).tensors_of_file}
    assert reasons == {"the exporter notes that it is a parameter"}


def test_a_learned_scalar_is_trained_by_its_gradient():
    weights = {"scale": np.float32(0.3)}
    nodes = [node("Exp", ["scale"], ["e"]), node("Mul", ["x", "e"], ["y"])]
    program = prograd.from_onnx(noted(model(nodes, {"x": (32, 64)}, ["y"], weights), {"scale": "PARAMETER"}))
    program.minimize(prograd.ops.mean(prograd.ops.square(program["y"])), prograd.sgd(0.5))
    x = drawn(32, 64)
    mean = float(x.ravel() @ x.ravel()) / x.size
    for engine in ("reference", "native"):
        run = prograd.Run(program.compile(), engine=engine)
        run.step({"x": x})
        wanted = 0.3 - mean * math.exp(0.6)
        assert float(run.state["scale"]) == pytest.approx(wanted, rel=1e-5)


def test_a_weight_that_is_computed_of_stored_tensors_trains_all_of_them():
    nodes = [
        node("ReduceL2", ["v"], ["length"], axes=[1], keepdims=1),
        node("Div", ["g", "length"], ["share"]),
        node("Mul", ["v", "share"], ["w"]),
        node("Gemm", ["x", "w"], ["y"], transB=1),
    ]
    weights = {"v": drawn(16, 8), "g": 1 + drawn(16, 1)}
    assert trained(model(nodes, {"x": ("n", 8)}, ["y"], weights, opset=17)) == {"v", "g"}


def test_a_token_that_is_joined_and_positions_that_are_added_are_trained_and_the_mean_of_inputs_is_not():
    nodes = [
        node("Sub", ["x", "mean"], ["c"]),
        node("Expand", ["token", "size"], ["t"]),
        node("Concat", ["t", "c"], ["j"], axis=1),
        node("Add", ["j", "position"], ["y"]),
    ]
    weights = {"mean": drawn(8), "token": drawn(1, 1, 8), "position": drawn(1, 6, 8), "size": np.array([4, 1, 8])}
    assert trained(model(nodes, {"x": (4, 5, 8)}, ["y"], weights)) == {"token", "position"}


def test_a_mask_that_is_added_is_no_parameter():
    mask = np.where(np.tri(8, dtype=bool), 0, -1e9).astype(np.float32)
    assert trained(model([node("Add", ["x", "m"], ["y"])], {"x": ("n", 8, 8)}, ["y"], {"m": mask})) == set()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_weights_inside_of_branches_and_bodies_are_trained_once(engine: str):
    helper, w = onnx.helper, drawn(64, 64)
    tensor = onnx.numpy_helper.from_array(w, "inner.w")
    given = [helper.make_tensor_value_info("i", 7, ()), helper.make_tensor_value_info("go", 9, ())]
    value = helper.make_tensor_value_info("v", 1, (32, 64))
    results = [helper.make_tensor_value_info("go", 9, ()), helper.make_tensor_value_info("v1", 1, None)]
    body = helper.make_graph([node("MatMul", ["v", "inner.w"], ["v1"])], "body", [*given, value], results, [tensor])
    program = prograd.from_onnx(
        model([node("Loop", ["trips", "", "x"], ["y"], body=body)], {"x": (32, 64)}, ["y"], {"trips": np.int64(3)})
    )
    assert [t.name for t in program.tensors_of_file if t.trained] == ["inner.w"]
    program.minimize(prograd.ops.sum(program["y"]), prograd.sgd(1.0))
    run: Any = prograd.Run(program.compile(), engine=engine)  # type: ignore[arg-type]
    x, ones = drawn(32, 64), np.ones((32, 64), np.float32)
    run.step({"x": x})
    powers = [np.linalg.matrix_power(w, k) for k in range(3)]
    wanted = sum((powers[k].T @ x.T @ ones @ powers[2 - k].T for k in range(3)), np.zeros((64, 64)))
    np.testing.assert_allclose(w - run.state["inner.w"], wanted, rtol=1e-3, atol=1e-3)


def loop(body: Any, operands: list[str], results: list[str]) -> Any:
    return node("Loop", ["trips", "", *operands], results, body=body)


def recurrent(kind: str) -> Any:
    """Return a loop whose weights are carried values, as tf2onnx writes those of Keras."""
    value = onnx.helper.make_tensor_value_info
    nodes = [
        node("MatMul", ["s", "w"], ["m"]),
        node("Add", ["m", "b"], ["s2"]),
        node("Identity", ["c"], ["c2"]),
        node("Identity", ["w"], ["w1"]),
        node("Identity", ["w1"], ["w2"]),
    ]
    reads = [value("s", 1, [2, 64]), value("w", 1, [64, 64]), value("b", 1, [64])]
    makes = [value("s2", 1, [2, 64]), value("w2", 1, [64, 64]), value("b", 1, [64])]
    if kind == "Loop":
        body = onnx.helper.make_graph(nodes, "b", [value("i", 7, []), value("c", 9, []), *reads],
                                      [value("c2", 9, []), *makes])  # fmt: skip
        return loop(body, ["x", "weight", "bias"], ["y", "w_end", ""])
    nodes[2:3] = []
    body = onnx.helper.make_graph(nodes, "b", [*reads, value("t", 7, [1])], makes)
    return node("Scan", ["x", "weight", "bias", "steps"], ["y", "w_end", ""], body=body, num_scan_inputs=1)


@pytest.mark.parametrize("kind", ["Loop", "Scan"])
@pytest.mark.parametrize("trips", [2, 12])
def test_weights_that_a_loop_carries_unchanged_are_trained(kind: str, trips: int):
    weights = {"weight": drawn(64, 64) / 16, "bias": drawn(64), "trips": np.array(trips)}
    weights["steps"] = np.zeros((trips, 1), np.int64)
    source = model([recurrent(kind)], {"x": (2, 64)}, ["y", "w_end"], weights)
    program = prograd.from_onnx(source)
    assert {t.name for t in program.tensors_of_file if t.trained} == {"weight", "bias"}
    assert program.notes_of_import == []
    program.minimize(prograd.ops.mean(program["y"]), prograd.sgd(1.0))
    x = drawn(2, 64)
    wanted = x
    for _ in range(trips):
        wanted = wanted @ weights["weight"] + weights["bias"]
    run = prograd.Run(program.compile())
    found = run.step({"x": x}, entry="predict")
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["w_end"], weights["weight"])
    run.step({"x": x})
    assert not np.array_equal(run.state["weight"], weights["weight"])


def test_floats_that_are_not_trained_are_named_beside_those_that_are():
    nodes = [constant("scale", drawn(64)), node("Mul", ["x", "scale"], ["m"]), node("MatMul", ["m", "w"], ["y"])]
    program = prograd.from_onnx(model(nodes, {"x": (2, 64)}, ["y"], {"w": drawn(64, 8)}))
    assert program.notes_of_import == [
        "64 of 576 floats of the file are constants, which training leaves as they are: 'scale'"
    ]


def test_constant_nodes_are_weights_of_a_file_that_stores_none_otherwise():
    scale, shift = constant("scale", drawn(64)), constant("shift", drawn(64))
    nodes = [
        scale,
        shift,
        node("Relu", ["x"], ["r"]),
        node("Mul", ["r", "scale"], ["a"]),
        node("Add", ["a", "shift"], ["y"]),
    ]
    assert trained(model(nodes, {"x": (32, 64)}, ["y"], {})) == {"scale", "shift"}
    nodes.append(node("MatMul", ["y", "w"], ["z"]))
    assert trained(model(nodes, {"x": (32, 64)}, ["z"], {"w": drawn(64, 64)})) == {"w"}
