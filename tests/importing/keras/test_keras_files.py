"""Files of Keras by tf2onnx: one bias where ONNX has two, and normalisations without statistics."""

# pyright: basic
# onnx is imported by name and has no types here.

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from prograd import Run, from_onnx, ops, sgd

DRAWN = np.random.default_rng(0)
X = DRAWN.standard_normal((6, 32, 5)).astype(np.float32)


def model(nodes: list[Any], shape: list[Any], stored: dict[str, Any], producer: str) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name=producer)


def lstm(producer: str, second: float = 0.0) -> Any:
    biases = np.concatenate([DRAWN.standard_normal((1, 16)), np.full((1, 16), second)], 1).astype(np.float32)
    stored = {
        "w": DRAWN.standard_normal((1, 16, 5)).astype(np.float32),
        "r": DRAWN.standard_normal((1, 16, 4)).astype(np.float32),
        "b": biases,
    }
    return model([helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4)], [6, "n", 5], stored, producer)


def shapes(program: Any) -> dict[str, tuple[int, ...]]:
    return {row.name: row.shape for row in program.tensors_of_file if row.trained}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_bias_of_keras_moves_as_fast_as_there(engine: Any):
    source = lstm("tf2onnx")
    program = from_onnx(source)
    assert shapes(program) == {"w": (1, 16, 5), "r": (1, 16, 4), "b": (1, 16)}
    assert program.notes_of_import == [
        "the second biases of 1 recurrent layers are zeros, which tf2onnx adds to the one of Keras and training leaves "
        "as they are"
    ]
    one, two = (stepped(from_onnx(each), engine) for each in (source, lstm_of(source, "pytorch")))
    np.testing.assert_allclose(one["y"], two["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one["b"], two["b"][:, :16], rtol=1e-4, atol=1e-5)


def lstm_of(source: Any, producer: str) -> Any:
    """Return a file as another exporter would have written it."""
    other = onnx.ModelProto.FromString(source.SerializeToString())
    other.producer_name = producer
    return other


def stepped(program: Any, engine: Any) -> dict[str, Any]:
    """Return the prediction, and the bias after a step."""
    program.minimize(ops.mean(ops.square(program["y"])), sgd(1.0))
    run = Run(program.compile(n=32), engine=engine)
    y = run.step({"x": X}, entry="predict")["y"]
    run.step({"x": X}, entry="train")
    return {"y": y, "b": np.array(run.state["b"])}


def test_two_biases_are_trained_where_both_are_there():
    assert shapes(from_onnx(lstm("pytorch")))["b"] == (1, 32)
    assert shapes(from_onnx(lstm("tf2onnx", 0.5)))["b"] == (1, 32)


def test_a_note_tells_that_normalisations_are_folded():
    nodes = [helper.make_node("Mul", ["x", "net/batchnorm/mul:0"], ["a"]), helper.make_node("Add", ["a", "s"], ["y"])]
    stored = {name: np.arange(1, 6, dtype=np.float32) for name in ("net/batchnorm/mul:0", "s")}
    source = model(nodes, ["n", 5], stored, "tf2onnx")
    assert from_onnx(source).notes_of_import == [
        "the exporter folded 1 batch normalisations into scales and shifts, which training moves without statistics"
    ]
