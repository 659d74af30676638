"""Selections of ONNX whose number of rows is data."""

from typing import Any

import numpy as np
import onnx
import pytest
from importing.test_from_onnx import drawn, model, predicted
from onnx.reference import ReferenceEvaluator
from subjects.commands import told

import prograd

node = onnx.helper.make_node
NODES = [
    node("Greater", ["x", "zero"], ["is_up"]),
    node("NonZero", ["is_up"], ["at"]),
    node("Transpose", ["at"], ["places"], perm=[1, 0]),
    node("GatherND", ["x", "places"], ["y"]),
]


def chosen() -> Any:
    return model(NODES, {"x": (32, 64)}, ["y"], {"zero": np.float32(0)})


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_rows_of_a_selection_are_bounded_and_counted(engine: Any):
    x = drawn(32, 64)
    program = prograd.from_onnx(chosen(), max_rows={"at": 2000})
    assert program.outputs_of_module == ["y", "at_count"]
    found = predicted(program, engine, {}, x=x)
    wanted = x[x > 0]
    assert found["at_count"] == len(wanted)
    np.testing.assert_array_equal(found["y"][: len(wanted)], wanted)
    assert found["y"].shape == (2000,)


def test_a_selection_without_a_bound_is_refused():
    assert told(prograd.CompileError, lambda: prograd.from_onnx(chosen())) == (
        "from_onnx: 1 operator cannot be imported: NonZero, used 1 time, first in the module: the number of its "
        "rows is data; bound it by max_rows={'at': N}, or --max-rows at=N"
    )
    mistakes: list[tuple[dict[str, int], str]] = [
        ({"places_": 3}, "from_onnx: max_rows names 'places_', which no node of the model makes"),
        ({"at": 0}, "from_onnx: max_rows={'at': 0} is no number of rows; give at least 1"),
    ]
    for rows, message in mistakes:
        with pytest.raises(prograd.CompileError) as caught:
            prograd.from_onnx(chosen(), max_rows=rows)
        assert str(caught.value) == message


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_rows_that_are_compressed_by_a_condition_of_data(engine: Any):
    nodes = [node("Greater", ["s", "zero"], ["c"]), node("Compress", ["x", "c"], ["y"], axis=1)]
    program = prograd.from_onnx(
        model(nodes, {"x": (8, 40), "s": (40,)}, ["y"], {"zero": np.float32(0)}), max_rows={"y": 40}
    )
    x, s = drawn(8, 40), drawn(40)
    found = predicted(program, engine, {}, x=x, s=s)
    count = int(found["y_count"])
    np.testing.assert_array_equal(found["y"][:, :count], x[:, s > 0])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_boxes_of_a_detector_are_chosen_as_by_loops(engine: Any):
    names = ["boxes", "scores", "most", "iou", "least"]
    weights = {"most": np.array([5]), "iou": np.float32([0.3]), "least": np.float32([0.05])}
    source = model(
        [node("NonMaxSuppression", names, ["kept"])], {"boxes": (1, 30, 4), "scores": (1, 2, 30)}, ["kept"], weights, 11
    )
    program = prograd.from_onnx(source, max_rows={"kept": 12})
    boxes, scores = np.abs(drawn(1, 30, 4)), np.abs(drawn(1, 2, 30))
    found = predicted(program, engine, {}, boxes=boxes, scores=scores)
    reference = ReferenceEvaluator(source).run(None, {"boxes": boxes, "scores": scores})[0]
    assert found["kept_count"] == len(reference)
    np.testing.assert_array_equal(found["kept"][: len(reference)], reference)
