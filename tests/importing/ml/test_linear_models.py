"""Linear models, scalers and imputers of ai.onnx.ml, by hand-written NumPy."""

# pyright: basic
# onnx is imported by name and has no types here.

from typing import Any

import numpy as np
import pytest
from onnx import helper
from subjects.commands import told

from compiler import CompileError
from prograd import Run, from_onnx

DRAWN = np.random.default_rng(0)
X = DRAWN.standard_normal((32, 64)).astype(np.float32)
W = DRAWN.standard_normal((3, 64)).astype(np.float32) / 8
B: Any = [0.1, 0.2, 0.3]


def model(operator: str, results: dict[str, Any], **attributes: Any) -> Any:
    node = helper.make_node(operator, ["x"], list(results), domain="ai.onnx.ml", **attributes)
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["n", 64])], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


def predicted(source: Any, x: Any = X) -> Any:
    return Run(from_onnx(source).compile(n=32)).step({"x": x}, entry="predict")


def test_a_linear_regressor_is_a_product():
    source = model("LinearRegressor", {"y": 1}, coefficients=W.reshape(-1).tolist(), intercepts=B, targets=3)
    np.testing.assert_allclose(predicted(source)["y"], X @ W.T + np.asarray(B, np.float32), rtol=1e-4, atol=1e-5)


def test_a_linear_classifier_has_classes_and_probabilities():
    found = predicted(
        model("LinearClassifier", {"label": 7, "p": 1}, coefficients=W.reshape(-1).tolist(), intercepts=B,
              classlabels_ints=[4, 7, 9], post_transform="SOFTMAX")
    )  # fmt: skip
    scores = np.exp(X @ W.T + np.asarray(B, np.float32))
    np.testing.assert_allclose(found["p"], scores / scores.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["label"], np.array([4, 7, 9])[scores.argmax(1)])


@pytest.mark.parametrize("end", ["NONE", "LOGISTIC"])
def test_one_score_of_two_classes_is_that_of_the_second(end: str):
    found = predicted(
        model("LinearClassifier", {"label": 7, "p": 1}, coefficients=W[0].tolist(), intercepts=[0.1],
              classlabels_ints=[0, 1], post_transform=end)
    )  # fmt: skip
    score = X @ W[0] + np.float32(0.1)
    second = 1 / (1 + np.exp(-score)) if end == "LOGISTIC" else score
    np.testing.assert_allclose(found["p"], np.stack([1 - second, second], 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["label"], score > 0)


def test_columns_are_scaled_and_missing_elements_are_put_in():
    means = DRAWN.standard_normal(64).astype(np.float32)
    found = predicted(model("Scaler", {"y": 1}, offset=means.tolist(), scale=[0.5]))["y"]
    np.testing.assert_allclose(found, (X - means) * 0.5, rtol=1e-5, atol=1e-6)
    holes = np.where(X > 1, np.float32("nan"), X)
    source = model("Imputer", {"y": 1}, imputed_value_floats=means.tolist(), replaced_value_float=float("nan"))
    np.testing.assert_array_equal(predicted(source, holes)["y"], np.where(X > 1, means, X))


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_are_divided_by_their_norm(norm: str):
    sizes = {"MAX": X.max(1), "L1": np.abs(X).sum(1), "L2": np.sqrt(np.square(X).sum(1))}
    found = predicted(model("Normalizer", {"y": 1}, norm=norm))["y"]
    np.testing.assert_allclose(found, X / sizes[norm][:, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({}, "has no labels"),
        (
            {"classlabels_ints": [0, 1], "post_transform": "SQUARE"},
            "ends in post_transform='SQUARE', and prograd has NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO, PROBIT",
        ),
    ],
)
def test_what_no_program_states_is_refused(attributes: Any, reason: str):
    given: dict[str, Any] = {"coefficients": W[0].tolist(), "intercepts": [0.1], **attributes}
    source = model("LinearClassifier", {"label": 7, "p": 1}, **given)
    assert reason in told(CompileError, lambda: from_onnx(source))
