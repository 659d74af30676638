"""Programs with mixed precision as ONNX models: the float32 network, with the states as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from subjects.random_networks import network

import prograd
import runtime


def computed(model: Any, feeds: dict[str, Any]) -> Any:
    """Return the first result of a model, by ONNX Runtime."""
    engine: Any = pytest.importorskip("onnxruntime", reason="needs pip install onnxruntime")
    session = engine.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [0, 1, 2, 5], ids=["recurrent", "images", "rows", "sequences"])
def test_a_mixed_run_is_exported_as_a_float32_network(seed: int) -> None:
    program, feeds = network(seed)
    run = runtime.Run(program.compile(batch=16, mixed="bfloat16"), engine="native")
    run.step(feeds)
    model = prograd.to_onnx(run, entry="predict")
    single = prograd.to_onnx(runtime.Run(network(seed)[0].compile(batch=16)), entry="predict")
    assert sorted(node.op_type for node in model.graph.node) == sorted(node.op_type for node in single.graph.node)
    assert not any(tensor.data_type == onnx.TensorProto.BFLOAT16 for tensor in model.graph.initializer)
    plain = runtime.Run(network(seed)[0].compile(batch=16), engine="reference")
    for name in run.state:
        plain.state[name] = run.state[name]
    rows = {"x": feeds["x"]}
    wanted = np.asarray(plain.predict(rows)["logits"])
    assert np.abs(computed(model, rows) - wanted).max() <= 1e-4 * np.abs(wanted).max()
