"""Feeds and fetches of an imported program by the names that the ONNX file gives them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from subjects.serving import Serving, ask

import prograd
from prograd_proto import program_pb2 as pb
from prograd_proto.entry_views import SpelledNames
from runtime.__main__ import main

helper = onnx.helper
FLOAT = onnx.TensorProto.FLOAT

IN, OTHER, OUT, PLAIN = "serving_default_input:0", "x/y", "StatefulPartitionedCall:0", "input.1"
ROWS = np.arange(256, dtype=np.float32).reshape(4, 64) / 64


def model(inputs: list[str], outputs: list[str]) -> Any:
    """Return a model that doubles each input."""
    nodes = [helper.make_node("Add", [x, x], [y]) for x, y in zip(inputs, outputs, strict=True)]
    values = [
        [helper.make_tensor_value_info(name, FLOAT, ["batch", 64]) for name in names] for names in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    prograd.from_onnx(model([IN, OTHER], [OUT, PLAIN])).compile(batch=4).save("p.pb")
    np.save("x.npy", ROWS)
    np.save("y.npy", -ROWS)
    return tmp_path


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_library_takes_the_names_of_the_file(here: Path, engine: str):
    run = prograd.load("p.pb", engine=engine)
    given = {IN: ROWS, OTHER: -ROWS}
    for found in (run.predict(given), run.step(given, entry="predict"), run.predict({IN: ROWS, "x_y": -ROWS})):
        np.testing.assert_array_equal(found[OUT], 2 * ROWS)
        np.testing.assert_array_equal(found["StatefulPartitionedCall_0"], 2 * ROWS)
        np.testing.assert_array_equal(found[PLAIN], -2 * ROWS)
    with pytest.raises(KeyError, match="nothing was fetched as 'StatefulPartitionedCall:1'"):
        run.predict(given)["StatefulPartitionedCall:1"]
    assert OUT in run.step(given, entry="predict", fetch=[OUT]).keys() | {OUT}
    with pytest.raises(prograd.DataError) as caught:
        run.predict({OTHER: ROWS, "x_y": ROWS, IN: ROWS})
    assert str(caught.value) == "'x_y' is given twice, also as 'x/y'; give it by one name"


def test_the_command_takes_the_names_of_the_file(here: Path, capsys: pytest.CaptureFixture[str]):
    words = ["execute", "p.pb", "--entry", "predict", "-q", "--feed", f"{IN}=@x.npy", "--feed", f"{OTHER}=@y.npy"]
    assert main([*words, "--fetch", f"{OUT}=@o.npy", "--expect", f"{OUT}=@x.npy"]) == 1
    np.testing.assert_array_equal(np.load("o.npy"), 2 * ROWS)
    assert "'StatefulPartitionedCall_0' differs from x.npy" in capsys.readouterr().err
    assert main([*words, "--fetch", OUT, "--fetch", PLAIN]) == 0
    out = capsys.readouterr().out
    assert out.index("StatefulPartitionedCall_0: float32[4, 64]") < out.index("input.1: float32[4, 64]")
    assert main([*words, "--out", "o.csv", "--fetch", OUT]) == 0
    assert Path("o.csv").read_text().startswith("row,StatefulPartitionedCall_0")
    assert main(["profile", "p.pb", "--entry", "predict", "--steps", "1", *words[5:]]) == 0
    assert main([*words, "--feed", "x_y=@x.npy"]) == 4
    assert capsys.readouterr().err == "runtime: 'x_y' is given twice, also as 'x/y'; give it by one name\n"


@pytest.mark.parametrize("rows", [4, 2000])
def test_the_server_takes_the_names_of_the_file(here: Path, rows: int):
    x = np.tile(ROWS, (rows // 4, 1))
    body = json.dumps({IN: x.tolist(), OTHER: x.tolist()}).encode()
    with Serving(prograd.load("p.pb", engine="reference"), body=1 << 24) as serving:
        status, _, answer = ask(serving.port, body, query=f"?fetch={OUT}")
    assert status == 200, answer
    np.testing.assert_array_equal(json.loads(answer)["StatefulPartitionedCall_0"], 2 * x)


def test_training_takes_the_names_of_the_file(tmp_path: Path):
    program = prograd.from_onnx(model([IN], [OUT]))
    w = program.parameter("w", (64, 1))
    target = program.input("target", "float32", ("batch", 1))
    y = prograd.ops.matmul(program.tensor("StatefulPartitionedCall_0"), w)
    program.minimize(prograd.ops.mean((y - target) ** 2.0), prograd.sgd(0.01))
    run = prograd.Run(program.compile(batch=4))
    data = {IN: ROWS, "target": np.ones((4, 1), np.float32)}
    run.train(data=data, validation_data=data, epochs=1, progress=False)
    assert run.position.steps == 1
    assert run.evaluate(data)["loss"] > 0


@pytest.mark.parametrize(
    ("inputs", "own"),
    [
        (["x/y", "x_y"], ["x_y_", "x_y"]),
        (["x_y", "x/y"], ["x_y", "x_y_"]),
        (["x/y", "x:y"], ["x_y", "x_y_"]),
    ],
)
def test_names_that_differ_in_signs_only_stay_apart(inputs: list[str], own: list[str], tmp_path: Path):
    compiled = prograd.from_onnx(model(inputs, ["a", "b"])).compile(batch=4)
    run = prograd.Run(compiled, engine="reference")
    assert list(run.entries["predict"].feeds) == own
    found = run.predict({inputs[0]: ROWS, inputs[1]: -ROWS})
    np.testing.assert_array_equal(found["a"], 2 * ROWS)
    np.testing.assert_array_equal(found["b"], -2 * ROWS)
    assert [value.name for value in prograd.to_onnx(compiled).graph.input] == inputs


def test_a_spelling_of_two_names_or_of_another_name_means_nothing_else():
    program = pb.ProgramDesc()
    block = program.blocks.add()
    block.parameters.extend(pb.ParameterDesc(tensor=name, feed=name) for name in ("a", "b", "c", "d"))
    texts = {"name a": "s", "name b": "s", "name c": "d", "name nobody": "t", "doc": "u", "name d": "v"}
    program.model.extend(pb.ModelText(key=key, text=text) for key, text in texts.items())
    names = SpelledNames(program)
    assert [names.own(name) for name in ("s", "d", "t", "u", "v")] == ["s", "d", "t", "u", "d"]
