"""The training view: what each op's backward run reads of the forward pass, by a table, and a worked example."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler import Program, Value, constant, ops, sgd
from compiler.analyses.training_view import training_view
from prograd_proto import program_pb2 as pb

Build = Callable[[Value, Value], Value]


def labels(x: Value) -> Value:
    """A class for each row."""
    return ops.cast(ops.mean(ops.stop_gradient(x), axes=(1,)), dtype="int64")


TABLE: list[tuple[str, tuple[int, ...], tuple[int, ...], Build, set[str]]] = [
    ("add", (2, 3), (2, 3), lambda x, w: x + w, set()),
    ("sub", (2, 3), (2, 3), lambda x, w: x - w, set()),
    ("mul", (2, 3), (2, 3), lambda x, w: x * w, {"x", "w"}),
    ("div", (2, 3), (2, 3), lambda x, w: x / w, {"w", "y"}),
    ("matmul", (2, 3), (3, 4), lambda x, w: x @ w, {"x", "w"}),
    ("conv2d", (1, 4, 4, 2), (3, 3, 2, 2), lambda x, w: ops.conv2d(x, w), {"x", "w"}),
    ("depthwise conv2d", (1, 4, 4, 2), (3, 3, 1, 2), lambda x, w: ops.conv2d(x, w, groups=2), {"x", "w"}),
    ("relu", (2, 3), (2, 3), lambda x, w: ops.relu(x + w), {"y"}),
    ("softmax", (2, 3), (2, 3), lambda x, w: ops.softmax(x + w), {"y"}),
    ("mean", (2, 3), (2, 3), lambda x, w: ops.mean(x + w, axes=(1,)), set()),
    ("reshape", (2, 3), (2, 3), lambda x, w: ops.reshape(x + w, shape=(3, 2)), set()),
    ("pad", (2, 3), (2, 3), lambda x, w: ops.pad(x + w, before=(0, 1), after=(0, 1)), set()),
    (
        "max_pool2d",
        (1, 4, 4, 2),
        (1, 4, 4, 2),
        lambda x, w: ops.max_pool2d(x + w, window=(2, 2), stride=(2, 2)),
        {"sum"},
    ),
    ("avg_pool2d", (1, 4, 4, 2), (1, 4, 4, 2), lambda x, w: ops.avg_pool2d(x + w, window=(2, 2), stride=(2, 2)), set()),
    ("squared_error", (2, 3), (2, 3), lambda x, w: ops.squared_error(w, x), {"x", "w"}),
    (
        "softmax_cross_entropy",
        (2, 3),
        (2, 3),
        lambda x, w: ops.softmax_cross_entropy(x + w, labels(x)),
        {"sum", "labels"},
    ),
]


@pytest.mark.parametrize(
    ("shape", "weights", "build", "kept"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_backward_run_reads_of_the_forward_pass_what_the_table_says(
    shape: tuple[int, ...], weights: tuple[int, ...], build: Build, kept: set[str]
):
    program = Program()
    x = program.parameter("x", shape, constant(0.5))
    w = program.parameter("w", weights, constant(0.25))
    y = build(x, w)
    op, operands = program.block.desc.ops[-1].id, program.block.desc.ops[-1].inputs[:]
    program.minimize(ops.sum(y), sgd(0.1))
    view = training_view(program.compile().desc.blocks[0])
    names = dict(zip(("sum", "labels"), operands, strict=False)) if x.name not in operands else {}
    names |= {"x": x.name, "w": w.name, "y": y.name}
    assert {word for word, name in names.items() if (op, False) in view[name, True].uses} == kept


def test_a_dense_layer_an_addition_and_a_loss_have_the_chains_of_the_worked_example():
    """But for three: an addition reads no value backward and passes the gradient on, and no input has a gradient."""
    program = Program()
    x = program.input("x", "float32", (2, 3))
    t = program.input("t", "float32", (2, 4))
    w = program.parameter("w", (3, 4), constant(0.5))
    a = x @ w
    y = a + 1.0
    loss = ops.squared_error(y, t)
    program.minimize(loss, sgd(0.1))
    block = program.compile().desc.blocks[0]
    view = training_view(block)
    dense, add, error = (next(op.id for op in block.ops if v.name in op.outputs) for v in (a, y, loss))
    update = next(op.id for op in block.ops if op.type == "sgd")

    def chain(name: str, is_forward: bool) -> tuple[set[tuple[int, bool]], set[tuple[int, bool]]]:
        return view[name, is_forward].definitions, view[name, is_forward].uses

    assert chain("x", True) == (set(), {(dense, True), (dense, False)})
    assert chain("w", True) == (set(), {(dense, True), (update, False)})  # the input needs no derivative
    assert chain(a.name, True) == ({(dense, True)}, {(add, True)})
    assert chain(y.name, True) == ({(add, True)}, {(error, True), (error, False)})
    assert chain("t", True) == (set(), {(error, True), (error, False)})
    assert chain(loss.name, True) == ({(error, True)}, set())
    assert chain("w", False) == ({(dense, False)}, {(update, False)})
    assert chain(y.name, False) == ({(error, False)}, {(dense, False)})
    assert not {("x", False), ("t", False)} & view.keys()


def test_a_gradient_with_two_contributions_is_defined_by_both_runs():
    program = Program()
    x = program.input("x", "float32", (2, 3))
    w = program.parameter("w", (3, 3), constant(0.5))
    h = x @ w
    program.minimize(ops.sum(h @ w), sgd(0.1))
    block = program.compile().desc.blocks[0]
    products = [op.id for op in block.ops if op.type == "matmul" and op.stage == pb.STAGE_FORWARD]
    assert training_view(block)["w", False].definitions == {(op, False) for op in products}


def test_there_is_no_limit_of_tensors_or_ops():
    block = pb.BlockDesc(parameters=[pb.ParameterDesc(tensor="t0", feed="x")])
    for i in range(1, 70_001):
        block.ops.add(id=i, type="exp", inputs=[f"t{i - 1}"], outputs=[f"t{i}"], stage=pb.STAGE_FORWARD)
    view = training_view(block)
    assert len(view) == 70_001
    assert view["t65536", True].uses == {(65_537, True)}
