"""Conditions and loops of ONNX files that depend on data: values and gradients, on both engines."""

from typing import Any

import numpy as np
import onnx
import pytest
from subjects.commands import told

import prograd
from prograd import ops

helper = onnx.helper
X = np.random.default_rng(3).normal(0, 0.3, (32, 64)).astype(np.float32)
W = np.random.default_rng(4).normal(0, 0.1, (64, 64)).astype(np.float32)


def value(name: str, kind: int = 1, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], constants: dict[str, Any]) -> Any:
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, [value("y")], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def branching() -> Any:
    then = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "other", [], [value("b")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    return model(nodes, [value("x", 1, (32, 64)), value("c", 9, ())], {"w": W})


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_on_data_runs_alone_and_has_gradients(engine: Any, flag: bool):
    program = prograd.from_onnx(branching())
    assert "cond(" in str(program.compile())
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    found = run.step({"x": X, "c": np.array(flag)}, entry="predict")["y"]
    np.testing.assert_allclose(found, X @ W if flag else -X, rtol=1e-4, atol=1e-5)
    run.step({"x": X, "c": np.array(flag)})
    wanted = W - (X.T @ np.ones((32, 64), np.float32) if flag else 0)
    np.testing.assert_allclose(run.state["w"], wanted, rtol=1e-4, atol=1e-4)


def looping(bound: Any) -> Any:
    """Return a loop that multiplies by a matrix until the first element of a counter reaches a limit."""
    nodes = [
        helper.make_node("MatMul", ["v", "w"], ["v1"]),
        helper.make_node("Add", ["n", "one"], ["n1"]),
        helper.make_node("Less", ["n1", "limit"], ["more"]),
    ]
    inputs = [value("i", 7, ()), value("go", 9, ()), value("v", 1, (32, 64)), value("n", 1, ())]
    body = helper.make_graph(nodes, "body", inputs, [value("more", 9, ()), value("v1"), value("n1")])
    nodes = [
        helper.make_node("Less", ["zero", "limit"], ["first"]),
        helper.make_node("Loop", ["bound", "first", "x", "zero"], ["y", "count"], body=body),
    ]
    constants = {"w": W, "one": np.float32(1), "zero": np.float32(0), "bound": np.int64(bound)}
    return model(nodes, [value("x", 1, (32, 64)), value("limit", 1, ())], constants)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("limit", "trips"), [(0.0, 0), (1.0, 1), (3.0, 3), (9.0, 5)])
def test_a_loop_runs_as_often_as_its_data_says_up_to_its_bound(engine: Any, limit: float, trips: int):
    program = prograd.from_onnx(looping(5))
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    feeds = {"x": X, "limit": np.float32(limit)}
    powers = [np.linalg.matrix_power(W.astype(np.float64), k) for k in range(trips + 1)]
    found = run.step(feeds, entry="predict")["y"]
    np.testing.assert_allclose(found, X @ powers[trips], rtol=1e-4, atol=1e-5)
    run.step(feeds)
    ones = np.ones((32, 64))
    dw = sum((powers[k].T @ X.T @ ones @ powers[trips - 1 - k].T for k in range(trips)), np.zeros((64, 64)))
    np.testing.assert_allclose(run.state["w"], W - dw, rtol=1e-3, atol=1e-3)


def collecting() -> Any:
    """Return a loop that multiplies by a matrix while its data says so, and collects every second sum of columns."""
    nodes = [
        helper.make_node("MatMul", ["v", "w"], ["v1"]),
        helper.make_node("ReduceSum", ["v1", "axis"], ["row"], keepdims=0),
        helper.make_node("Add", ["n", "one"], ["n1"]),
        helper.make_node("Less", ["n1", "limit"], ["more"]),
    ]
    inputs = [value("i", 7, ()), value("go", 9, ()), value("v", 1, (32, 64)), value("n", 1, ())]
    results = [value("more", 9, ()), value("v1"), value("n1"), value("row"), value("n1_of_trip")]
    nodes.append(helper.make_node("Identity", ["n1"], ["n1_of_trip"]))
    body = helper.make_graph(nodes, "body", inputs, results)
    nodes = [
        helper.make_node("Less", ["zero", "limit"], ["first"]),
        helper.make_node("Loop", ["", "first", "x", "zero"], ["last", "count", "y", "numbers"], body=body),
    ]
    constants = {"w": W, "one": np.float32(1), "zero": np.float32(0), "axis": np.array([0])}
    made = model(nodes, [value("x", 1, (32, 64)), value("limit", 1, ())], constants)
    made.graph.output.extend([value("numbers"), value("last")])
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("limit", "trips"), [(0.0, 0), (0.5, 1), (3.0, 3), (9.0, 6)])
def test_a_loop_on_data_collects_a_row_of_each_trip_up_to_a_bound(engine: Any, limit: float, trips: int):
    program = prograd.from_onnx(collecting(), max_rows={"y": 6})
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(), engine=engine)
    feeds = {"x": X, "limit": np.float32(limit)}
    found = run.step(feeds, entry="predict")
    powers = [X @ np.linalg.matrix_power(W, n + 1) for n in range(trips)]
    rows = np.zeros((6, 64), np.float32)
    for n, power in enumerate(powers):
        rows[n] = power.sum(0)
    np.testing.assert_allclose(found["y"], rows, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["numbers"], [n + 1 if n < trips else 0 for n in range(6)])
    np.testing.assert_allclose(found["last"], powers[-1] if trips else X, rtol=1e-4, atol=1e-5)
    assert found["y_count"] == trips
    run.step(feeds)
    ones, gradient = np.ones((32, 64)), np.zeros((64, 64))
    for n in range(1, trips + 1):  # of the sum of X W^n
        for k in range(n):
            before, after = np.linalg.matrix_power(W, k), np.linalg.matrix_power(W, n - 1 - k)
            gradient += (X @ before).T.astype(np.float64) @ ones @ after.T
    np.testing.assert_allclose(run.state["w"], W - gradient, rtol=1e-4, atol=1e-4)


def test_a_loop_on_data_that_collects_needs_a_bound():
    assert told(prograd.CompileError, lambda: prograd.from_onnx(collecting())).endswith(
        "the number of its trips is data, and it collects a row of each; bound the trips by max_rows={'y': N}, or "
        "--max-rows y=N, which ends the loop after N trips"
    )


def test_a_loop_whose_counted_trips_are_data_may_get_their_number_or_a_bound():
    source = counted(3, False)
    del source.graph.initializer[[each.name for each in source.graph.initializer].index("trips")]
    source.graph.input.append(value("trips", 7, ()))
    assert told(prograd.CompileError, lambda: prograd.from_onnx(source)).endswith(
        "the number of its trips is data, and it collects a row of each; it has to be known while importing: give it "
        "by --constant NAME=VALUE, or bound the trips by max_rows={'y': N}, or --max-rows y=N, which ends the loop "
        "after N trips"
    )
    assert prograd.from_onnx(source, constants={"trips": 3})["y"].shape == (3, 64)
    assert prograd.from_onnx(source, max_rows={"y": 5})["y"].shape == (5, 64)


def scanning(shape: tuple[Any, ...], ways: Any, outs: Any, axis: int = 0) -> Any:
    """Return a scan of a recurrent cell over an axis of x, whose rows are collected along axis 1."""
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["p"]),
        helper.make_node("Add", ["p", "row"], ["s"]),
        helper.make_node("Tanh", ["s"], ["h1"]),
        helper.make_node("Mul", ["h1", "row"], ["out"]),
    ]
    body = helper.make_graph(nodes, "body", [value("h", 1, (8, 64)), value("row", 1, (8, 64))], [
        value("h1", 1, (8, 64)), value("out", 1, (8, 64))
    ])  # fmt: skip
    scan = helper.make_node(
        "Scan", ["h0", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[ways], scan_output_axes=[1], scan_output_directions=[outs],
    )  # fmt: skip
    return model([scan], [value("h0", 1, (8, 64)), value("x", 1, shape)], {"w": W})


def cell(h: Any, rows: Any) -> list[Any]:
    made: list[Any] = []
    for row in rows:
        h = np.tanh(h @ W + row)
        made.append(h * row)
    return made


ROWS = np.random.default_rng(5).normal(0, 0.3, (32, 8, 64)).astype(np.float32)
START = ROWS[0] * 0.5


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("ways", "outs"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_scan_stays_a_loop_in_both_directions(engine: Any, ways: int, outs: int):
    program = prograd.from_onnx(scanning((32, 8, 64), ways, outs))
    assert "scan(" in str(program.compile())
    found = prograd.Run(program.compile(), engine=engine).step({"h0": START, "x": ROWS}, entry="predict")["y"]
    wanted = cell(START, ROWS[::-1] if ways else ROWS)
    np.testing.assert_allclose(found, np.stack(wanted[::-1] if outs else wanted, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_scan_over_a_symbol_and_another_axis_has_gradients(engine: Any):
    program = prograd.from_onnx(scanning((8, "time", 64), 0, 0, axis=1))
    x = np.ascontiguousarray(ROWS.transpose(1, 0, 2))
    program.minimize(ops.sum(program["y"]), prograd.sgd(1.0))
    run = prograd.Run(program.compile(time=32), engine=engine)
    found = run.step({"h0": START, "x": x}, entry="predict")["y"]
    np.testing.assert_allclose(found, np.stack(cell(START, ROWS), axis=1), rtol=1e-4, atol=1e-5)
    direction = np.random.default_rng(6).normal(0, 1, W.shape)
    run.step({"h0": START, "x": x})
    slope = float(np.sum((W - run.state["w"]) * direction))
    totals: list[float] = []
    for sign in (1, -1):
        h, total = START.astype(np.float64), 0.0
        for row in ROWS.astype(np.float64):
            h = np.tanh(h @ (W + sign * 1e-5 * direction) + row)
            total += float(np.sum(h * row))
        totals.append(total)
    assert slope == pytest.approx((totals[0] - totals[1]) / 2e-5, rel=1e-3)


def counted(trips: int, slices: bool) -> Any:
    """Return a loop that adds its number to x and collects the sums of rows; `slices` takes a row by the number."""
    nodes = [
        helper.make_node("Cast", ["i"], ["f"], to=1),
        helper.make_node("Identity", ["go"], ["more"]),
        helper.make_node("Add", ["v", "f"], ["v1"]),
        helper.make_node("Slice", ["v1", "i1", "i2", "zeros"], ["row"]),
        helper.make_node("ReduceSum", ["row" if slices else "v1", "zeros"], ["out"], keepdims=0),
    ]
    ends = [helper.make_node("Reshape", ["i", "ones"], ["i1"]), helper.make_node("Add", ["i1", "ones"], ["i2"])]
    nodes = [*ends, *nodes] if slices else [n for n in nodes if n.op_type != "Slice"]
    inputs = [value("i", 7, ()), value("go", 9, ()), value("v", 1, (32, 64))]
    body = helper.make_graph(nodes, "body", inputs, [value("more", 9, ()), value("v1"), value("out")])
    loop = helper.make_node("Loop", ["trips", "", "x"], ["last", "y"], body=body)
    constants = {"trips": np.int64(trips), "zeros": np.array([0]), "ones": np.array([1])}
    return model([loop], [value("x", 1, (32, 64))], constants)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize(("trips", "slices"), [(32, False), (20, True), (5, False), (0, False)])
def test_a_counted_loop_collects_a_row_of_each_trip(engine: Any, trips: int, slices: bool):
    if not trips:
        with pytest.raises(prograd.CompileError) as caught:
            prograd.from_onnx(counted(trips, slices))
        assert str(caught.value).endswith("a loop without trips makes results of unknown shape")
        return
    program = prograd.from_onnx(counted(trips, slices))
    is_loop = "scan(" in str(program.compile())
    assert is_loop == (trips > 8 and not slices)  # a slice by the number is a view in an unrolled loop
    found = prograd.Run(program.compile(), engine=engine).step({"x": X}, entry="predict")["y"]
    sums = [X + np.float32(k * (k + 1) / 2) for k in range(trips)]
    wanted = [v[k : k + 1].sum(0) if slices else v.sum(0) for k, v in enumerate(sums)]
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-4, atol=1e-3)


def test_branches_of_other_shapes_are_refused_in_one_sentence():
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["b"])], "other", [], [value("b")])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    source = model(nodes, [value("x", 1, (32, 64)), value("c", 9, ())], {})
    assert told(prograd.CompileError, lambda: prograd.from_onnx(source)) == (
        "from_onnx: 1 operator cannot be imported: If, used 1 time, first in the module: its branches make "
        "float32[32, 64] and float32[1, 1], and a result of a program has one type; if the condition is an input, give "
        "it by --constant NAME=VALUE"
    )
    chosen = prograd.from_onnx(source, constants={"c": True})
    assert chosen["y"].shape == (32, 64)
