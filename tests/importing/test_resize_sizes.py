"""Sizes and positions of Resize by scales, which are those of ONNX Runtime and PyTorch."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import pytest

from compiler import from_onnx
from compiler.onnx_operators.resize import _Plan
from prograd import Run

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


def nearest(new: int, old: int, coordinates: str, rounding: str) -> int:
    """The row of the operand for the middle row of the result, by exact fractions."""
    row = Fraction(new // 2)
    at = {
        "asymmetric": row * old / new,
        "half_pixel": (row + Fraction(1, 2)) * old / new - Fraction(1, 2),
        "align_corners": row * (old - 1) / (new - 1),
    }[coordinates]
    below = at.numerator // at.denominator
    rest = at - below
    up = rest > Fraction(1, 2) if rounding == "round_prefer_floor" else rest >= Fraction(1, 2)
    return min(max(below + up, 0), old - 1)


ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil"])
def test_the_nearest_row_at_a_half_is_that_of_exact_positions(coordinates: str, rounding: str):
    """Float32 misses the half of 7 and 16 rows by an ulp. ONNX Runtime misses halves beyond row 16 too."""
    for old in range(1, 29, 3):
        for new in range(2, 257, 14):
            plan = _Plan(FakeNode(coordinate_transformation_mode=coordinates, nearest_mode=rounding), is_old=False)
            weights, _ = plan.weights(old, new, new / old, None)
            assert weights[new // 2].argmax() == nearest(new, old, coordinates, rounding), (old, new)


class FakeNode:
    """The attributes of a node."""

    def __init__(self, **attributes: object) -> None:
        self.attributes = attributes

    def attribute(self, name: str, default: object = None) -> object:
        return self.attributes.get(name, default)


@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_the_nearest_rows_are_those_of_onnx_runtime(coordinates: str, rounding: str):
    runtime = pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install onnxruntime")
    node = helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], coordinate_transformation_mode=coordinates, nearest_mode=rounding
    )
    inputs = [helper.make_tensor_value_info("x", 1, [None]), helper.make_tensor_value_info("n", 7, [1])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    session = runtime.InferenceSession(made.SerializeToString())
    for old in range(1, 129, 5):
        plan = _Plan(FakeNode(coordinate_transformation_mode=coordinates, nearest_mode=rounding), is_old=False)
        for new in range(1, 257, 3):
            [wanted] = session.run(None, {"x": np.arange(old, dtype=np.float32), "n": np.array([new])})
            weights, _ = plan.weights(old, new, new / old, None)
            assert weights.argmax(axis=1).tolist() == wanted.tolist(), (old, new)
