"""Floats of four and eight bits, and integers of two and four, which wider dtypes carry, beside ml_dtypes."""

# pyright: basic
# onnx and ml_dtypes are imported by name and have no types here.

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler import CompileError
from prograd import Run, from_onnx

DRAWN = np.random.default_rng(0)
FLOATS = np.concatenate(
    [DRAWN.standard_normal(256) * 2.0 ** DRAWN.integers(-20, 20, 256), [0, -0.0, np.nan, np.inf, -np.inf, 464, 465]]
).astype(np.float32)[:, None]
SMALL = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]


def model(nodes: list[Any], dtype: int = 1, stored: dict[str, Any] | None = None) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", dtype, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(array, name) for name, array in (stored or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def ran(source: Any, x: Any, engine: Any) -> Any:
    return Run(from_onnx(source).compile(n=len(x)), engine=engine).step({"x": x}, entry="predict")["y"]


def own(name: str) -> Any:
    return helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", SMALL)
def test_floats_are_rounded_to_the_nearest_of_a_format(name: str, engine: Any):
    there = helper.make_node("Cast", ["x"], ["f"], to=getattr(TensorProto, name))
    found = ran(model([there, helper.make_node("Cast", ["f"], ["y"], to=1)]), FLOATS, engine)
    largest = {"FLOAT8E4M3FN": 448.0, "FLOAT8E4M3FNUZ": 240.0, "FLOAT4E2M1": 6.0}.get(name, 57344.0)
    np.testing.assert_array_equal(found, np.clip(FLOATS, -largest, largest).astype(own(name)).astype(np.float32))


@pytest.mark.parametrize("name", SMALL[:4])
def test_floats_beyond_a_format_need_not_saturate(name: str):
    there = helper.make_node("Cast", ["x"], ["f"], to=getattr(TensorProto, name), saturate=0)
    found = ran(model([there, helper.make_node("Cast", ["f"], ["y"], to=1)]), FLOATS, "reference")
    np.testing.assert_array_equal(found, FLOATS.astype(own(name)).astype(np.float32))


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2"])
def test_integers_of_few_bits_wrap(name: str, engine: Any):
    numbers = np.arange(-40, 40, dtype=np.int32)[:, None]
    there = helper.make_node("Cast", ["x"], ["i"], to=getattr(TensorProto, name))
    found = ran(model([there, helper.make_node("Cast", ["i"], ["y"], to=6)], 6), numbers, engine)
    bits = int(name[-1])
    low = numbers & ((1 << bits) - 1)
    signed = (low ^ (1 << (bits - 1))) - (1 << (bits - 1))
    np.testing.assert_array_equal(found, low if name.startswith("U") else signed)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(
    ("name", "least", "most"), [("INT4", -8, 7), ("UINT4", 0, 15), ("INT2", -2, 1), ("UINT2", 0, 3)]
)
def test_floats_are_quantised_to_few_bits(name: str, least: int, most: int, engine: Any):
    x = (DRAWN.standard_normal((64, 1)) * 8).astype(np.float32)
    stored = {"s": np.float32(0.5), "z": np.array(1).astype(own(name))}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]  # fmt: skip
    wanted = (np.clip(np.round(x / 0.5) + 1, least, most) - 1) * 0.5
    np.testing.assert_allclose(ran(model(nodes, stored=stored), x, engine), wanted, rtol=1e-6)


def test_stored_numbers_of_few_bits_are_weights():
    weights = DRAWN.integers(-8, 8, (1, 4)).astype(own("INT4"))
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["x", "f"], ["y"])]
    source = model(nodes, stored={"w": weights, "s": np.float32(0.25)})
    program = from_onnx(source)
    assert [(row.name, row.trained) for row in program.tensors_of_file] == [("f", True)]
    x = DRAWN.standard_normal((32, 1)).astype(np.float32)
    np.testing.assert_allclose(ran(source, x, "reference"), x * weights.astype(np.float32) * 0.25, rtol=1e-6)


def test_the_bits_of_small_floats_are_refused():
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT8E5M2),
             helper.make_node("BitCast", ["f"], ["y"], to=TensorProto.INT8)]  # fmt: skip
    source = model(nodes)
    source.opset_import[0].version = 26
    with pytest.raises(CompileError, match="the bits of float8e5m2 as int8, which prograd has not"):
        from_onnx(source)
