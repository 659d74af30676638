"""Quantised ONNX files: predictions beside ONNX's own evaluator, trained weights, and gradients through roundings."""

from typing import Any

import numpy as np
import onnx
import pytest
from importing.test_from_onnx import drawn, model, predicted
from onnx.reference import ReferenceEvaluator

import prograd
from prograd import ops

node = onnx.helper.make_node
W = drawn(64, 16)
SCALE, ZERO = np.float32(0.02), np.uint8(128)
W_SCALE = np.float32(np.abs(W).max() / 127)
W_INT = np.clip(np.round(W / W_SCALE), -128, 127).astype(np.int8)
WEIGHTS = {"xs": SCALE, "xz": ZERO, "w_quantized": W_INT, "ws": W_SCALE, "wz": np.int8(0), "ys": np.float32(0.05)}
WEIGHTS |= {"yz": np.uint8(120)}


def in_pairs() -> Any:
    """Return a product between QuantizeLinear and DequantizeLinear."""
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xf"]),
        node("DequantizeLinear", ["w_quantized", "ws", "wz"], ["w"]),
        node("MatMul", ["xf", "w"], ["a"]),
        node("QuantizeLinear", ["a", "ys", "yz"], ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    return model(nodes, {"x": (32, 64)}, ["y"], WEIGHTS, 19)


def of_integers() -> Any:
    """Return the same with a QLinearMatMul."""
    names = ["xq", "xs", "xz", "w_quantized", "ws", "wz", "ys", "yz"]
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("QLinearMatMul", names, ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    return model(nodes, {"x": (32, 64)}, ["y"], WEIGHTS, 19)


def dynamic() -> Any:
    """Return a product whose operand is quantised by its own limits."""
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["xq", "xs2", "xz2"]),
        node("MatMulInteger", ["xq", "w_quantized", "xz2", "wz"], ["p"]),
        node("Cast", ["p"], ["f"], to=1),
        node("Mul", ["xs2", "ws"], ["both"]),
        node("Mul", ["f", "both"], ["y"]),
    ]
    return model(nodes, {"x": (32, 64)}, ["y"], {n: WEIGHTS[n] for n in ("w_quantized", "ws", "wz")}, 19)


def convolving() -> Any:
    """Return a quantised convolution with a scale for each filter, and a bias."""
    f = drawn(8, 3, 3, 3)
    scales = np.abs(f).reshape(8, -1).max(1).astype(np.float32) / 127
    weights = {
        "xs": SCALE, "xz": ZERO, "w_quantized": np.round(f / scales[:, None, None, None]).astype(np.int8), "ws": scales,
        "wz": np.zeros(8, np.int8), "ys": np.float32(0.01), "yz": np.uint8(128),
        "b": np.round(drawn(8) / (SCALE * scales)).astype(np.int32),
    }  # fmt: skip
    names = ["xq", "xs", "xz", "w_quantized", "ws", "wz", "ys", "yz", "b"]
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("QLinearConv", names, ["yq"], pads=[1, 1, 1, 1]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    return model(nodes, {"x": (4, 3, 16, 16)}, ["y"], weights, 19)


FILES = {
    "pairs": (in_pairs, 0.05),
    "integers": (of_integers, 0.05),
    "dynamic": (dynamic, 0.0),
    "conv": (convolving, 0.01),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("fake", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_quantised_file_predicts_up_to_a_rounding_and_trains_its_weights(name: str, fake: bool, engine: Any):
    source, step = FILES[name][0](), FILES[name][1]
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    x = 2 * drawn(*shape)
    wanted = ReferenceEvaluator(source).run(None, {"x": x})[0]
    program = prograd.from_onnx(source, fake_quantize=fake)
    found = predicted(program, engine, {}, x=x)["y"]
    apart = np.abs(found - wanted)
    assert apart.max() <= step * 1.01 + 1e-4
    assert (apart > 1e-4).mean() < 0.01  # few roundings turn
    names = {"pairs": {"w"}, "conv": {"w", "b_dequantized"}}.get(name, {"w"})
    assert {t.name for t in program.tensors_of_file if t.trained} == names
    how = "they are rounded as the file does" if fake else "the rounding of QuantizeLinear has no gradient"
    assert any(how in note for note in program.notes_of_import)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", ["pairs", "integers"])
def test_gradients_pass_the_roundings_inside_the_limits(name: str, engine: Any):
    program = prograd.from_onnx(FILES[name][0](), fake_quantize=True)
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    x = 4 * drawn(32, 64)
    before = np.array(run.state["w"])
    run.step({"x": x})
    rounded = (np.clip(np.round(x / SCALE) + 128, 0, 255) - 128) * SCALE
    whole = np.float32(rounded) @ (W_INT * W_SCALE) / 0.05 + 120
    inside = ((whole >= 0) & (whole <= 255)).astype(np.float32)
    np.testing.assert_allclose(before - run.state["w"], rounded.T @ inside, rtol=1e-3, atol=1e-3)


def test_without_fake_quantize_a_rounding_stops_the_gradient():
    program = prograd.from_onnx(in_pairs())
    with pytest.raises(prograd.CompileError, match="the loss does not depend on any trainable parameter"):
        program.minimize(ops.sum(ops.square(program["y"])), prograd.sgd(1.0))


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_stored_weights_of_every_opset_are_trained(opset: int):
    source = in_pairs()
    source.opset_import[0].version = opset
    assert [t.name for t in prograd.from_onnx(source).tensors_of_file if t.trained] == ["w"]


def test_a_weight_is_rounded_to_the_numbers_of_its_file_after_a_step():
    program = prograd.from_onnx(in_pairs(), fake_quantize=True)
    run = prograd.Run(program.compile())
    run.state["w"] = W_INT * W_SCALE + 0.3 * W_SCALE  # rounds back
    x = drawn(32, 64)
    found = run.step({"x": x}, entry="predict")["y"]
    np.testing.assert_array_equal(found, predicted(program, "reference", {}, x=x)["y"])


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_recurrent_layer_with_quantised_matrices_is_one_of_floats(engine: Any):
    scales = np.float32([0.01, 0.02])
    w, r = (np.random.default_rng(k).integers(-40, 40, (2, 16, 64)).astype(np.int8) for k in (0, 1))
    zero, bias, x = np.zeros(2, np.int8), drawn(2, 128), drawn(7, 8, 16)
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "z", "rs", "z"]
    weights = {"w": w, "r": r, "b": bias, "ws": scales, "rs": scales, "z": zero}
    layer = node("DynamicQuantizeLSTM", names, ["y"], domain="com.microsoft", hidden_size=16, direction="bidirectional")
    source = model([layer], {"x": (7, 8, 16)}, ["y"], weights, 19)
    source.opset_import.add(domain="com.microsoft", version=1)
    floats = {"w": np.float32(w.transpose(0, 2, 1)) * scales[:, None, None], "b": bias}
    floats["r"] = np.float32(r.transpose(0, 2, 1)) * scales[:, None, None]
    plain = node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=16, direction="bidirectional")
    wanted = predicted(prograd.from_onnx(model([plain], {"x": (7, 8, 16)}, ["y"], floats, 19)), engine, {}, x=x)["y"]
    program = prograd.from_onnx(source)
    np.testing.assert_allclose(predicted(program, engine, {}, x=x)["y"], wanted, rtol=1e-5, atol=1e-6)
    assert len([t for t in program.tensors_of_file if t.trained]) == 3
