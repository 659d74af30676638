"""Operators between pairs of quantisation beside ONNX Runtime: the same codes, where its kernels are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from importing.test_from_onnx import model, predicted

import prograd

node = onnx.helper.make_node

PLANE, IMAGE = (32, 150), (2, 8, 9, 9)

OPERATORS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "Add": ((PLANE, PLANE), {}),
    "Mul": ((IMAGE, (2, 8, 1, 1)), {}),
    "GlobalAveragePool": ((IMAGE,), {}),
    "AveragePool": ((IMAGE,), {"kernel_shape": [3, 3]}),
    "MaxPool": ((IMAGE,), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "Concat": ((PLANE, PLANE), {"axis": 1}),
    "Transpose": ((PLANE,), {}),
    "Sigmoid": ((PLANE,), {}),
    "HardSwish": ((PLANE,), {}),
    "LeakyRelu": ((PLANE,), {}),
    "Tanh": ((PLANE,), {}),
    "Erf": ((PLANE,), {}),
    "Softmax": ((PLANE,), {}),
}

FUSED_MAY_DIFFER = {"Add": 1e-3, "Softmax": 1e-2}
"""Share of the codes that may differ by one from those of fused kernels, which compute in other orders."""


def between_pairs(operator: str, kind: type[np.integer[Any]], rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Return a model of an operator whose operands and result are quantised, and the scale of its result."""
    shapes, attributes = OPERATORS[operator]
    count = len(shapes)
    scales = np.exp(rng.uniform(np.log(0.01), np.log(0.1), count + 1)).astype("f4")
    if operator == "Mul":
        scales[count] = scales[0] * scales[1] * np.float32(43.3)
    zeros = (rng.integers(90, 160, count + 1) - (0 if kind is np.uint8 else 128)).astype(kind)
    values = {f"s{i}": scale for i, scale in enumerate(scales)} | {f"z{i}": zero for i, zero in enumerate(zeros)}
    nodes: list[Any] = []
    for i in range(count):
        nodes.append(node("QuantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"q{i}"]))
        nodes.append(node("DequantizeLinear", [f"q{i}", f"s{i}", f"z{i}"], [f"d{i}"]))
    nodes.append(node(operator, [f"d{i}" for i in range(count)], ["r"], **attributes))
    nodes.append(node("QuantizeLinear", ["r", f"s{count}", f"z{count}"], ["yq"]))
    nodes.append(node("DequantizeLinear", ["yq", f"s{count}", f"z{count}"], ["y"]))
    return model(nodes, {f"x{i}": shape for i, shape in enumerate(shapes)}, ["y"], values, 17), scales


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("operator", OPERATORS)
def test_codes_are_those_of_onnxruntime(operator: str, kind: type[np.integer[Any]], is_fused: bool):
    rng = np.random.default_rng([*map(ord, operator)])
    source, scales = between_pairs(operator, kind, rng)
    shapes = OPERATORS[operator][0]
    given = {f"x{i}": (rng.normal(size=s) * 40 * scales[i]).astype("f4") for i, s in enumerate(shapes)}
    options, level = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.log_severity_level = 3
    options.graph_optimization_level = level.ORT_ENABLE_ALL if is_fused else level.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(source.SerializeToString(), options, providers=["CPUExecutionProvider"])
    [wanted] = session.run(None, given)
    for engine in ("reference", "native"):
        found = predicted(prograd.from_onnx(source, integers=True), engine, {}, **given)["y"]
        apart = np.rint(np.abs(found - wanted) / scales[-1])
        allowed = FUSED_MAY_DIFFER.get(operator, 0) if is_fused else 0
        assert apart.max() <= (allowed > 0)
        assert (apart > 0).mean() <= allowed
