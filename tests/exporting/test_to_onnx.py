"""Programs as ONNX models: the numbers of ONNX Runtime beside those of both engines, names, sizes and refusals."""

# pyright: basic
# Lambdas of loops have no types.

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import prograd
from compiler.__main__ import main
from prograd import Program, adam, layers, ops, uniform
from prograd_proto.identity import program_sha256
from prograd_proto.wording import install_hint
from runtime.errors import DataError

ENGINES = ("reference", "native")


def computed(model: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of a model by ONNX Runtime, or by the evaluator of onnx where that is not installed."""
    session: Any
    try:
        runtime: Any = import_module("onnxruntime")
    except ModuleNotFoundError:
        session = import_module("onnx.reference").ReferenceEvaluator(model)
    else:
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in model.graph.output], session.run(None, feeds), strict=True))


def agree(program: Program, feeds: dict[str, np.ndarray], tolerance: float = 1e-5, **options: Any) -> Any:
    """Compare a model with both engines, for the rows of the feeds; return the model."""
    model = prograd.to_onnx(program, **options)
    found = computed(model, feeds)
    sizes: dict[str, Any] = {symbol: len(next(iter(feeds.values()))) for symbol in program.symbols}
    compiled = program.compile(**sizes)
    for engine in ENGINES:
        wanted = prograd.Run(compiled, engine=engine).step(feeds, entry="predict")
        for name, array in found.items():
            assert array.dtype == wanted[name].dtype
            np.testing.assert_allclose(array, wanted[name], rtol=tolerance, atol=tolerance)
    return model


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def image_net() -> Program:
    program = Program("net", seed=3)
    x = program.input("image", "float32", ("batch", 16, 16, 3))
    x = ops.relu(layers.batch_norm(layers.conv(x, "conv1", 64), "norm1"))
    x = ops.max_pool2d(x, window=2, stride=2)
    x = ops.gelu(layers.conv(x, "conv2", 64))
    x = layers.group_norm(x, "norm2", 8)
    x = ops.flatten(ops.global_avg_pool(x))
    logits = layers.dense(x, "head", 10)
    label = program.input("label", "int64", ("batch",))
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(0.1))
    program.outputs(logits=logits)
    return program


def transformer() -> Program:
    program = Program("text", seed=5)
    codes = program.input("codes", "int64", ("batch", 24))
    x = layers.embedding(codes, "table", 128, 64)
    x = layers.transformer_block(x, "block", 4, causal=True, rotary=True)
    program.outputs(logits=layers.dense(layers.layer_norm(x, "norm"), "head", 128))
    return program


def recurrent(kind: str, **options: Any) -> Program:
    program = Program(kind, seed=6)
    x = program.input("x", "float32", ("batch", 12, 48))
    if kind == "rnn":
        shapes = [(48, 64), (64, 64), (64,), (64,)] * (2 if options else 1)
        weights = [program.parameter(f"w{i}", shape, uniform(-0.2, 0.2)) for i, shape in enumerate(shapes)]
        y, *last = ops.rnn(x, *weights, **options)
    else:
        y, *last = getattr(layers, kind)(x, "layer", 64, **options)
    program.outputs(y=y, **{f"last{i}": v for i, v in enumerate(last)})
    return program


@pytest.mark.sampled(3)
@pytest.mark.parametrize("opset", [13, 17, 18, 20, 21, 23])
def test_a_network_of_images_has_the_same_numbers_in_every_opset(opset: int):
    if opset < 14:  # onnx's evaluator mixes the statistics of the batch into BatchNormalization of version 9
        pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install onnxruntime")
    model = agree(image_net(), {"image": rows(32, 16, 16, 3)}, opset=opset)
    assert model.opset_import[0].version == opset
    assert ("Gelu" in operators(model)) == (opset >= 20)
    assert ("GroupNormalization" in operators(model)) == (opset >= 21)


def test_what_the_builder_spelled_in_several_ops_is_one_node():
    model = prograd.to_onnx(image_net())
    assert operators(model) == [
        *("Transpose", "Conv", "BatchNormalization", "Relu", "MaxPool", "Conv", "Gelu", "GroupNormalization"),
        *("ReduceMean", "Reshape", "Gemm"),
    ]


@pytest.mark.parametrize("opset", [13, 16, 21, 23])
def test_a_transformer_has_the_same_numbers(opset: int):
    codes = np.random.default_rng(1).integers(0, 128, (32, 24))
    model = agree(transformer(), {"codes": codes}, opset=opset)
    assert ("LayerNormalization" in operators(model)) == (opset >= 17)
    assert ("Attention" in operators(model)) == (opset >= 23)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}])
def test_a_recurrent_layer_is_one_node_for_each_direction(kind: str, options: dict[str, Any]):
    model = agree(recurrent(kind, **options), {"x": rows(32, 12, 48)})
    assert operators(model).count(kind.upper()) == (2 if options else 1)
    assert "MatMul" not in operators(model)


def test_names_and_symbols_survive():
    model = prograd.to_onnx(image_net())
    [image], [logits] = model.graph.input, model.graph.output
    assert (image.name, logits.name) == ("image", "logits")
    assert [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim] == ["batch", 16, 16, 3]
    assert [d.dim_param or d.dim_value for d in logits.type.tensor_type.shape.dim] == ["batch", 10]
    names = {tensor.name for tensor in model.graph.initializer}
    assert {"conv1.w", "norm1.scale", "norm1.mean", "conv2.w", "conv2.b", "head.w", "head.b"} <= names
    shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert shapes["conv1.w"] == [64, 3, 3, 3]


def test_dropout_whose_ratio_is_a_setting_is_left_out_of_a_model_also_inside_loops_and_conditions():
    program = Program("ratio", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    ratio = program.setting("ratio", 0.3, least=0.0, below=1.0)
    hidden = layers.dropout(ops.relu(layers.dense(x, "hidden", 128)), ratio)
    scaled = layers.residual(hidden, lambda h: layers.dense(h, "more", 128), dropout=ratio) * program.setting("gain", 2)
    total, _ = ops.scan(lambda c, row: (layers.dropout(c + row, ratio), c), ops.sum(scaled, axis=0) * 0.0, scaled)
    chosen = ops.cond(ops.sum(total) > 0.0, lambda: layers.dropout(scaled, ratio), lambda: scaled - 1.0)
    program.minimize(ops.mean(ops.square(chosen)) + ops.mean(total), adam(program.setting("rate", 1e-2)))
    program.outputs(chosen=chosen, total=total, same=layers.dropout(x, ratio))
    model = agree(program, {"x": rows(32, 64)}, tolerance=1e-4)
    assert "Where" not in operators(model)
    assert not {"ratio", "rate"} & {tensor.name for tensor in model.graph.initializer}
    assert "gain" in {tensor.name for tensor in model.graph.initializer}, "a setting that predictions read is a value"
    run = prograd.Run(program.compile(batch=32), settings={"ratio": 0.9, "gain": 3.0})
    [gain] = [each for each in prograd.to_onnx(run).graph.initializer if each.name == "gain"]
    assert onnx.numpy_helper.to_array(gain) == 3.0, "the value is that of the run"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_bits_are_read_in_another_dtype(dtype: Any):
    program = Program("bits", seed=1)
    x = program.input("x", dtype, ("batch", 64))
    program.outputs(bits=ops.bitcast(x))
    numbers = rows(32, 64) * 1e6
    numbers[0, :3] = (np.nan, np.inf, -np.inf)
    given = numbers.astype(dtype) if dtype.startswith("float") else (rows(32, 64) * 1e6).astype(dtype)
    assert operators(agree(program, {"x": given}, opset=26)) == ["Cast" if dtype == "bool" else "BitCast"]
    if dtype != "bool":
        assert refusal(program).endswith("reads bits in another dtype, which opset 26 brought; export with --opset 26")


def test_sizes_bind_symbols():
    model = prograd.to_onnx(image_net(), sizes={"batch": 4})
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [4, 16, 16, 3]
    assert refusal(image_net(), sizes={"rows": 4}) == "to_onnx: the entry 'predict' has no symbol 'rows'"


def test_a_trained_run_gives_its_weights():
    program = Program("fit")
    x, y = program.input("x", "float32", ("batch", 64)), program.input("y", "float32", ("batch", 8))
    prediction = layers.dense(ops.tanh(layers.dense(x, "hidden", 64)), "out", 8)
    program.minimize(ops.squared_error(prediction, y), adam(1e-2))
    program.outputs(prediction=prediction)
    run = prograd.Run(program.compile(batch=32))
    feeds = {"x": rows(32, 64), "y": rows(32, 8, seed=1)}
    for _ in range(3):
        run.step(feeds)
    model = prograd.to_onnx(run)
    found = computed(model, {"x": feeds["x"]})["prediction"]
    np.testing.assert_allclose(found, run.step({"x": feeds["x"]}, entry="predict")["prediction"], rtol=1e-5, atol=1e-5)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    np.testing.assert_array_equal(weights["hidden.w"], run.state["hidden.w"])


def loops() -> Program:
    program = Program("loops", seed=1)
    x = program.input("x", "float32", ("batch", 64))
    total, steps = ops.scan(lambda c, row: (c + row, ops.tanh(c) * row), ops.sum(x, axis=0) * 0.0, x)
    halved, trips = ops.while_loop(lambda v: ops.sum(v * v) > 1.0, lambda v: v * 0.5, total)
    chosen = ops.cond(ops.sum(total) > 0.0, lambda: x * 2.0, lambda: x - 1.0)
    counted, _ = ops.scan(lambda c, _: (c * 1.5 + 1.0, c), ops.sum(x, axis=0), length=5)
    program.outputs(total=total, steps=steps, halved=halved, trips=trips, chosen=chosen, counted=counted)
    return program


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_conditions_and_loops_are_if_scan_and_loop(sign: float):
    model = agree(loops(), {"x": np.abs(rows(32, 64)) * np.float32(sign)}, tolerance=1e-4)
    assert {"If", "Scan", "Loop"} <= set(operators(model))


def test_large_weights_are_in_a_file_beside_the_model(tmp_path: Path):
    path = tmp_path / "net.onnx"
    prograd.to_onnx(image_net(), path, external=0)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    onnx.checker.check_model(str(path), full_check=True)
    x = rows(32, 16, 16, 3)
    read = onnx.load(path)
    np.testing.assert_array_equal(
        computed(read, {"image": x})["logits"], computed(prograd.to_onnx(image_net()), {"image": x})["logits"]
    )


def test_an_entry_that_trains_is_written_for_viewers():
    model = prograd.to_onnx(image_net(), entry="train", view=True)
    onnx.checker.check_model(model)
    assert {node.domain for node in model.graph.node} <= {"prograd", ""}
    assert {"conv2d_filter_gradient", "adam"} <= set(operators(model))
    assert "head.w.next" in [result.name for result in model.graph.output]


def refusal(program: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(prograd.CompileError) as error:
        prograd.to_onnx(program, *arguments, **options)
    return str(error.value)


def test_what_onnx_lacks_is_told_at_once():
    program = Program("lacking")
    x = program.input("x", "float32", ("batch", 8, 8))
    program.outputs(a=ops.lgamma(x), b=ops.digamma(x) + ops.lgamma(x + 1.0), c=ops.cholesky(x))
    told = refusal(program)
    assert told.startswith("to_onnx: 3 operators cannot be exported: lgamma, used 2 times, first as lgamma_1 at ")
    assert told.count("has no counterpart in ONNX") == 3


def test_wrong_requests_are_refused(tmp_path: Path):
    newest = onnx.defs.onnx_opset_version()
    program = image_net()
    wanted = f"to_onnx: opset 12 cannot be written; opsets 13 to {newest} can, with this onnx"
    assert refusal(program, opset=12) == wanted
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnx", None)
        assert refusal(program) == f"to_onnx needs the package onnx: {install_hint('onnx')}"
    assert refusal(program, entry="predicts") == "to_onnx: there is no entry 'predicts'; did you mean 'predict'?"
    assert refusal(7) == "to_onnx: a program is a path, a Program, what compile returned, or a Run, not int"
    path = tmp_path / "net.onnx"
    path.write_bytes(b"mine")
    with pytest.raises(prograd.UsageError) as error:
        prograd.to_onnx(program, path)
    assert str(error.value) == f"{path}: the file exists; force=True, or --force, replaces it"
    assert path.read_bytes() == b"mine"
    with pytest.raises(DataError) as unwritable:
        prograd.to_onnx(program, tmp_path / "absent" / "net.onnx")
    wanted = f"{tmp_path}/absent/net.onnx: the file cannot be written: No such file or directory"
    assert str(unwritable.value) == wanted


def imported() -> Any:
    """A model as files of TensorFlow and Paddle are: with colons and slashes in names."""
    make, rng = onnx.helper, np.random.default_rng(3)
    weights = {"w/read:0": rng.normal(0, 0.2, (8, 3, 3, 3)), "head": rng.normal(0, 0.2, (8, 10))}
    nodes = [
        make.make_node("Conv", ["input:0", "w/read:0"], ["a"], pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["a"], ["b"]),
        make.make_node("GlobalAveragePool", ["b"], ["c"]),
        make.make_node("Flatten", ["c"], ["d"]),
        make.make_node("MatMul", ["d", "head"], ["out/logits:0"]),
    ]
    given = [make.make_tensor_value_info("input:0", 1, ("batch size", 3, 16, 16))]
    results = [make.make_tensor_value_info("out/logits:0", 1, None)]
    values = [onnx.numpy_helper.from_array(v.astype(np.float32), name) for name, v in weights.items()]
    model = make.make_model(make.make_graph(nodes, "net", given, results, values), ir_version=9)
    model.opset_import[0].version = 17
    onnx.helper.set_model_props(model, {"author": "me"})
    return model


def test_an_imported_file_gives_its_names_its_layout_and_its_metadata_back():
    first = imported()
    first.doc_string, first.producer_name = "classes of pictures", "tf2onnx"
    program = prograd.from_onnx(first)
    second = prograd.to_onnx(program)
    assert [value.name for value in (*second.graph.input, *second.graph.output)] == ["input:0", "out/logits:0"]
    assert second.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch size"
    weights = {tensor.name: tensor for tensor in second.graph.initializer}
    for tensor in first.graph.initializer:
        wanted = onnx.numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(weights[tensor.name]), wanted)
    assert "Transpose" not in operators(second)
    metadata = {each.key: each.value for each in second.metadata_props}
    assert (metadata["author"], metadata["prograd.imported_from"]) == ("me", "tf2onnx")
    assert (second.doc_string, second.graph.name) == ("classes of pictures", "net")
    onnx.checker.check_model(second, full_check=True)
    x = rows(32, 3, 16, 16)
    np.testing.assert_allclose(
        *(computed(model, {"input:0": x})["out/logits:0"] for model in (first, second)), rtol=1e-5, atol=1e-6
    )


def test_texts_of_an_imported_file_survive_files_and_training_and_change_no_hash(tmp_path: Path):
    first = imported()
    first.doc_string = "classes of pictures"
    program = prograd.from_onnx(first)
    label = program.input("label", "int64", ("batch_size",))
    program.minimize(prograd.ops.softmax_cross_entropy(program[program.outputs_of_module[0]], label), prograd.sgd(0.1))
    compiled = program.compile(batch_size=8)
    compiled.save(tmp_path / "tune.pb")
    bare = prograd.Program.load(tmp_path / "tune.pb")
    bare.texts_of_model.clear()
    assert program_sha256(bare.compile(batch_size=8).desc) == program_sha256(compiled.desc)
    run = prograd.load(tmp_path / "tune.pb")
    run.step({"input_0": rows(8, 3, 16, 16), "label": np.zeros(8, np.int64)})
    second = prograd.to_onnx(run)
    assert [value.name for value in (*second.graph.input, *second.graph.output)] == ["input:0", "out/logits:0"]
    assert second.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch size"
    assert second.doc_string == "classes of pictures"


def test_raw_columns_are_encoded_by_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["age,income,city,species"]
    for i in range(64):
        lines.append(
            f"{'' if i == 5 else rng.integers(20, 60)},{rng.uniform(0, 9):.3f},{('Rome', 'Oslo')[i % 2]},{i % 3}"
        )
    Path("people.csv").write_text("\n".join(lines))
    options = ["--join", "x=age,income,city", "--one-hot", "city", "--log", "income", "--standardise", "age,income"]
    words = [
        "data",
        "pack",
        "people.csv",
        "-o",
        "rows.safetensors",
        *options,
        "--missing",
        "age=mean",
        "--indicate",
        "age",
        "--class",
        "species",
    ]
    assert main(words) == 0
    program = Program("people", seed=1)
    x, species = program.input("x", "float32", ("batch", 5)), program.input("species", "int64", ("batch",))
    logits = layers.dense(ops.tanh(layers.dense(x, "hidden", 64)), "out", 3)
    program.minimize(ops.softmax_cross_entropy(logits, species), adam(0.1))
    program.outputs(logits=logits)
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.training(epochs=1)
    program.compile(batch=32).save("people.pb")
    model = prograd.to_onnx("people.pb", raw=True)
    assert [value.name for value in model.graph.input] == ["age", "income", "city"]
    rows_of_csv = [line.split(",") for line in lines[1:33]]
    raw = {
        "age": np.array([[float(row[0] or "nan")] for row in rows_of_csv], np.float32),
        "income": np.array([[float(row[1])] for row in rows_of_csv], np.float32),
        "city": np.array([[row[2]] for row in rows_of_csv], object),
    }
    packed = load_file("rows.safetensors")["x"][:32]
    wanted = prograd.load("people.pb").step({"x": packed}, entry="predict")["logits"]
    np.testing.assert_allclose(computed(model, raw)["logits"], wanted, rtol=1e-4, atol=1e-5)
    assert refusal(image_net(), raw=True) == (
        "to_onnx: the program knows no encoding of columns; only packed tables bring one"
    )


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("missing", [{}, {"city": "most"}])
def test_a_class_that_training_rows_lack_is_refused_by_a_raw_model_or_taken_as_a_warning_says(
    missing: dict[str, str],
    one_hot: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.chdir(tmp_path)
    cities = ["Oslo", "Rome", "Rome"] * 11
    prograd.data.pack({"city": cities}, "rows.safetensors", missing=missing, one_hot=["city"] if one_hot else [])
    program = Program("cities")
    if one_hot:
        city = program.input("city", "float32", ("batch", 2))
        program.outputs(y=layers.dense(city, "out", 4))
    else:
        city = program.input("city", "int64", ("batch",))
        program.outputs(y=ops.gather(program.parameter("table", (2, 64), uniform(-1, 1)), city))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=1).save("cities.pb")
    model = prograd.to_onnx("cities.pb", raw=True)
    known = computed(model, {"city": np.array([[city] for city in cities[:32]], object)})["y"]
    wanted = prograd.load("cities.pb").predict({"city": load_file("rows.safetensors")["city"][:32]})["y"]
    np.testing.assert_allclose(known, wanted, rtol=1e-5, atol=1e-6)
    told = [record.getMessage() for record in caplog.records if "training rows lack" in record.getMessage()]
    unknown = {"city": np.array([["Oslo"], ["Bern"]], object)}
    if missing:
        np.testing.assert_allclose(computed(model, unknown)["y"], wanted[:2], rtol=1e-5, atol=1e-6)
        assert told == [
            "the model takes any city that the training rows lack for 'Rome', and does not say so; runs of prograd "
            "count such values in a warning"
        ]
    else:
        with pytest.raises(Exception, match=r"out of bounds|out of data bounds"):
            computed(model, unknown)
        assert told == []


def test_booleans_that_are_numbers_cannot_be_raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    prograd.data.pack({"flag": [True, False], "age": [1, 2]}, "rows.safetensors", join={"x": ["flag", "age"]})
    program = Program("flags")
    x = program.input("x", "float32", ("batch", 2))
    program.outputs(y=layers.dense(x, "out", 1))
    program.data("rows.safetensors", shuffle=False, remainder="drop")
    program.compile(batch=1).save("flags.pb")
    assert refusal("flags.pb", raw=True) == (
        "to_onnx: the column 'flag' is encoded as a boolean, which ONNX cannot say; leave out raw=True"
    )
