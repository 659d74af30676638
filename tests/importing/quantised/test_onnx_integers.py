"""Quantised ONNX files whose products are computed in integers, beside the integers of NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from importing.test_from_onnx import drawn, model, predicted
from importing.test_onnx_quantised import FILES, dynamic
from oracles import integers
from subjects.commands import told

import prograd
from compiler.__main__ import main

ROOT = Path(__file__).parents[3]

node = onnx.helper.make_node
ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])
SCALES = {"xs": np.float32(0.02), "ys": np.float32(0.11)}


def codes_of(x: np.ndarray, scale: Any, zero: int) -> np.ndarray:
    return integers.codes(x / np.float32(scale), np.array(zero))


def numbers(codes: np.ndarray, scale: Any, zero: int) -> np.ndarray:
    return (codes.astype("i4") - zero).astype("f4") * np.float32(scale)


def quantised(
    operator: str, w: np.ndarray, signed: bool, *, relu: bool = False, q: bool = True, **attributes: Any
) -> Any:
    """Return a node between pairs, with int8 or uint8 activations and a weight of int8 per channel, and a bias."""
    channel = 0 if operator == "Conv" or attributes.get("transB") else 1
    others = tuple(i for i in range(w.ndim) if i != channel)
    ws = (np.abs(w).max(others) / 127).astype("f4")
    shape = [-1 if i == channel else 1 for i in range(w.ndim)]
    kind = np.int8 if signed else np.uint8
    values = SCALES | {
        "xz": kind(-3 if signed else 125), "yz": kind(-28 if signed else 100), "ws": ws,
        "w_quantized": np.round(w / ws.reshape(shape)).astype("i1"), "wz": np.zeros(len(ws), "i1"),
        "b_quantized": np.arange(len(ws), dtype="i4") * 300, "bs": SCALES["xs"] * ws, "bz": np.zeros(len(ws), "i4"),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xf"]),
        node("DequantizeLinear", ["w_quantized", "ws", "wz"], ["w"], axis=channel),
        node("DequantizeLinear", ["b_quantized", "bs", "bz"], ["b"], axis=0),
        node(operator, ["xf", "w", *(["b"] if operator != "MatMul" else [])], ["a"], **attributes),
        *([node("Relu", ["a"], ["r"])] if relu else []),
    ]
    last = "r" if relu else "a"
    if q:
        nodes.append(node("QuantizeLinear", [last, "ys", "yz"], ["yq"]))
        nodes.append(node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]))
    else:
        nodes.append(node("Identity", [last], ["y"]))
    return nodes, values, ws


def finished(sums: np.ndarray, ws: np.ndarray, signed: bool, relu: bool, q: bool) -> np.ndarray:
    if not q:
        y = sums.astype("f4") * (SCALES["xs"] * ws)
        return np.maximum(y, 0) if relu else y
    zero = 100
    y = integers.requantized(sums, SCALES["xs"], ws, SCALES["ys"], np.array(zero))
    return numbers(np.maximum(y, zero) if relu else y, SCALES["ys"], zero)


def imported(nodes: list[Any], shape: tuple[int, ...], values: dict[str, Any]) -> tuple[Any, list[str]]:
    program = prograd.from_onnx(model(nodes, {"x": shape}, ["y"], values, 19), integers=True)
    return program, [op.type for op in program.block.desc.ops]


@pytest.mark.sampled(3)
@ENGINES
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("relu", "q"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Gemm transposed"])
def test_a_product_is_of_integers(operator: str, relu: bool, q: bool, signed: bool, engine: Any):
    w, x = drawn(64, 24), 2 * drawn(32, 64)
    turned = {"transB": 1} if operator.endswith("transposed") else {}
    nodes, values, ws = quantised(operator.split()[0], w.T.copy() if turned else w, signed, relu=relu, q=q, **turned)
    program, ops = imported(nodes, (32, 64), values)
    assert "integer_matmul" in ops
    assert "matmul" not in ops
    codes = codes_of(x, SCALES["xs"], 125)
    weight = values["w_quantized"].T if turned else values["w_quantized"]
    sums = integers.product(codes, (weight.astype("i2") + 128).astype("u1"), 125, np.array(128))
    sums = sums + (0 if operator == "MatMul" else values["b_quantized"])
    found = predicted(program, engine, {}, x=x)["y"]
    np.testing.assert_array_equal(found, finished(sums, ws, signed, relu, q))


CONVOLUTIONS = {
    "dense": ((2, 3, 12, 11), (8, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "depthwise": ((2, 16, 9, 9), (16, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 16}),
    "grouped": ((2, 6, 9, 9), (4, 3, 3, 3), {"group": 2, "dilations": [2, 2]}),
    "line": ((2, 5, 30), (7, 5, 3), {"pads": [1, 1], "strides": [2]}),
    "pixel": ((2, 8, 5, 5), (12, 8, 1, 1), {}),
}


@pytest.mark.sampled(3)
@ENGINES
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_is_of_integers(name: str, signed: bool, engine: Any):
    shape, filters, attributes = CONVOLUTIONS[name]
    x = 2 * drawn(*shape)
    nodes, values, ws = quantised("Conv", drawn(*filters), signed, relu=True, **attributes)
    program, ops = imported(nodes, shape, values)
    assert "integer_conv2d" in ops
    axes = len(shape) - 2
    codes = np.moveaxis(codes_of(x, SCALES["xs"], 125), 1, -1)
    weight = np.moveaxis((values["w_quantized"].astype("i2") + 128).astype("u1"), (0, 1), (-1, -2))
    stride, dilation = (attributes.get(key, [1] * axes) for key in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * 2 * axes)
    if axes == 1:
        codes, weight = codes[:, None], weight[None]
        stride, dilation, pads = [1, *stride], [1, *dilation], [0, pads[0], 0, pads[1]]
    sums = integers.convolution(
        codes, weight, 125, np.array(128), stride, pads, dilation, attributes.get("group", 1)
    ) + values["b_quantized"]  # fmt: skip
    wanted = finished(sums, ws, signed, True, True)
    wanted = np.moveaxis(wanted[:, 0] if axes == 1 else wanted, -1, 1)
    np.testing.assert_array_equal(predicted(program, engine, {}, x=x)["y"], wanted)


@pytest.mark.sampled(3)
@ENGINES
@pytest.mark.parametrize("name", FILES)
def test_files_in_integers_predict_what_they_do_in_floats(name: str, engine: Any):
    source, step = FILES[name][0](), FILES[name][1]
    shape = [d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim]
    x = 2 * drawn(*shape)
    program = prograd.from_onnx(source, integers=True)
    assert {"integer_matmul", "integer_conv2d"}.intersection(op.type for op in program.block.desc.ops)
    apart = np.abs(
        predicted(program, engine, {}, x=x)["y"] - predicted(prograd.from_onnx(source), engine, {}, x=x)["y"]
    )
    assert apart.max() <= step * 1.01 + 1e-4
    assert (apart > 1e-4).mean() < 0.01


def test_operators_between_products_take_codes_as_numbers():
    """Pooling, addition and reshaping of int8 tensors are of the numbers that they stand for."""
    nodes, values, _ = quantised("Conv", drawn(4, 3, 3, 3), True)
    nodes = [
        *nodes[:-1],
        node("MaxPool", ["yq"], ["p"], kernel_shape=[2, 2]),
        node("DequantizeLinear", ["p", "ys", "yz"], ["pf"]),
        node("Add", ["pf", "pf"], ["s"]),
        node("QuantizeLinear", ["s", "ys", "yz"], ["sq"]),
        node("Flatten", ["sq"], ["f"]),
        node("DequantizeLinear", ["f", "ys", "yz"], ["y"]),
    ]
    source, x = model(nodes, {"x": (2, 3, 8, 8)}, ["y"], values, 19), drawn(2, 3, 8, 8)
    wanted = predicted(prograd.from_onnx(source), "reference", {}, x=x)["y"]
    found = predicted(prograd.from_onnx(source, integers=True), "reference", {}, x=x)["y"]
    assert (np.abs(found - wanted) > 1e-4).mean() < 0.02


def between(operator: str, shapes: list[tuple[int, ...]], signed: bool) -> Any:
    """Return a model of an operator without weights between pairs, with the scale 0.02 and the zero point 125."""
    kind = np.int8 if signed else np.uint8
    values = SCALES | {"xz": kind(-3 if signed else 125), "yz": kind(-28 if signed else 100)}
    nodes: list[Any] = []
    for i in range(len(shapes)):
        nodes.append(node("QuantizeLinear", [f"x{i}", "xs", "xz"], [f"q{i}"]))
        nodes.append(node("DequantizeLinear", [f"q{i}", "xs", "xz"], [f"d{i}"]))
    nodes.append(node(operator, [f"d{i}" for i in range(len(shapes))], ["r"]))
    nodes.append(node("QuantizeLinear", ["r", "ys", "yz"], ["yq"]))
    nodes.append(node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]))
    return model(nodes, {f"x{i}": shape for i, shape in enumerate(shapes)}, ["y"], values, 19)


@ENGINES
@pytest.mark.parametrize("signed", [False, True])
def test_a_product_of_codes_is_of_integers(signed: bool, engine: Any):
    shapes = [(2, 5, 6, 7), (2, 5, 1, 1)]
    program = prograd.from_onnx(between("Mul", shapes, signed), integers=True)
    assert "mul" in [op.type for op in program.block.desc.ops]
    given = [3 * drawn(*shape) for shape in shapes]
    x, w = (codes_of(each, SCALES["xs"], 125).astype("i4") - 125 for each in given)
    wanted = integers.requantized(x * w, SCALES["xs"], SCALES["xs"], SCALES["ys"], np.array(100))
    found = predicted(program, engine, {}, x0=given[0], x1=given[1])["y"]
    np.testing.assert_array_equal(found, numbers(wanted, SCALES["ys"], 100))


@ENGINES
def test_a_quantised_product_of_activations_is_of_integers(engine: Any):
    values = SCALES | {"xz": np.uint8(125), "yz": np.uint8(100)}
    nodes = [
        *(node("QuantizeLinear", [f"x{i}", "xs", "xz"], [f"q{i}"]) for i in range(2)),
        node("QLinearMatMul", ["q0", "xs", "xz", "q1", "xs", "xz", "ys", "yz"], ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    shapes = [(3, 5, 16), (3, 16, 7)]
    source = model(nodes, {f"x{i}": shape for i, shape in enumerate(shapes)}, ["y"], values, 19)
    program = prograd.from_onnx(source, integers=True)
    assert {"integer_matmul"} == {op.type for op in program.block.desc.ops if "matmul" in op.type}
    given = [2 * drawn(*shape) for shape in shapes]
    sums = integers.product(*(codes_of(each, SCALES["xs"], 125) for each in given), 125, np.array(125))
    wanted = integers.requantized(sums, SCALES["xs"], SCALES["xs"], SCALES["ys"], np.array(100))
    found = predicted(program, engine, {}, x0=given[0], x1=given[1])["y"]
    np.testing.assert_array_equal(found, numbers(wanted, SCALES["ys"], 100))


@ENGINES
@pytest.mark.parametrize("signed", [False, True])
def test_a_mean_of_channels_is_of_integers(signed: bool, engine: Any):
    program = prograd.from_onnx(between("GlobalAveragePool", [(2, 5, 6, 7)], signed), integers=True)
    assert "mean" not in [op.type for op in program.block.desc.ops]
    x = 3 * drawn(2, 5, 6, 7)
    sums = (codes_of(x, SCALES["xs"], 125).astype("i4") - 125).sum((2, 3), keepdims=True)
    one = np.float32(1)
    wanted = integers.requantized(sums, SCALES["xs"], one, SCALES["ys"] * np.float32(42), np.array(100))
    found = predicted(program, engine, {}, x0=x)["y"]
    np.testing.assert_array_equal(found, numbers(wanted, SCALES["ys"], 100))


@pytest.mark.parametrize("extent", [4, 9])
def test_a_mean_of_channels_of_any_extent_is_of_floats(extent: int):
    source = between("GlobalAveragePool", [(2, 5, "height", 7)], False)  # pyright: ignore[reportArgumentType]: a symbol
    program = prograd.from_onnx(source, integers=True)
    assert "mean" in [op.type for op in program.block.desc.ops]
    x = 3 * drawn(2, 5, extent, 7)
    mean = numbers(codes_of(x, SCALES["xs"], 125), SCALES["xs"], 125).mean((2, 3), keepdims=True)
    found = program.compile(height=extent)
    found = prograd.Run(found).predict({"x0": x})["y"]
    assert np.abs(found - numbers(codes_of(mean, SCALES["ys"], 100), SCALES["ys"], 100)).max() < 0.12


def test_what_is_no_pattern_stays_in_floats():
    nodes, values, _ = quantised("Gemm", drawn(8, 4), False)
    values["bs"] = values["bs"] * 2
    program, ops = imported(nodes, (3, 8), values)
    assert "integer_matmul" not in ops
    assert program.notes_of_import[0] == (
        "products and convolutions in integers: 0; their weights are not trained; 2 other quantised weights are read "
        "as floats, as no operator multiplies them in integers"
    )


def test_the_command_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    onnx.save(FILES["conv"][0](), "quantised.onnx")
    command = "compiler import onnx quantised.onnx --integers -o quantised.pb"
    assert f"    $ {command}\n" in (ROOT / "docs/int8.md").read_text(encoding="utf-8")
    assert main(command.split()[1:]) == 0
    said = "note: products and convolutions in integers: 1; their weights are not trained"
    lines = capsys.readouterr().err.splitlines()
    assert said in lines
    assert not any("as floats" in line for line in lines)
    assert main(["show", "quantised.pb", "--entry", "predict"]) == 0
    assert "integer_conv2d(" in capsys.readouterr().out


def test_integers_have_no_gradients():
    assert told(prograd.CompileError, lambda: prograd.from_onnx(dynamic(), integers=True, fake_quantize=True)) == (
        "from_onnx: integers=True has no gradients, which fake_quantize=True asks for; give one of them"
    )


def refused(values: dict[str, Any], *, in_integers: bool = True) -> str:
    nodes, given, _ = quantised("Gemm", drawn(8, 4), False)
    with pytest.raises(prograd.CompileError) as caught:
        prograd.from_onnx(model(nodes, {"x": (3, 8)}, ["y"], given | values, 19), integers=in_integers)
    return str(caught.value)


@pytest.mark.parametrize("in_integers", [False, True])
def test_parameters_that_no_codes_belong_to_are_one_sentence(in_integers: bool):
    for scale, said in ((0.0, "0"), (-0.5, "-0.5"), (np.nan, "nan"), (np.inf, "inf")):
        assert refused({"ys": np.float32(scale)}, in_integers=in_integers) == (
            f"the model: QuantizeLinear 'yq' divides by a scale of {said}, which gives no codes; quantise again by "
            "rows that reach 'a'"
        )
    assert refused({"wz": np.zeros(3, "i1")}, in_integers=in_integers) == (
        "the model: DequantizeLinear 'w' has 4 scales and 3 zero points; it takes as many of both"
    )
    assert refused({"bz": np.array([0, 0, 7, 0], "i4")}, in_integers=in_integers) == (
        "the model: DequantizeLinear 'b' has codes of int32 with the zero point 7; ONNX has 0 there"
    )
    assert refused({"wz": np.zeros(4, "u1")}, in_integers=in_integers) == (
        "the model: DequantizeLinear 'w' has codes of int8 and a zero point of uint8; both have one dtype"
    )


def test_a_pair_of_unequal_parameters_is_noted_and_computed():
    values = SCALES | {"xz": np.uint8(9), "yz": np.uint8(7)}
    nodes = [node("QuantizeLinear", ["x", "xs", "xz"], ["q"]), node("DequantizeLinear", ["q", "ys", "yz"], ["y"])]
    program, _ = imported(nodes, (3, 8), values)
    assert [note for note in program.notes_of_import if "is quantised" in note] == [
        "'x' is quantised with the scale 0.02 and read with 0.11; both are computed as they stand",
        "'x' is quantised with the zero point 9 and read with 7; both are computed as they stand",
    ]
    x = drawn(3, 8)
    found = predicted(program, "reference", {}, x=x)["y"]
    np.testing.assert_array_equal(found, numbers(codes_of(x, 0.02, 9), 0.11, 7))
