"""Programs whose products multiply integers of eight bits: ranges of rows, the report, both engines, errors."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import prograd
from compiler.__main__ import main as compiler
from prograd import OpError, Program, layers, ops, sgd
from runtime.__main__ import main as runtime

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(4)
CENTRES = RNG.normal(0, 1, (4, 8, 8, 3)).astype("f4")
LABELS = np.arange(96) % 4
ROWS = {"image": CENTRES[LABELS] + RNG.normal(0, 1.5, (96, 8, 8, 3)).astype("f4"), "label": LABELS}

IMAGES = {"image": ROWS["image"]}


def net(*, training: bool = True) -> Program:
    program = Program("net", seed=1)
    image, label = program.input("image", "float32", ("batch", 8, 8, 3)), program.input("label", "int64", ("batch",))
    x = ops.relu(layers.batch_norm(layers.conv(image, "first", 16), "norm"))
    x = ops.relu(layers.conv(x, "deep", 16, groups=16))
    x = ops.reshape(ops.max_pool2d(x, window=2, stride=2), shape=("batch", 256))
    logits = layers.dense(ops.relu(layers.dense(x, "hidden", 32)), "head", 4)
    loss = ops.softmax_cross_entropy(logits, label)
    if training:
        program.minimize(loss, sgd(0.1))
        program.metrics(accuracy=ops.accuracy(logits, label))
        program.data("rows.safetensors", splits={"train": slice(0, 64), "test": slice(64, 96)})
        program.training(epochs=12, evaluate="test")
    program.outputs(logits=logits)
    return program


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("int8")
    save_file(ROWS, str(folder / "rows.safetensors"))
    program = net()
    program.rows_folder = ""
    program.compile(batch=32, folder=folder).save(folder / "net.pb")
    run = prograd.load(folder / "net.pb")
    run.train()
    run.save(folder / "t.safetensors")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in trained.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)


COMMAND = "compiler quantize net.pb --load t.safetensors --data rows.safetensors --split train --keep head -o small.pb"


def run_command(*more: str) -> int:
    return compiler([*COMMAND.split()[1:], *more])


def test_the_command_of_the_page_writes_integers_and_tells_what_is_lost(capsys: pytest.CaptureFixture[str]):
    assert f"    $ {COMMAND}\n" in (ROOT / "docs/int8.md").read_text(encoding="utf-8")
    assert run_command() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["weight", "operand", "error"]
    assert [line.split()[0] for line in lines[1:4]] == ["first.w", "deep.w", "hidden.w"]
    assert all(0 < float(line.split()[-1].removesuffix("%")) < 3 for line in lines[1:4])
    assert [re.sub(r"[\d.]+", "N", line) for line in lines[4:6]] == [
        "loss: N before, N after",
        "accuracy: N before, N after",
    ]
    small = prograd.load("small.pb")
    assert "train" not in small.entries
    assert small.state["first.w.codes"].dtype == np.uint8
    assert "first.w" not in small.state
    assert "head.w" in small.state


@pytest.mark.parametrize("form", [["--weights", "q8_0"], []], ids=["q8_0", "int8"])
def test_what_is_quantised_is_evaluated_on_the_rows_that_the_training_was(
    form: list[str], capsys: pytest.CaptureFixture[str]
):
    """Without a split, neither a run nor the entry by its name may count the rows that it was trained on."""
    words = ["quantize", "net.pb", "--load", "t.safetensors", *form, "-o", "small.pb"]
    assert (compiler(words) if form else run_command()) == 0
    small = prograd.load("small.pb")
    assert small.evaluate() == small.evaluate("test")
    assert small.evaluate()["loss"] != small.evaluate("train")["loss"]
    capsys.readouterr()
    for entry in ([], ["--entry", "evaluate"]):
        assert runtime(["execute", "small.pb", "-q", *entry]) == 0
        assert f"entry=evaluate steps=1 loss={small.evaluate()['loss']:.6g} " in capsys.readouterr().out
    with pytest.raises(prograd.UsageError, match="there is nothing to train"):
        small.train()


def tied() -> Program:
    """Words whose scores are products with the transpose of their embeddings."""
    program = Program("tied", seed=2)
    word = program.input("word", "int64", ("batch",))
    table = program.parameter("table", (20, 16), initial=prograd.normal(1.0))
    x = ops.relu(layers.dense(ops.gather(table, word), "hidden", 16))
    program.outputs(scores=ops.matmul(x, table, transpose_b=True), rows=ops.gather(table, word))
    return program


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_weight_that_is_read_transposed_has_a_scale_for_each_row(engine: Any):
    rows = {"word": np.arange(20)}
    whole = prograd.Run(tied().compile(batch=20), engine=engine)
    before, table = whole.predict(rows), np.array(whole.state["table"])
    program = tied()
    program.quantize("int8", run=whole, rows=rows)
    small = prograd.Run(program.compile(batch=20), engine=engine)
    scales = np.abs(table).max(1, keepdims=True) / np.float32(127)
    np.testing.assert_array_equal(small.state["table.scales"], scales)
    codes = np.rint(table / scales)
    np.testing.assert_array_equal(small.state["table.codes"], (codes + 128).astype("u1"))
    after = small.predict(rows)
    np.testing.assert_array_equal(after["rows"], codes.astype("f4") * scales)
    assert [op.type for op in program.block.desc.ops].count("integer_matmul") == 2
    apart = np.abs(after["scores"] - before["scores"]).max()
    assert 0 < apart < 0.03 * np.abs(before["scores"]).max()


def test_a_weight_that_is_read_both_ways_has_integers_where_columns_are_results():
    program = Program("both", seed=2)
    x = program.input("x", "float32", ("batch", 16))
    w = program.parameter("w", (16, 16), initial=prograd.normal(1.0))
    program.outputs(y=ops.matmul(ops.matmul(x, w), w, transpose_b=True))
    run = prograd.Run(program.compile(batch=8))
    again = Program("both", seed=2)
    x = again.input("x", "float32", ("batch", 16))
    w = again.parameter("w", (16, 16), initial=prograd.normal(1.0))
    again.outputs(y=ops.matmul(ops.matmul(x, w), w, transpose_b=True))
    again.quantize("int8", run=run, rows={"x": RNG.normal(size=(8, 16)).astype("f4")})
    kinds = [op.type for op in again.block.desc.ops]
    assert kinds.count("integer_matmul") == kinds.count("matmul") == 1


def test_codes_and_ranges_are_these():
    run = prograd.load("net.pb")
    run.load("t.safetensors")
    assert run_command() == 0
    w, small = np.array(run.state["deep.w"]), prograd.load("small.pb").state
    scales = np.abs(w).reshape(-1, 16).max(0) / np.float32(127)
    np.testing.assert_array_equal(small["deep.w.scales"], scales)
    np.testing.assert_array_equal(small["deep.w.codes"], np.rint(w / scales) + 128)
    x = ROWS["image"][:64]
    scale = (x.max() - x.min()) / np.float32(255)
    assert float(small["first.w.input_scale"]) == scale
    assert int(small["first.w.input_zero"]) == np.rint(-x.min() / scale)


def test_both_engines_predict_and_evaluate_alike_and_near_the_floats():
    before = prograd.load("net.pb")
    before.load("t.safetensors")
    assert run_command() == 0
    logits = [prograd.load("small.pb", engine=engine).predict(IMAGES)["logits"] for engine in ("reference", "native")]
    near = np.abs(logits[0] - before.predict(IMAGES)["logits"]).max()
    assert 0 < near < 0.1
    assert np.abs(logits[0] - logits[1]).max() < 1e-5
    metrics = prograd.load("small.pb", data="rows.safetensors").evaluate("test")
    assert abs(metrics["accuracy"] - before.evaluate("test")["accuracy"]) < 0.1


def test_a_percentile_makes_ranges_narrower():
    assert run_command() == 0
    assert run_command("--percentile", "99", "-o", "narrow.pb") == 0
    wide, narrow = (prograd.load(name).state["first.w.input_scale"] for name in ("small.pb", "narrow.pb"))
    assert 0.5 * wide < narrow < 0.95 * wide


def test_python_quantises_arrays_and_other_readers_get_the_numbers():
    program = Program("tied", seed=2)
    x = program.input("x", "float32", ("batch", 16))
    w = program.parameter("w", (16, 16))
    program.outputs(y=ops.matmul(ops.matmul(x, w), w, transpose_b=True))
    compiled = program.compile(batch=8)
    rows = {"x": RNG.normal(size=(8, 16)).astype("f4")}
    run = prograd.Run(compiled)
    wanted = run.predict(rows)["y"]
    assert program.quantize("int8", run=run, rows=rows) == ["w"]
    small = prograd.Run(program.compile(batch=8))
    found = small.predict(rows)["y"]
    assert 0 < np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    state = {name: np.array(small.state[name]) for name in ("w.codes", "w.scales", "w.input_scale", "w.input_zero")}
    weight = (state["w.codes"].astype("f4") - 128) * state["w.scales"]
    codes = np.clip(np.rint(rows["x"] / state["w.input_scale"]) + state["w.input_zero"], 0, 255)
    numbers = (codes - state["w.input_zero"]).astype("f4") * state["w.input_scale"]
    np.testing.assert_allclose(found, numbers @ weight @ weight.T, rtol=1e-4, atol=1e-4)


def test_maxima_before_a_product_are_those_of_codes():
    assert run_command() == 0
    desc = prograd.load("small.pb").program
    entry = next(entry for entry in desc.entries if entry.name == "predict")
    block = desc.blocks[entry.source_block]
    types = {tensor.name: tensor.dtype for tensor in block.tensors}
    makers = {op.outputs[0]: op for op in block.ops}
    product = next(op for op in block.ops if op.type == "integer_matmul")
    pool = makers[makers[product.inputs[0]].inputs[0]]
    assert (pool.type, makers[pool.inputs[0]].type) == ("max_pool2d", "quantize_linear")
    assert types[pool.outputs[0]] == types[product.inputs[0]]
    assert sum(op.type == "quantize_linear" for op in block.ops) == 3


def test_an_exported_model_has_pairs_around_products():
    onnx = pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    from exporting.test_to_onnx import computed  # needs ONNX

    assert run_command() == 0
    assert compiler(["export", "small.pb", "--entry", "predict", "-o", "small.onnx"]) == 0
    model = onnx.load("small.onnx")
    kinds = [node.op_type for node in model.graph.node]
    names = ("Conv", "MatMul", "QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger")
    assert [kinds.count(name) for name in names] == [2, 1, 3, 6, 0, 0]
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        if node.op_type in ("Conv", "MatMul"):
            x, w = (makers[name] for name in node.input[:2])
            assert (x.op_type, w.op_type) == ("DequantizeLinear", "DequantizeLinear")
            codes = makers[x.input[0]]
            while codes.op_type in ("Transpose", "Reshape", "MaxPool"):
                codes = makers[codes.input[0]]
            assert codes.op_type == "QuantizeLinear"
        assert node.op_type != "Conv" or len(node.input) == 3  # with its bias, which runtimes round to int32
    weights = [tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.UINT8]
    assert sorted(tuple(tensor.dims) for tensor in weights if len(tensor.dims) > 1)[0] == (16, 1, 3, 3)
    found = computed(model, {"image": ROWS["image"][:32]})["logits"]
    wanted = prograd.load("small.pb").predict({"image": ROWS["image"][:32]})["logits"]
    apart = np.abs(found - wanted)
    assert np.median(apart) < 1e-4
    assert apart.max() < 0.03  # a rounded bias may turn the rounding of a code, and these are a hundredth or less


def test_what_was_exported_is_imported_in_integers_with_the_same_bits(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("onnx", reason='needs ONNX: pip install ".[onnx]"')
    assert run_command() == 0
    assert compiler(["export", "small.pb", "--entry", "predict", "-o", "small.onnx"]) == 0
    capsys.readouterr()
    assert compiler(["import", "onnx", "small.onnx", "--integers", "--bind", "batch=32", "-o", "again.pb"]) == 0
    assert "note: products and convolutions in integers: 3;" in capsys.readouterr().err
    rows = {"image": ROWS["image"][:32]}
    for engine in ("reference", "native"):
        found, wanted = (prograd.load(name, engine=engine).predict(rows)["logits"] for name in ("again.pb", "small.pb"))
        np.testing.assert_array_equal(found, wanted)


def refused(program: Program, **options: Any) -> str:
    run = prograd.Run(program.compile(batch=8))
    with pytest.raises(OpError) as caught:
        program.quantize("int8", **({"run": run} | options))
    return re.sub(r"^test_int8.py:\d+: ", "", str(caught.value))


def small_net(rank: int = 2) -> tuple[Program, dict[str, np.ndarray]]:
    program = Program("net")
    x = program.input("x", "float32", ("batch", 4))
    w = program.parameter("w", (4, 4))
    program.outputs(y=ops.matmul(x, w) if rank == 2 else ops.sum(x) + ops.sum(w))
    return program, {"x": np.ones((8, 4), "f4")}


def test_what_has_no_scale_is_refused():
    program, rows = small_net()
    assert refused(program, rows={"x": rows["x"] * 0}) == (
        "quantize: the operand that w multiplies is 0 in all of these rows, so its scale would be 0; give rows that "
        "reach it, or leave it as it is by keep='w'"
    )
    program, rows = small_net()
    assert refused(program, rows={"x": rows["x"] * np.float32("inf")}) == (
        "quantize: the operand that w multiplies has NaN or infinities in these rows; keep='w' leaves it as it is"
    )


def test_what_cannot_be_quantised_is_refused():
    program, rows = small_net(3)
    assert refused(program, rows=rows) == (
        "quantize: no matmul and no conv2d reads a parameter of float32; there is nothing to do"
    )
    program, rows = small_net()
    assert refused(program, rows=rows, keep=["v"]) == "quantize: keep='v' matches no parameter"
    assert refused(program, run=None, rows=rows) == (
        "quantize: 'int8' needs the ranges of operands over rows; give run=prograd.load(...) and rows"
    )
    assert refused(program, rows=rows, percentile=12) == "quantize: percentile=12 is not above 50 and at most 100"


def test_options_of_int8_beside_another_form_are_refused(capsys: pytest.CaptureFixture[str]):
    assert run_command("--weights", "q8_0") == 2
    said = "compiler: --data is for --weights int8, and not for q8_0; leave one of them out\n"
    assert capsys.readouterr().err == said


def test_files_are_smaller():
    assert run_command() == 0
    small, whole = (
        sum(x.nbytes for x in load_file(f).values()) for f in ("small.weights.safetensors", "t.safetensors")
    )
    assert small < 0.35 * whole
