"""ONNX files of opsets before 7: their meaning by hand-written NumPy, on both engines."""

from typing import Any

import numpy as np
import onnx
import pytest

import prograd

helper = onnx.helper
RNG = np.random.default_rng(11)


def drawn(*shape: int) -> Any:
    return RNG.normal(0, 1, shape).astype(np.float32)


def found(nodes: list[Any], x: Any, weights: dict[str, Any], opset: int, engine: Any) -> Any:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, x.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return prograd.Run(prograd.from_onnx(model).compile(), engine=engine).step({"x": x}, entry="predict")["y"]


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("operator", ["Add", "Mul", "Sub", "Div", "Pow"])
def test_an_axis_aligns_the_second_operand(engine: Any, operator: str):
    x, w = np.abs(drawn(32, 64, 5)), np.abs(drawn(64))
    node = helper.make_node(operator, ["x", "w"], ["y"], broadcast=1, axis=1)
    function = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Div": np.divide, "Pow": np.power}[operator]
    np.testing.assert_allclose(found([node], x, {"w": w}, 6, engine), function(x, w[:, None]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_slope_of_prelu_is_that_of_a_channel_even_if_the_last_axis_is_as_long(engine: Any):
    x, w = drawn(32, 8, 8, 8), drawn(8)
    node = helper.make_node("PRelu", ["x", "w"], ["y"])
    wanted = np.where(x < 0, x * w[:, None, None], x)
    np.testing.assert_allclose(found([node], x, {"w": w}, 6, engine), wanted, rtol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    ("opset", "more"), [(6, {"is_test": 1}), (1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]})]
)
def test_a_batch_normalisation_predicts_by_its_statistics(engine: Any, opset: int, more: dict[str, Any]):
    x = drawn(32, 16, 4, 4)
    w = {"scale": drawn(16), "bias": drawn(16), "mean": drawn(16), "var": 1 + np.abs(drawn(16))}
    node = helper.make_node("BatchNormalization", ["x", *w], ["y"], **more)
    scale, bias, mean, var = (each[:, None, None] for each in w.values())
    wanted = (x - mean) / np.sqrt(var + 1e-5) * scale + bias
    np.testing.assert_allclose(found([node], x, w, opset, engine), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_shape_of_a_reshape_and_the_widths_of_a_pad_are_attributes_in_opset_1(engine: Any):
    x = drawn(32, 64)
    nodes = [
        helper.make_node("Reshape", ["x"], ["r"], shape=[0, 4, -1]),
        helper.make_node("Relu", ["r"], ["a"], consumed_inputs=[0]),
        helper.make_node("Pad", ["a"], ["y"], paddings=[0, 0, 1, 0, 0, 2]),
    ]
    wanted = np.pad(np.maximum(x.reshape(32, 4, 16), 0), [(0, 0), (0, 0), (1, 2)])
    np.testing.assert_array_equal(found(nodes, x, {}, 1, engine), wanted)


def test_an_operator_whose_old_meaning_is_unknown_is_told():
    node = helper.make_node("Tile", ["x", "n", "axis"], ["y"])
    with pytest.raises(prograd.CompileError) as told:
        found([node], drawn(4, 4), {"n": np.float32(2), "axis": np.float32(1)}, 5, "reference")
    assert str(told.value) == (
        "from_onnx: 1 operator cannot be imported: Tile, used 1 time, first in the module: its meaning in opset 5 is "
        "not known; convert the file to opset 6 or later with onnx.version_converter"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_gradient_may_be_a_node(engine: Any):
    x = drawn(32, 64)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"]),
        helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="s"),
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", 1, x.shape)], [helper.make_tensor_value_info("y", 1, None)]
    )
    opsets = [helper.make_opsetid("", 12), helper.make_opsetid("ai.onnx.preview.training", 1)]
    program = prograd.from_onnx(helper.make_model(graph, opset_imports=opsets))
    made = prograd.Run(program.compile(), engine=engine).step({"x": x}, entry="predict")["y"]
    np.testing.assert_allclose(made, 2 * x, rtol=1e-6)
