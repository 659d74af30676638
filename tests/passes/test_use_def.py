"""Use-def chains over forward and backward, and by them what training keeps of the forward pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler import Program, Value, constant, ops, sgd
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis, Chain

Build = Callable[[Value, Value], Value]


def read(*ops: tuple[str, list[str], list[str]]) -> BlockAnalysis:
    desc = pb.BlockDesc(parameters=[pb.ParameterDesc(tensor="x", feed="x")])
    for i, (type, inputs, outputs) in enumerate(ops):
        desc.ops.add(id=i + 1, type=type, inputs=inputs, outputs=outputs)
    return BlockAnalysis(desc)


def test_a_chain_has_the_definition_and_every_use_an_op_once_for_each_operand():
    chains = read(("add", ["x", "x"], ["y"]), ("mul", ["y", "x"], ["z"])).use_def.chains
    assert chains == {"x": Chain(None, [0, 0, 1]), "y": Chain(0, [1]), "z": Chain(1, [])}


def test_the_end_of_the_step_is_the_last_use():
    block = read(("exp", ["x"], ["y"]), ("exp", ["y"], ["z"]))
    block.desc.fetches.add(name="y", tensor="y")
    block.desc.updates.add(state="s", tensor="y")
    block.desc.results.append("z")
    assert block.ends == ["y", "y", "z"]
    assert block.use_def.chains["y"].uses == [1, 2, 2]
    assert block.use_def.last_uses == {"x": 0, "y": 2, "z": 2}
    assert block.use_def.makers == {"y": 0, "z": 1}


def test_a_tensor_that_nobody_reads_has_no_last_use():
    block = read(("split", ["x"], ["a", "b"]))
    assert block.use_def.chains["b"].uses == []
    assert "b" not in block.use_def.last_uses


def test_an_absent_operand_is_no_use():
    block = read(("conv", ["x", ""], ["y"]))
    assert block.use_def.chains.keys() == {"x", "y"}
    assert block.use_def.last_uses == {"x": 0}


def test_a_use_before_the_definition_is_a_fault_of_the_caller():
    with pytest.raises(KeyError):
        _ = read(("exp", ["y"], ["z"]), ("exp", ["x"], ["y"])).use_def.chains


@pytest.mark.thorough
def test_chains_of_a_long_program_are_found_without_recursion():
    block = read(*(("exp", [f"t{i - 1}" if i else "x"], [f"t{i}"]) for i in range(70_000)))
    assert block.use_def.chains["t65535"] == Chain(65_535, [65_536])


def labels(x: Value) -> Value:
    """A class for each row."""
    return ops.cast(ops.mean(ops.stop_gradient(x), axis=(1,)), dtype="int64")


KEPT: dict[str, tuple[tuple[int, ...], tuple[int, ...], Build, set[str]]] = {
    "add": ((2, 3), (2, 3), lambda x, w: x + w, set()),
    "sub": ((2, 3), (2, 3), lambda x, w: x - w, set()),
    "mul": ((2, 3), (2, 3), lambda x, w: x * w, {"x", "w"}),
    "div": ((2, 3), (2, 3), lambda x, w: x / w, {"w", "y"}),
    "matmul": ((2, 3), (3, 4), lambda x, w: x @ w, {"x", "w"}),
    "conv2d": ((1, 4, 4, 2), (3, 3, 2, 2), lambda x, w: ops.conv2d(x, w), {"x", "w"}),
    "depthwise": ((1, 4, 4, 2), (3, 3, 1, 2), lambda x, w: ops.conv2d(x, w, groups=2), {"x", "w"}),
    "relu": ((2, 3), (2, 3), lambda x, w: ops.relu(x + w), {"y"}),
    "softmax": ((2, 3), (2, 3), lambda x, w: ops.softmax(x + w), {"y"}),
    "mean": ((2, 3), (2, 3), lambda x, w: ops.mean(x + w, axis=(1,)), set()),
    "reshape": ((2, 3), (2, 3), lambda x, w: ops.reshape(x + w, shape=(3, 2)), set()),
    "pad": ((2, 3), (2, 3), lambda x, w: ops.pad(x + w, before=(0, 1), after=(0, 1)), set()),
    "max_pool2d": (
        (1, 4, 4, 2),
        (1, 4, 4, 2),
        lambda x, w: ops.max_pool2d(x + w, window=(2, 2), stride=(2, 2)),
        {"sum"},
    ),
    "avg_pool2d": ((1, 4, 4, 2), (1, 4, 4, 2), lambda x, w: ops.avg_pool2d(x + w, window=(2, 2), stride=(2, 2)), set()),
    "squared_error": ((2, 3), (2, 3), lambda x, w: ops.squared_error(w, x), {"x", "w"}),
    "softmax_cross_entropy": (
        (2, 3),
        (2, 3),
        lambda x, w: ops.softmax_cross_entropy(x + w, labels(x)),
        {"sum", "labels"},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_backward_pass_of_an_op_uses_of_the_forward_pass_what_the_table_says(name: str):
    shape, weights, build, kept = KEPT[name]
    program = Program()
    x, w = program.parameter("x", shape, constant(0.5)), program.parameter("w", weights, constant(0.25))
    y = build(x, w)
    op, operands = program.block.desc.ops[-1].id, program.block.desc.ops[-1].inputs[:]
    program.minimize(ops.sum(y), sgd(0.1))
    names = dict(zip(("sum", "labels"), operands, strict=False)) if x.name not in operands else {}
    names |= {"x": x.name, "w": w.name, "y": y.name}
    block = BlockAnalysis(program.compile().desc.blocks[0])

    def is_used_backward(tensor: str) -> bool:
        """Return True if a gradient op of the op, other than a sum of contributions, uses the tensor."""
        return any(block.ops[i].gradient_of == op for i in block.use_def.chains[tensor].uses if i < len(block.ops))

    assert {word for word, tensor in names.items() if is_used_backward(tensor)} == kept


def test_what_a_gradient_rule_names_is_what_training_keeps():
    """tanh needs its output, matmul its operands, and the sum in between nothing."""
    program = Program()
    x = program.input("x", "float32", (4, 3))
    w = program.parameter("w", (3, 2), constant(0.1))
    h = x @ w
    y = ops.tanh(h)
    s = y + 1.0
    program.minimize(ops.sum(s), sgd(0.1))
    block = BlockAnalysis(program.compile().desc.blocks[0])
    stages = [*block.stages, pb.STAGE_UNSPECIFIED]  # the end of the step keeps nothing
    chains = block.use_def.chains
    kept = {name for name, chain in chains.items() if any(stages[i] > pb.STAGE_FORWARD for i in chain.uses)}
    assert {x.name, w.name, y.name} <= kept
    assert not {h.name, s.name} & kept
