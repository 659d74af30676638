"""Use-def chains over forward and backward, and the view that tells the uses of both apart."""

from __future__ import annotations

import pytest

from compiler import Program, constant, ops, sgd
from compiler.analyses.training_view import training_view
from compiler.analyses.use_def import END, Chain, use_def
from prograd_proto import program_pb2 as pb
from runtime.step import ends_of


def block(*ops: tuple[str, list[str], list[str], pb.Stage], feeds: tuple[str, ...] = ("x",)) -> pb.BlockDesc:
    result = pb.BlockDesc(parameters=[pb.ParameterDesc(tensor=name, feed=name) for name in feeds])
    for i, (type, inputs, outputs, stage) in enumerate(ops):
        result.ops.add(id=i + 1, type=type, inputs=inputs, outputs=outputs, stage=stage)
    return result


F, G, D, U = pb.STAGE_FORWARD, pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE, pb.STAGE_UPDATE


def test_a_chain_has_the_definition_and_every_use_an_op_once_for_each_operand():
    chains = use_def(block(("add", ["x", "x"], ["y"], F), ("mul", ["y", "x"], ["z"], F)))
    assert chains == {"x": Chain(None, [0, 0, 1]), "y": Chain(0, [1]), "z": Chain(1, [])}


def test_the_end_of_the_step_is_the_last_use():
    desc = block(("exp", ["x"], ["y"], F), ("exp", ["y"], ["z"], F))
    desc.fetches.add(name="y", tensor="y")
    desc.updates.add(state="s", tensor="y")
    desc.results.append("z")
    assert ends_of(desc) == ["y", "y", "z"]
    found = use_def(desc)
    assert found["y"].uses == [1, END, END]
    assert [found[name].last_use for name in "xyz"] == [0, END, END]


def test_a_tensor_that_nobody_reads_has_no_last_use():
    assert use_def(block(("split", ["x"], ["a", "b"], F)))["b"].last_use is None


def test_an_absent_operand_is_no_use():
    assert use_def(block(("conv", ["x", ""], ["y"], F))).keys() == {"x", "y"}


def test_a_use_before_the_definition_is_a_fault_of_the_caller():
    with pytest.raises(KeyError):
        use_def(block(("exp", ["y"], ["z"], F), ("exp", ["x"], ["y"], F)))


def test_the_training_view_tells_uses_by_the_forward_pass_from_those_by_the_backward_pass():
    desc = block(
        ("matmul", ["x", "w"], ["h"], F),
        ("tanh", ["h"], ["y"], F),
        ("mul", ["dy", "y"], ["dh"], D),
        ("matmul", ["x", "dh"], ["dw"], G),
        ("sgd", ["w", "dw"], ["new"], U),
        feeds=("x", "w", "dy"),
    )
    desc.fetches.add(name="y", tensor="y")
    view = training_view(desc)
    assert {name: view[name, True].uses for name in "xwhy"} == {
        "x": {(1, True), (4, False)},
        "w": {(1, True), (5, False)},
        "h": {(2, True)},
        "y": {(3, False)},
    }


def test_what_a_gradient_rule_names_is_what_training_keeps():
    """tanh needs its output, matmul its operands, and the sum in between nothing."""
    program = Program()
    x = program.input("x", "float32", (4, 3))
    w = program.parameter("w", (3, 2), constant(0.1))
    h = x @ w
    y = ops.tanh(h)
    s = y + 1.0
    program.minimize(ops.sum(s), sgd(0.1))
    view = training_view(program.compile().desc.blocks[0])
    kept = {name for (name, is_value), chain in view.items() if is_value and any(not run[1] for run in chain.uses)}
    assert {x.name, w.name, y.name} <= kept
    assert not {h.name, s.name} & kept


def test_chains_of_a_long_program_are_found_without_recursion():
    desc = block(*(("exp", [f"t{i - 1}" if i else "x"], [f"t{i}"], F) for i in range(20_000)))
    assert use_def(desc)["t19999"].definition == 19_999
