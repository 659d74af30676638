"""Dynamically quantised operators in integers: beside ONNX Runtime where it is installed, and beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from importing.quantised.exact_weights import LARGEST
from importing.test_from_onnx import drawn, model, predicted
from oracles import integers
from subjects.commands import told

import prograd

node = onnx.helper.make_node
ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])
STEPS, ROWS, WIDE, HIDDEN = 7, 3, 12, 16

Array = np.ndarray[Any, np.dtype[Any]]


def with_microsoft(source: Any) -> Any:
    source.opset_import.add(domain="com.microsoft", version=1)
    return source


def coded(x: Array) -> tuple[Array, np.float32, np.ndarray]:
    """Codes by the range of all numbers, their scale and zero point."""
    least, most = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = (most - least) / np.float32(255) if most > least else np.float32(1)
    zero = np.clip(np.rint(-least / scale), 0, 255)
    return integers.codes(x / scale, zero), scale, zero


def product(x: Array, w: Array, scales: Array, zero: Array) -> Array:
    codes, scale, x_zero = coded(x)
    sums = integers.product(codes, w.astype("i2") + 128, int(x_zero), zero.astype("i2") + 128)
    return sums.astype("f4") * (scale * scales)


# Products.


def of_product(operator: str, per_column: bool, signed: bool, biased: bool) -> tuple[Any, dict[str, Any]]:
    numbers = np.random.default_rng(5)
    w = (
        numbers.integers(-LARGEST, LARGEST + 1, (64, 24)).astype("i1")
        if signed
        else numbers.integers(0, 256, (64, 24), "u1")
    )
    scales = numbers.uniform(0.005, 0.02, 24 if per_column else ()).astype("f4")
    zero = np.zeros(scales.shape, "i1") if signed else np.full(scales.shape, 130, "u1")
    values = {"w": w, "ws": scales, "wz": zero, "b": numbers.normal(size=24).astype("f4")}
    bias = ["b"] if biased else []
    if operator == "DynamicQuantizeMatMul":
        nodes = [node(operator, ["x", "w", "ws", "wz", *bias], ["y"], domain="com.microsoft")]
    else:
        names = ["xq", "w", "xs", "ws", "xz", "wz", *bias]
        nodes = [node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"])]
        nodes.append(node(operator, names, ["y"], domain="com.microsoft"))
    return with_microsoft(model(nodes, {"x": (32, 64)}, ["y"], values, 19)), values


@ENGINES
@pytest.mark.parametrize(("per_column", "signed", "biased"), [(True, True, True), (False, False, False)])
@pytest.mark.parametrize("operator", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_a_product_of_a_dynamic_range_is_of_integers(
    operator: str, per_column: bool, signed: bool, biased: bool, engine: Any
):
    source, values = of_product(operator, per_column, signed, biased)
    program = prograd.from_onnx(source, integers=True)
    ops = [op.type for op in program.block.desc.ops]
    assert ops.count("integer_matmul") == 1
    assert "matmul" not in ops
    assert program.notes_of_import == ["products and convolutions in integers: 1; their weights are not trained"]
    x = 2 * drawn(32, 64)
    shift = 0 if signed else 128
    wanted = product(x, values["w"].astype("i2") - shift, values["ws"], values["wz"].astype("i2") - shift)
    wanted = wanted + values["b"] if biased else wanted
    np.testing.assert_array_equal(predicted(program, engine, {}, x=x)["y"], wanted)
    no_range = predicted(program, engine, {}, x=np.zeros((32, 64), "f4"))["y"]
    np.testing.assert_array_equal(no_range, np.broadcast_to(values["b"] if biased else np.float32(0), (32, 24)))


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("operator", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_a_product_of_a_dynamic_range_is_that_of_onnxruntime(operator: str, signed: bool, per_column: bool):
    source, _ = of_product(operator, per_column, signed, True)
    x = 2 * drawn(32, 64)
    found = predicted(prograd.from_onnx(source, integers=True), "native", {}, x=x)["y"]
    np.testing.assert_allclose(found, computed(source, x=x)[0], rtol=0, atol=1e-6)  # it adds the bias by one rounding


def computed(source: Any, **given: Any) -> list[Array]:
    """Return the results of ONNX Runtime on one thread."""
    runtime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return runtime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, given
    )


# LSTM.

LAYERS: dict[str, dict[str, Any]] = {
    "forward": {},
    "unsigned": {"signed": False},
    "per column": {"per_column": True, "direction": "bidirectional"},
    "lengths": {"lengths": [7, 2, 5], "direction": "bidirectional"},
    "reverse": {"direction": "reverse", "states": True},
    "peepholes": {"peepholes": True, "biased": False},
}


def of_layer(
    signed: bool = True,
    per_column: bool = False,
    lengths: list[int] | None = None,
    states: bool = False,
    peepholes: bool = False,
    biased: bool = True,
    direction: str = "forward",
) -> tuple[Any, dict[str, Any]]:
    """Return a model of a DynamicQuantizeLSTM with three results, and its constants."""
    count, numbers = 2 if direction == "bidirectional" else 1, np.random.default_rng(9)
    shape = (count, 4 * HIDDEN) if per_column else (count,)
    values: dict[str, Any] = {}
    for name, wide in (("w", WIDE), ("r", HIDDEN)):
        matrix = numbers.integers(-LARGEST, LARGEST + 1, (count, wide, 4 * HIDDEN))
        values[name] = matrix.astype("i1") if signed else (matrix + 128).astype("u1")
        values[f"{name}s"] = numbers.uniform(0.002, 0.005, shape).astype("f4")
        values[f"{name}z"] = np.zeros(shape, "i1") if signed else np.full(shape, 128, "u1")
    values["b"] = numbers.normal(0, 0.5, (count, 8 * HIDDEN)).astype("f4")
    values["h"], values["c"] = (numbers.normal(0, 0.5, (count, ROWS, HIDDEN)).astype("f4") for _ in range(2))
    values["p"] = numbers.normal(0, 0.3, (count, 3 * HIDDEN)).astype("f4")
    values["n"] = np.array(lengths or [STEPS] * ROWS, "i4")
    given = {"b": biased, "n": lengths is not None, "h": states, "c": states, "p": peepholes}
    names = ["x", "w", "r", *(name if is_given else "" for name, is_given in given.items()), "ws", "wz", "rs", "rz"]
    layer = node(
        "DynamicQuantizeLSTM", names, ["y", "last", "cell"], domain="com.microsoft", hidden_size=HIDDEN,
        direction=direction,
    )  # fmt: skip
    kept = {name: value for name, value in values.items() if given.get(name, True)}
    source = with_microsoft(model([layer], {"x": (STEPS, ROWS, WIDE)}, ["y", "last", "cell"], kept, 19))
    return source, values


@ENGINES
def test_a_recurrent_layer_multiplies_integers(engine: Any):
    source, values = of_layer(per_column=True)
    program = prograd.from_onnx(source, integers=True)
    assert program.notes_of_import[0] == "products and convolutions in integers: 1; their weights are not trained"
    x = drawn(STEPS, ROWS, WIDE)
    inputs = product(x, values["w"][0], values["ws"][0], values["wz"][0])
    bias = values["b"][0].reshape(2, -1).sum(0)
    h = c = np.zeros((ROWS, HIDDEN), "f4")
    found = predicted(program, engine, {}, x=x)
    for t in range(STEPS):
        z = inputs[t] + product(h, values["r"][0], values["rs"][0], values["rz"][0]) + bias
        i, o, f, g = np.split(z, 4, axis=1)
        c = (c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))).astype("f4")
        h = (np.tanh(c) / (1 + np.exp(-o))).astype("f4")
        np.testing.assert_allclose(found["y"][t, 0], h, atol=2e-6)
    np.testing.assert_array_equal(found["last"][0], found["y"][-1, 0])
    np.testing.assert_allclose(found["cell"][0], c, atol=2e-6)


@ENGINES
@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_computes_what_onnxruntime_computes(name: str, engine: Any):
    source, _ = of_layer(**LAYERS[name])
    x = drawn(STEPS, ROWS, WIDE)
    found = predicted(prograd.from_onnx(source, integers=True), engine, {}, x=x)
    for result, wanted in zip(("y", "last", "cell"), computed(source, x=x), strict=True):
        np.testing.assert_allclose(found[result], wanted, atol=2e-6)


def test_a_layer_with_a_scale_for_each_column_is_refused_in_floats():
    source, _ = of_layer(per_column=True)
    assert told(prograd.CompileError, lambda: prograd.from_onnx(source)) == (
        "DynamicQuantizeLSTM '' has a scale for each column of its matrices, which has no form in floats; give "
        "--integers, or quantise with per_channel=False"
    )


def replaced(source: Any, name: str, value: Any) -> Any:
    """Return a copy of a model with another constant under a name, or with a node that computes it."""
    made = onnx.ModelProto()
    made.CopyFrom(source)
    [old] = [tensor for tensor in made.graph.initializer if tensor.name == name]
    made.graph.initializer.remove(old)
    if value is not None:
        made.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
        return made
    made.graph.input.append(onnx.helper.make_tensor_value_info("floats", 1, list(old.dims)))
    made.graph.node.insert(0, node("Cast", ["floats"], [name], to=old.data_type))
    return made


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("w", None, "DynamicQuantizeLSTM whose matrices or zero points are computed, which is not supported"),
        (
            "rs",
            np.ones(7, "f4"),
            "DynamicQuantizeLSTM with scales or zero points of the shape (7,); it takes (1,), or (1, 64) for one of "
            "each column",
        ),
    ],
)
def test_a_layer_that_does_not_fit_is_one_sentence(name: str, value: Any, said: str):
    with pytest.raises(prograd.CompileError) as caught:
        prograd.from_onnx(replaced(of_layer()[0], name, value), integers=True)
    assert str(caught.value) == (
        "from_onnx: 1 operator cannot be imported: com.microsoft.DynamicQuantizeLSTM, used 1 time, first in the "
        f"module: {said}"
    )
