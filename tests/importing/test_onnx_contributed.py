"""Fused operators of ONNX Runtime, beside ONNX Runtime where it is installed."""

from typing import Any

import numpy as np
import onnx
import onnxruntime as runtime
import pytest

import prograd

helper = onnx.helper
RNG = np.random.default_rng(9)


def drawn(*shape: int) -> Any:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


CASES: dict[str, tuple[list[str], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "Attention": (
        ["x", "w", "b", "mask"],
        {"num_heads": 4},
        {"x": drawn(2, 6, 32), "mask": np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)},
        {"w": drawn(32, 96), "b": drawn(96)},
    ),
    "MultiHeadAttention": (
        ["x", "k", "v", "b"],
        {"num_heads": 4},
        {"x": drawn(2, 6, 32), "k": drawn(2, 5, 32), "v": drawn(2, 5, 32)},
        {"b": drawn(96)},
    ),
    "EmbedLayerNormalization": (
        ["ids", "kinds", "words", "places", "types", "scale", "bias"],
        {},
        {"ids": np.array([[1, 4, 2], [0, 3, 5]], np.int32), "kinds": np.array([[0, 0, 1], [0, 1, 1]], np.int32)},
        {"words": drawn(9, 16), "places": drawn(8, 16), "types": drawn(2, 16), "scale": drawn(16), "bias": drawn(16)},
    ),
    "FusedConv": (
        ["x", "w", "b"],
        {"activation": "LeakyRelu", "activation_params": [0.2], "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"x": drawn(2, 3, 8, 8)},
        {"w": drawn(16, 3, 3, 3), "b": drawn(16)},
    ),
    "FusedGemm": (
        ["x", "w", "b"],
        {"activation": "Relu", "transB": 1},
        {"x": drawn(32, 64)},
        {"w": drawn(16, 64), "b": drawn(16)},
    ),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("operator", CASES)
def test_a_fused_operator_computes_what_onnx_runtime_computes(operator: str, engine: Any):
    names, attributes, feeds, weights = CASES[operator]
    outputs = ["y", "count"] if operator == "EmbedLayerNormalization" else ["y"]
    kinds = {"float32": 1, "int32": 6}
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, domain="com.microsoft", **attributes)],
        "net",
        [helper.make_tensor_value_info(n, kinds[a.dtype.name], a.shape) for n, a in feeds.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    [wanted] = runtime.InferenceSession(model.SerializeToString()).run(None, feeds)
    program = prograd.from_onnx(model)
    found = prograd.Run(program.compile(), engine=engine).step(feeds, entry="predict")["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
