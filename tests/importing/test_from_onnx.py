"""ONNX files as programs: values by hand-written NumPy, on both engines, and refusals word for word."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import prograd
from prograd import ops

helper, FLOAT, INT64 = onnx.helper, 1, 7
RNG = np.random.default_rng(7)


def drawn(*shape: int) -> Any:
    return RNG.normal(0, 0.2, shape).astype(np.float32)


def model(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: dict[str, Any], opset: int = 17
) -> Any:
    """Return a model of nodes; the inputs are floats of these shapes."""
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def predicted(program: Any, engine: Any, sizes: dict[str, int], **feeds: Any) -> Any:
    return prograd.Run(program.compile(**sizes), engine=engine).step(feeds, entry="predict")


MLP = {"fc1.weight": drawn(128, 64), "fc1.bias": drawn(128), "fc2.weight": drawn(10, 128), "fc2.bias": drawn(10)}


def mlp() -> Any:
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
    ]
    return model(nodes, {"x": ("batch", 64)}, ["logits"], MLP)


def by_hand(x: Any, w: dict[str, Any]) -> Any:
    return np.maximum(x @ w["fc1.weight"].T + w["fc1.bias"], 0) @ w["fc2.weight"].T + w["fc2.bias"]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_perceptron_predicts_under_the_names_of_the_file(engine: Any):
    program = prograd.from_onnx(mlp())
    x = drawn(32, 64)
    found = predicted(program, engine, {"batch": 32}, x=x)["logits"]
    np.testing.assert_allclose(found, by_hand(x, MLP), rtol=1e-4, atol=1e-5)
    assert program["logits"].shape == ("batch", 10)
    assert [(t.name, t.trained) for t in program.tensors_of_file] == [(name, True) for name in MLP]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_step_of_training_follows_the_gradient(engine: Any):
    program = prograd.from_onnx(mlp())
    target = program.input("target", "float32", ("batch", 10))
    program.minimize(ops.mean(ops.square(program["logits"] - target)), prograd.sgd(0.5))
    run = prograd.Run(program.compile(batch=32), engine=engine)
    x, t = drawn(32, 64), drawn(32, 10)
    run.step({"x": x, "target": t})
    hidden = np.maximum(x @ MLP["fc1.weight"].T + MLP["fc1.bias"], 0)
    dy = 2 * (by_hand(x, MLP) - t) / t.size
    dh = (dy @ MLP["fc2.weight"]) * (hidden > 0)
    for name, gradient in {"fc2.weight": dy.T @ hidden, "fc2.bias": dy.sum(0), "fc1.weight": dh.T @ x}.items():
        np.testing.assert_allclose(run.state[name], MLP[name] - 0.5 * gradient, rtol=1e-4, atol=1e-6)


def correlated(x: Any, w: Any) -> Any:
    """Return a convolution with a padding of 1, by a loop over the taps."""
    n, _, rows, columns = x.shape
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = np.zeros((n, w.shape[0], rows, columns), np.float64)
    for i in range(3):
        for j in range(3):
            y += np.einsum("nchw,oc->nohw", wide[:, :, i : i + rows, j : j + columns], w[:, :, i, j])
    return y


CNN = {
    "conv.weight": drawn(16, 3, 3, 3),
    "bn.weight": 1 + drawn(16),
    "bn.bias": drawn(16),
    "bn.running_mean": drawn(16),
    "bn.running_var": 1 + np.abs(drawn(16)),
}


def cnn() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", *list(CNN)[1:]], ["b"], momentum=0.75),
        helper.make_node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["features"]),
    ]
    return model(nodes, {"x": ("batch", 3, 16, 16)}, ["features"], CNN)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_images_keep_their_channels_first_outside(engine: Any):
    x = drawn(32, 3, 16, 16)
    y = correlated(x, CNN["conv.weight"])
    mean, variance = (CNN[f"bn.running_{name}"][:, None, None] for name in ("mean", "var"))
    y = (y - mean) / np.sqrt(variance + 1e-5) * CNN["bn.weight"][:, None, None] + CNN["bn.bias"][:, None, None]
    wanted = y.reshape(32, 16, 8, 2, 8, 2).max((3, 5)).mean((2, 3))
    found = predicted(prograd.from_onnx(cnn()), engine, {"batch": 32}, x=x)["features"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_running_statistics_follow_the_batches_of_training():
    program = prograd.from_onnx(cnn())
    program.minimize(ops.mean(ops.square(program["features"])), prograd.sgd(0.1))
    run = prograd.Run(program.compile(batch=32))
    x = drawn(32, 3, 16, 16)
    run.step({"x": x})
    wanted = 0.75 * CNN["bn.running_mean"] + 0.25 * correlated(x, CNN["conv.weight"]).mean((0, 2, 3))
    np.testing.assert_allclose(run.state["bn.running_mean"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_shapes_that_a_graph_computes_keep_the_symbol(engine: Any):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["y"], perm=[0, 2, 1]),
    ]
    weights = {"zero": np.array([0]), "rest": np.array([4, 16])}
    program = prograd.from_onnx(model(nodes, {"x": ("batch", 64)}, ["y"], weights))
    x = drawn(32, 64)
    assert program["y"].shape == ("batch", 16, 4)
    wanted = x.reshape(32, 4, 16).transpose(0, 2, 1)
    np.testing.assert_array_equal(predicted(program, engine, {"batch": 32}, x=x)["y"], wanted)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_an_lstm_has_its_gates_in_the_order_of_onnx(engine: Any):
    w, r, b = drawn(1, 256, 64), drawn(1, 256, 64), drawn(1, 512)
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=64)]
    x = drawn(5, 32, 64)
    h = c = np.zeros((32, 64))
    for t in range(5):
        z = x[t] @ w[0].T + h @ r[0].T + b[0, :256] + b[0, 256:]
        i, o, f = np.split(1 / (1 + np.exp(-z[:, :192])), 3, axis=1)
        c = f * c + i * np.tanh(z[:, 192:])
        h = o * np.tanh(c)
    program = prograd.from_onnx(model(nodes, {"x": (5, "batch", 64)}, ["y", "h", "c"], {"w": w, "r": r, "b": b}))
    found = predicted(program, engine, {"batch": 32}, x=x)
    np.testing.assert_allclose(found["h"][0], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["c"][0], c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["y"][4, 0], h, rtol=1e-4, atol=1e-5)


def test_constants_are_no_parameters_and_rearranged_weights_are():
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["s"]),
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["s", "t"], ["y"]),
    ]
    weights = {"scale": np.float32(0.125), "w": drawn(8, 64)}
    program = prograd.from_onnx(model(nodes, {"x": (32, 64)}, ["y"], weights))
    assert [t.name for t in program.tensors_of_file] == ["w"]


def test_all_that_is_in_the_way_is_told_at_once():
    nodes = [
        helper.make_node("Multinomial", ["x"], ["a"], name="draw", sample_size=2),
        helper.make_node("RandomNormalLike", ["x"], ["b"], name="noise"),
    ]
    with pytest.raises(prograd.CompileError) as told:
        prograd.from_onnx(model(nodes, {"x": (32, 64)}, ["a", "b"], {}))
    cure = "(draw numbers in the program, by ops.uniform or ops.normal, or feed them)"
    assert str(told.value) == (
        f"from_onnx: 2 operators cannot be imported: Multinomial, used 1 time, first in draw: has no counterpart {cure}"
        f"; RandomNormalLike, used 1 time, first in noise: has no counterpart {cure}"
    )


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_pairs_of_indices_count_the_rows_of_a_symbol(engine: Any):
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=0, end=1),
        helper.make_node("Squeeze", ["batch"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["rows"]),
        helper.make_node("Reshape", ["rows", "upright"], ["row"]),
        helper.make_node("Expand", ["row", "both"], ["wide"]),
        helper.make_node("Reshape", ["wide", "three_axes"], ["i"]),
        helper.make_node("Reshape", ["columns", "flat_columns"], ["column"]),
        helper.make_node("Concat", ["batch", "eight", "one_axis"], ["full"], axis=0),
        helper.make_node("Expand", ["column", "full"], ["j"]),
        helper.make_node("Concat", ["i", "j"], ["pairs"], axis=-1),
        helper.make_node("GatherND", ["x", "pairs"], ["y"]),
    ]
    columns = np.array([5, 0, 63, 7, 7, 2, 31, 8])
    weights = {
        "zero": np.array(0), "one": np.array(1), "upright": np.array([-1, 1]), "both": np.array([1, 8]),
        "eight": np.array([8]), "one_axis": np.array([1]), "three_axes": np.array([-1, 8, 1]), "columns": columns,
        "flat_columns": np.array([1, 8, 1]),
    }  # fmt: skip
    program = prograd.from_onnx(model(nodes, {"x": ("batch", 64)}, ["y"], weights))
    assert program["y"].shape == ("batch", 8)
    for rows in (1, 3, 32):
        x = drawn(rows, 64)
        np.testing.assert_array_equal(predicted(program, engine, {"batch": rows}, x=x)["y"], x[:, columns])


def test_sizes_without_a_name_are_bound_by_the_names_of_their_symbols():
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (32, 64)}, ["y"], {})
    for dim in made.graph.input[0].type.tensor_type.shape.dim:
        dim.dim_param = "?"
    program = prograd.from_onnx(made, dims={"x_1": 64})
    assert (program["y"].shape, list(program.symbols)) == (("x_0", 64), ["x_0"])
    with pytest.raises(prograd.CompileError) as told:
        prograd.from_onnx(made, dims={"rows": 3})
    assert str(told.value) == "the model has no dimension 'rows'; its dimensions are x_0, x_1"


def test_an_opset_of_a_domain_that_no_domain_has_is_refused():
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (32, 64)}, ["y"], {})
    made.opset_import.append(helper.make_opsetid("local", 2**63 - 1))
    with pytest.raises(prograd.CompileError) as told:
        prograd.from_onnx(made)
    assert str(told.value) == (
        "the model: the file has version 9223372036854775807 of the domain 'local', which no domain has"
    )


def test_a_check_says_what_can_be_done():
    nodes = [
        helper.make_node("Multinomial", ["x"], ["a"], name="draw", sample_size=2),
        helper.make_node("Fused", ["x"], ["b"], name="fused", domain="com.microsoft"),
        helper.make_node("NonZero", ["x"], ["c"], name="where"),
        helper.make_node("Cast", ["x"], ["d"], name="small", to=24),
    ]
    source = model(nodes, {"x": (32, 64)}, ["a", "b", "c", "d"], {})
    source.opset_import.add(domain="com.microsoft", version=1)
    head, *rows = str(prograd.from_onnx(source, explain=True)).splitlines()
    assert head.split("  ")[-1].strip() == "what can be done"
    ends = [
        "by ops.uniform or ops.normal, or feed them",
        "ONNX Runtime, whose operator it is",
        "or --max-rows c=N",
        "int64",
    ]
    assert [row.rstrip().endswith(end) for row, end in zip(rows, ends, strict=True)] == [True] * 4, rows


def test_sizes_without_a_name_are_symbols_of_their_own_and_what_follows_a_fault_is_not_one():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("Shape", ["a"], ["s"], name="shape"),
        helper.make_node("Mish", ["a"], ["m"], name="mish"),
    ]
    source = model(nodes, {"x": ("?", 3, "?", "?")}, ["s", "m"], {"w": drawn(8, 3, 3, 3)}, opset=18)
    table = prograd.from_onnx(source, explain=True)
    assert len(table) == 1
    operator, reason, *_ = table.rows[0]
    assert operator == "Conv"
    assert reason.startswith("conv(x: float32[x_0, x_2, x_3, 3]")
    assert str(table).rstrip().endswith("give sizes by --input 'NAME=[SHAPE]', or --dim NAME=SIZE")


def refusal(source: Any, **more: Any) -> str:
    with pytest.raises(prograd.CompileError) as told:
        prograd.from_onnx(source, **more)
    return str(told.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path):
    path = tmp_path / "net.onnx"
    assert refusal(path) == f"{path}: no such file"
    path.write_bytes(b"\xff\xff\xff")
    assert refusal(path) == f"{path}: this is not an ONNX file, or a damaged one"
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: this is not an ONNX file: it has no graph"


@pytest.mark.parametrize("place", ["../secret", "/etc/passwd", "link"])
def test_external_data_outside_of_the_folder_is_refused(tmp_path: Path, place: str):
    (tmp_path / "secret").write_bytes(bytes(4 * 8192))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    made = mlp()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    path = folder / "net.onnx"
    path.write_bytes(made.SerializeToString())
    wanted = f"{path}: the tensor 'fc1.weight' is in {place!r}, which is not a file within the folder of the model"
    assert refusal(path) == wanted


def test_external_data_beside_the_file_is_read(tmp_path: Path):
    path = tmp_path / "net.onnx"
    onnx.save(mlp(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    x = drawn(32, 64)
    found = predicted(prograd.from_onnx(path), "reference", {"batch": 32}, x=x)["logits"]
    np.testing.assert_allclose(found, by_hand(x, MLP), rtol=1e-4, atol=1e-5)
    (tmp_path / "net.data").write_bytes(b"short")
    assert refusal(path).startswith(f"{path}: the tensor 'fc1.weight' has bytes 0 to 32768 of net.data, which has 5")


def test_an_opset_of_the_future_and_an_unknown_input_are_refused():
    made = mlp()
    made.opset_import[0].version = 2000
    newest = onnx.defs.onnx_opset_version()
    assert refusal(made) == (
        f"the model: the file has opset 2000, and opsets 1 to {newest} are read; convert it with "
        "onnx.version_converter, or install a newer onnx"
    )
    assert refusal(mlp(), inputs={"y": (1,)}) == (
        "from_onnx: inputs names 'y', which is not among the model's inputs ['x']"
    )
    assert refusal(mlp(), dims={"rows": 2}) == "the model has no dimension 'rows'; its dimensions are batch"


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32"])
def test_integers_that_wider_ones_carry_wrap_as_their_own(operator: str, dtype: str):
    kind, ends = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), np.iinfo(dtype)
    a = np.array([ends.max, ends.min, ends.max // 2 + 1, 3], dtype)
    b = np.array([ends.max, 1, ends.max // 2 + 1, 5], dtype)
    infos = [helper.make_tensor_value_info(name, kind, [4]) for name in "aby"]
    graph = helper.make_graph([helper.make_node(operator, ["a", "b"], ["y"])], "g", infos[:2], infos[2:])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    wide = "int64" if dtype == "uint32" else "int32"
    found = predicted(prograd.from_onnx(source), "reference", {}, a=a.astype(wide), b=b.astype(wide))["y"]
    with np.errstate(over="ignore"):
        wanted = {"Add": a + b, "Sub": a - b, "Mul": a * b}[operator]
    np.testing.assert_array_equal(found, wanted.astype(wide))


@pytest.mark.parametrize("name", ["mean", "x", "s"])
def test_a_name_of_two_tensors_is_refused(name: str):
    """A node that reads the name may mean either; PyTorch's exporter writes such files for buffers."""
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["s"]),
        helper.make_node("Relu", ["x"], [name]),
        helper.make_node("Add", ["s", name], ["y"]),
    ]
    with pytest.raises(prograd.CompileError) as raised:
        prograd.from_onnx(model(nodes, {"x": ("batch", 64)}, ["y"], {"mean": drawn(64)}))
    assert str(raised.value) == (
        f"the model: a node Relu makes {name!r}, a name that another tensor has already; give one of both another "
        "name, in the model before its export or in the file"
    )
