"""Quantised operators of `com.microsoft`, each beside ONNX Runtime: predictions, and gradients of stored weights."""

# pyright: basic
# ONNX Runtime has no types.

from typing import Any

import numpy as np
import onnx
import pytest
from importing.quantised.exact_weights import LARGEST

runtime: Any = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install onnxruntime")

import prograd  # noqa: E402
from prograd import ops, sgd  # noqa: E402

helper = onnx.helper
RNG = np.random.default_rng(5)
MICROSOFT = "com.microsoft"
SCALES = {"as": np.float32(0.02), "az": np.uint8(120), "bs": np.float32(0.03), "bz": np.uint8(130)}
SCALES |= {"ys": np.float32(0.0417), "yz": np.uint8(110), "ps": np.float32(1 / 256), "pz": np.uint8(0)}
W_INT = RNG.integers(-LARGEST, LARGEST + 1, (64, 16)).astype(np.int8)
W = {"w_quantized": W_INT, "ws": np.float32(0.01), "wz": np.int8(0), "bias": RNG.standard_normal(16).astype(np.float32)}
W |= {"ib": RNG.integers(-500, 500, 16).astype(np.int32)}


def node(operator: str, names: list[str], result: str = "yq", **attributes: Any) -> Any:
    return helper.make_node(operator, names, [result], domain=MICROSOFT, **attributes)


def of_two(operator: str) -> list[Any]:
    return [node(operator, ["aq", "as", "az", "bq", "bs", "bz", "ys", "yz"])]


CASES: dict[str, tuple[list[Any], tuple[int, ...], tuple[str, str]]] = {
    "QLinearAdd": (of_two("QLinearAdd"), (32, 64), ("ys", "yz")),
    "QLinearMul": (of_two("QLinearMul"), (32, 64), ("ys", "yz")),
    "QLinearSigmoid": ([node("QLinearSigmoid", ["aq", "as", "az", "ps", "pz"])], (32, 64), ("ps", "pz")),
    "QLinearLeakyRelu": ([node("QLinearLeakyRelu", ["aq", "as", "az", "ys", "yz"], alpha=0.2)], (32, 64), ("ys", "yz")),
    "QLinearSoftmax": (
        [node("QLinearSoftmax", ["aq", "as", "az", "ps", "pz"], axis=-1, opset=17)],
        (32, 64),
        ("ps", "pz"),
    ),
    "QLinearSoftmax of the last axis unless given": (
        [node("QLinearSoftmax", ["aq", "as", "az", "ps", "pz"], opset=17)],
        (4, 8, 64),
        ("ps", "pz"),
    ),
    "QLinearAveragePool": (
        [node("QLinearAveragePool", ["aq", "as", "az", "ys", "yz"], kernel_shape=[2, 2], strides=[2, 2])],
        (4, 3, 16, 16),
        ("ys", "yz"),
    ),
    "QLinearGlobalAveragePool": (
        [node("QLinearGlobalAveragePool", ["aq", "as", "az", "ys", "yz"])],
        (4, 3, 16, 16),
        ("ys", "yz"),
    ),
    "QLinearConcat": (
        [node("QLinearConcat", ["ys", "yz", "aq", "as", "az", "bq", "bs", "bz"], axis=1)],
        (32, 64),
        ("ys", "yz"),
    ),
    "QGemm": ([node("QGemm", ["aq", "as", "az", "w_quantized", "ws", "wz", "ib", "ys", "yz"])], (32, 64), ("ys", "yz")),
}
"""For each operator its nodes, the shape of its operands, and scale and zero of its result."""


def quantised(name: str) -> Any:
    """Return a model that quantises its inputs, computes with one operator, and dequantises the result."""
    nodes, shape, (scale, zero) = CASES[name]
    read = [x for x in ("a", "b") if any(f"{x}q" in each.input for each in nodes)]
    before = [helper.make_node("QuantizeLinear", [x, f"{x}s", f"{x}z"], [f"{x}q"]) for x in read]
    after = [helper.make_node("DequantizeLinear", ["yq", scale, zero], ["y"])]
    return built([*before, *nodes, *after], dict.fromkeys(read, shape))


def built(nodes: list[Any], inputs: dict[str, tuple[int, ...]]) -> Any:
    used = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (SCALES | W).items() if n in used],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def both(model: Any, engine: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of an engine, and that of ONNX Runtime."""
    shapes = {x.name: tuple(d.dim_value for d in x.type.tensor_type.shape.dim) for x in model.graph.input}
    rng = np.random.default_rng(7)
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    [wanted] = runtime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    program = prograd.from_onnx(model)
    return prograd.Run(program.compile(), engine=engine).step(feeds, entry="predict")["y"], wanted


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_a_quantised_operator_computes_up_to_one_step_what_onnx_runtime_computes(name: str, engine: Any):
    found, wanted = both(quantised(name), engine)
    step = float(SCALES[CASES[name][2][0]])
    apart = np.abs(found - wanted)
    assert apart.max() < 1.01 * step
    assert (apart > 0.01 * step).mean() < 0.02  # a rounding turns now and then
    assert np.unique(wanted).size > 4


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("operator", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_a_product_of_integers_that_makes_floats_computes_what_onnx_runtime_computes(
    operator: str, biased: bool, engine: Any
):
    bias = ["bias"] if biased else []
    nodes = [helper.make_node("QuantizeLinear", ["a", "as", "az"], ["aq"])]
    if operator == "DynamicQuantizeMatMul":
        nodes = [node(operator, ["a", "w_quantized", "ws", "wz", *bias], "y")]
    else:
        nodes.append(node(operator, ["aq", "w_quantized", "as", "ws", "az", "wz", *bias], "y"))
    found, wanted = both(built(nodes, {"a": (32, 64)}), engine)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operator", ["QGemm", "DynamicQuantizeMatMul"])
def test_stored_weights_of_a_quantised_product_are_parameters_with_gradients(operator: str):
    nodes = [node(operator, ["a", "w_quantized", "ws", "wz"], "y")]
    model = quantised("QGemm") if operator == "QGemm" else built(nodes, {"a": (32, 64)})
    program = prograd.from_onnx(model, fake_quantize=True)
    program.minimize(ops.mean(ops.square(program["y"])), sgd(0.5))
    run = prograd.Run(program.compile(), engine="native")
    feeds = {"a": np.random.default_rng(3).standard_normal((32, 64)).astype(np.float32)}
    before, losses = run.state["w"].copy(), [float(run.step(feeds, entry="train")["loss"]) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert (run.state["w"] != before).mean() > 0.9


def test_a_quantised_softmax_of_an_old_opset_along_an_inner_axis_is_refused():
    old = [node("QLinearSoftmax", ["aq", "as", "az", "ps", "pz"], axis=1, opset=12)]
    before = helper.make_node("QuantizeLinear", ["a", "as", "az"], ["aq"])
    model = built([before, *old, helper.make_node("DequantizeLinear", ["yq", "ps", "pz"], ["y"])], {"a": (4, 8, 16)})
    with pytest.raises(prograd.CompileError, match="QLinearSoftmax"):
        prograd.from_onnx(model)
