"""Sizes and positions of Resize by scales, which are those of ONNX Runtime and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from compiler import from_onnx
from prograd import Run

onnx = pytest.importorskip("onnx")

helper, numpy_helper = onnx.helper, onnx.numpy_helper

SIZES = [
    (10, 0.7, 7),
    (10, 1.3, 13),
    (100, 0.29, 29),
    (12, 7 / 12, 7),
    (224, 706 / 224, 706),
    (5, 1.5, 7),
    (7, 0.999, 6),
]
"""Extent, scale, and the extent of the result: the last two have no whole product."""


def resized(extent: int, scale: float, operator: str = "Resize", **attributes: object) -> object:
    names = ["x", "", "s"] if operator == "Resize" else ["x", "s"]
    node = helper.make_node(operator, names, ["y"], mode="linear", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, 2, 8, extent])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array([1, 1, 1, scale], np.float32), "s")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13 if operator == "Resize" else 9)])


@pytest.mark.parametrize("operator", ["Resize", "Upsample"])
@pytest.mark.parametrize(("extent", "scale", "wanted"), SIZES)
def test_the_size_is_that_of_a_product_in_float32(extent: int, scale: float, wanted: int, operator: str):
    assert from_onnx(resized(extent, scale, operator))["y"].shape[-1] == wanted


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("extent", "scale", "wanted"), [(64, 1.51, 96), (64, 0.7, 44), (5, 1.5, 7), (9, 0.12, 1)])
def test_aligned_corners_are_those_of_the_result(extent: int, scale: float, wanted: int, engine: str):
    program = from_onnx(resized(extent, scale, coordinate_transformation_mode="align_corners"))
    x = np.random.default_rng(0).standard_normal((1, 2, 8, extent)).astype(np.float32)
    found = Run(program.compile(), engine=engine).step({"x": x}, entry="predict")["y"]
    at = np.linspace(0, extent - 1, wanted) if wanted > 1 else np.zeros(1)
    lines = x.reshape(-1, extent).astype(np.float64)
    by_numpy = np.stack([np.interp(at, np.arange(extent), line) for line in lines]).reshape(1, 2, 8, wanted)
    np.testing.assert_allclose(found, by_numpy, rtol=1e-5, atol=1e-5)
