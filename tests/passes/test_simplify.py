"""Simplification: for each rule what it must leave out, and beside it what it must not touch."""

from __future__ import annotations

import pytest
from subjects.one_pass import Build, block_after, types
from subjects.steps import bound_block

from compiler import Program, Value, gradients, ops, sgd
from compiler.passes.simplify import rules_of
from registry import OPS

F, INT, BOOL = ("float32", (2, 3)), ("int32", (2, 3)), ("bool", (2, 3))
ONE_ROW = ("float64", (1, 3))


def left(build: Build, *inputs: tuple[str, tuple[int, ...]]) -> list[str]:
    return types(block_after("simplify", build, *inputs))


def filled(x: Value, number: float, shape: tuple[int, ...] = ()) -> Value:
    return ops.full.on(x.block)(shape=shape, value=number, dtype=x.dtype)


GONE: dict[str, tuple[Build, tuple[str, tuple[int, ...]]]] = {
    "x * 1": (lambda x: x * 1.0, F),
    "1 * x": (lambda x: 1.0 * x, F),
    "x * ones": (lambda x: x * filled(x, 1.0, (2, 3)), F),
    "x * repeated ones": (lambda x: x * ops.broadcast_to(filled(x, 1.0, (1, 3)), shape=(2, 3)), F),
    "x * 1, integers": (lambda x: x * 1, INT),
    "x / 1": (lambda x: x / 1.0, F),
    "x // 1, integers": (lambda x: x // 1, INT),
    "x + -0.0": (lambda x: x + -0.0, F),
    "-0.0 + x": (lambda x: -0.0 + x, F),
    "x + 0, integers": (lambda x: x + 0, INT),
    "x - 0.0": (lambda x: x - 0.0, F),
    "x - 0, integers": (lambda x: x - 0, INT),
    "x | 0": (lambda x: x | 0, INT),
    "0 ^ x": (lambda x: 0 ^ x, INT),
    "x << 0": (lambda x: x << 0, INT),
    "x >> 0": (lambda x: x >> 0, INT),
    "x or false": (lambda x: ops.logical_or(x, False), BOOL),
    "false xor x": (lambda x: ops.logical_xor(False, x), BOOL),
    "x and true": (lambda x: ops.logical_and(x, True), BOOL),
    "-(-x)": (lambda x: ops.neg(ops.neg(x)), F),
    "-(-x), integers": (lambda x: ops.neg(ops.neg(x)), INT),
    "not not x": (lambda x: ops.logical_not(ops.logical_not(x)), BOOL),
    "~~x": (lambda x: ~~x, INT),
    "the value of training": (lambda x: ops.when_training(x, x), F),
    "where always": (lambda x: ops.where(x.block.constant("bool", 1), x, 0.0), F),
    "where never": (lambda x: ops.where(x.block.constant("bool", 0), 0.0, x), F),
    "clip without bounds": (lambda x: ops.clip(x), F),
    "identity": (ops.identity, F),
    "stop_gradient": (ops.stop_gradient, F),
    "cast to the same dtype": (lambda x: ops.cast(x, dtype="float32"), F),
    "reshape to the same shape": (lambda x: ops.reshape(x, shape=(2, 3)), F),
    "reshape there and back": (lambda x: ops.reshape(ops.reshape(x, shape=(6,)), shape=(2, 3)), F),
    "broadcast_to the same shape": (lambda x: ops.broadcast_to(x, shape=(2, 3)), F),
    "transpose to the same order": (lambda x: ops.transpose(x, axis=(0, 1)), F),
    "transpose there and back": (lambda x: ops.transpose(ops.transpose(x)), F),
    "x[:]": (lambda x: OPS["slice"](x, axis=(0,), starts=(0,), stops=(2,), strides=(1,)), F),
    "reversed twice": (lambda x: ops.flip(ops.flip(x)), F),
    "reversed twice, axis by axis": (lambda x: x[::-1][:, ::-1][::-1, ::-1], F),
    "unslice of everything": (
        lambda x: ops.unslice(x, shape=(2, 3), axis=(1,), starts=(0,), stops=(3,), strides=(1,)),
        F,
    ),
    "pad by nothing": (lambda x: ops.pad(x, before=(0, 0), after=(0, 0)), F),
    "concat of one": (lambda x: ops.concat(x), F),
    "concat with nothing": (lambda x: ops.concat(x[:0], x), F),
    "split into one": (lambda x: ops.split(x, sizes=(2,))[0], F),
    "concat of all that was split": (lambda x: ops.concat(*ops.split(x, sizes=(1, 2), axis=1), axis=-1), F),
    "several at once": (lambda x: -(1.0 * -ops.identity(x - 0.0)), F),
}


@pytest.mark.parametrize("what", GONE)
def test_what_gives_its_operand_is_gone(what: str):
    build, x = GONE[what]
    assert left(build, x) == []


STAYS: dict[str, tuple[Build, tuple[str, tuple[int, ...]], list[str]]] = {
    "x + 0.0, which makes 0.0 of -0.0": (lambda x: x + 0.0, F, ["add"]),
    "0.0 + x": (lambda x: 0.0 + x, F, ["add"]),
    "x - (-0.0)": (lambda x: x - -0.0, F, ["sub"]),
    "0.0 - x, which is 0.0 for 0.0": (lambda x: 0.0 - x, F, ["sub"]),
    "0 - x, integers": (lambda x: 0 - x, INT, ["sub"]),
    "-0.0 - x, which keeps the sign of a NaN": (lambda x: -0.0 - x, F, ["sub"]),
    "x * 0, which is NaN for infinities": (lambda x: x * 0.0, F, ["mul"]),
    "x * -1, which keeps the sign of a NaN": (lambda x: x * -1.0, F, ["mul"]),
    "x * 2": (lambda x: x * 2.0, F, ["mul"]),
    "1 / x": (lambda x: 1.0 / x, F, ["div"]),
    "x / x": (lambda x: x / x, F, ["div"]),
    "x - x": (lambda x: x - x, F, ["sub"]),
    "floor_div of floats by 1": (lambda x: x // 1.0, F, ["floor_div"]),
    "x ** 1": (lambda x: x**1, F, ["pow"]),
    "a + (-b)": (lambda x: x[:1] + -x[1:], F, ["slice", "slice", "neg", "add"]),
    "a - (-b)": (lambda x: x[:1] - -x[1:], F, ["slice", "slice", "neg", "sub"]),
    "x * ones of a larger shape": (lambda x: x * filled(x, 1.0, (2, 3)), ONE_ROW, ["full", "mul"]),
    "x & 1": (lambda x: x & 1, INT, ["bitwise_and"]),
    "x | 1": (lambda x: x | 1, INT, ["bitwise_or"]),
    "0 << x": (lambda x: 0 << x, INT, ["left_shift"]),
    "x and false": (lambda x: ops.logical_and(x, False), BOOL, ["logical_and"]),
    "x or true": (lambda x: ops.logical_or(x, True), BOOL, ["logical_or"]),
    "-abs(-x)": (lambda x: -ops.abs(-x), F, ["neg", "abs", "neg"]),
    "relu twice": (lambda x: ops.relu(ops.relu(x)), F, ["relu", "relu"]),
    "floor of ceil": (lambda x: ops.floor(ops.ceil(x)), F, ["ceil", "floor"]),
    "maximum(x, x)": (lambda x: ops.maximum(x, x), F, ["maximum"]),
    "clip with a bound": (lambda x: ops.clip(x, 1.0), F, ["clip"]),
    "cast to another dtype and back": (
        lambda x: ops.cast(ops.cast(x, dtype="float64"), dtype="float32"),
        F,
        ["cast", "cast"],
    ),
    "a sum of floats over an axis of extent 1": (lambda x: ops.sum(x, axis=(0,)), ONE_ROW, ["sum"]),
    "a mean over an axis of extent 1": (lambda x: ops.mean(x, axis=(0,)), ONE_ROW, ["mean"]),
    "a maximum over a longer axis": (lambda x: ops.max(x, axis=(0, 1)), ONE_ROW, ["max"]),
    "transpose": (ops.transpose, F, ["transpose"]),
    "flip": (ops.flip, F, ["slice"]),
    "flip by unslice": (
        lambda x: ops.unslice(x, shape=(2, 3), axis=(1,), starts=(2,), stops=(-1,), strides=(-1,)),
        F,
        ["unslice"],
    ),
    "pads with different values": (
        lambda x: ops.pad(ops.pad(x, before=(1, 0), after=(0, 0)), before=(1, 0), after=(0, 0), value=-0.0),
        F,
        ["pad", "pad"],
    ),
    "split elsewhere than joined": (lambda x: ops.split(ops.concat(x, x), sizes=(1, 3)), F, ["concat", "split"]),
    "split along another axis than joined": (
        lambda x: ops.split(ops.concat(x, x), sizes=(1, 2), axis=1),
        F,
        ["concat", "split"],
    ),
    "pieces joined in another order": (lambda x: ops.concat(*ops.split(x, sizes=(1, 1))[::-1]), F, ["split", "concat"]),
    "pieces joined along another axis": (
        lambda x: ops.concat(*ops.split(x, sizes=(1, 1)), axis=1),
        F,
        ["split", "concat"],
    ),
    "a matmul of a transpose": (lambda x: ops.transpose(x) @ x, F, ["transpose", "matmul"]),
    "a choice between x and x": (lambda x: ops.where(x > 0.0, x, x), F, ["greater", "where"]),
}


@pytest.mark.parametrize("what", STAYS)
def test_what_looks_alike_and_is_not_stays(what: str):
    build, x, stay = STAYS[what]
    assert left(build, x) == stay


ANEW: dict[str, tuple[Build, tuple[str, tuple[int, ...]], list[str]]] = {
    "abs twice": (lambda x: ops.abs(ops.abs(x)), F, ["abs"]),
    **{f"{f.name} twice": (lambda x, f=f: f(f(x)), F, [f.name]) for f in (ops.floor, ops.ceil, ops.round, ops.trunc)},
    "reshape twice": (lambda x: ops.reshape(ops.reshape(x, shape=(6,)), shape=(3, 2)), F, ["reshape"]),
    "broadcast twice": (
        lambda x: ops.broadcast_to(ops.broadcast_to(x, shape=(2, 3)), shape=(4, 2, 3)),
        ONE_ROW,
        ["broadcast_to"],
    ),
    "transpose twice": (
        lambda x: ops.transpose(ops.transpose(x, axis=(1, 2, 0)), axis=(1, 2, 0)),
        ("float32", (2, 3, 4)),
        ["transpose"],
    ),
    "transpose of a single row": (ops.transpose, ONE_ROW, ["reshape"]),
    "slice of a slice": (lambda x: x[1:7:2][::-1][1:], ("float32", (9,)), ["slice"]),
    "slice of a slice without elements": (lambda x: x[4:2][::-1], ("float32", (9,)), ["slice"]),
    "slices of different axes": (lambda x: x[1:][:, ::2], F, ["slice"]),
    "pad twice": (lambda x: ops.pad(ops.pad(x, before=(1, 0), after=(0, 2)), before=(1, 1), after=(0, 0)), F, ["pad"]),
    "split as joined": (lambda x: ops.split(ops.concat(-x, x), sizes=(2, 2)), F, ["neg"]),
    "a maximum of single elements": (lambda x: ops.max(x, axis=(0,)), ONE_ROW, ["reshape"]),
    "a minimum of single elements that stay": (lambda x: ops.min(x, axis=(0,), keepdims=True), ONE_ROW, []),
    "a product of single elements": (lambda x: ops.prod(x, axis=(0,)), ONE_ROW, ["reshape"]),
    "any of single elements": (lambda x: ops.any(x), ("bool", (1, 1)), ["reshape"]),
    "all of single elements": (lambda x: ops.all(x), ("bool", ()), []),
    "an integer sum of single elements": (lambda x: ops.sum(x, axis=(0,)), ("int64", (1, 3)), ["reshape"]),
    "an integer sum to a wider dtype": (lambda x: ops.sum(x, axis=(0,)), ("int32", (1, 3)), ["sum"]),
}


@pytest.mark.parametrize("what", ANEW)
def test_what_is_more_than_it_needs_is_written_anew(what: str):
    build, x, stay = ANEW[what]
    assert left(build, x) == stay


def test_every_operator_with_rules_is_in_a_case_that_is_simplified():
    cases = [(build, x) for build, x in GONE.values()] + [(build, x) for build, x, _ in ANEW.values()]
    seen: set[str] = set()
    for build, (dtype, shape) in cases:
        program = Program()
        build(program.input("x", dtype, shape))  # type: ignore[arg-type]
        seen |= {op.type for op in program.block.desc.ops}
    assert {name for name in OPS if rules_of(name)} <= seen


def test_every_rule_says_why_it_is_exact():
    assert all((rule.__doc__ or "").strip() for name in OPS for rule in rules_of(name))


def test_an_op_that_others_read_too_stays_and_is_read_through():
    block = block_after("simplify", lambda x: [-x, ops.neg(-x), ops.exp(ops.neg(-x))], F)
    assert types(block) == ["neg", "exp"]
    assert [fetch.tensor for fetch in block.fetches] == ["neg_1", "x0", "exp_6"]


def test_every_output_keeps_its_name():
    block = block_after("simplify", lambda x: [x * 1.0, ops.identity(x), x], F)
    assert [(fetch.name, fetch.tensor) for fetch in block.fetches] == [("y0", "x0"), ("y1", "x0"), ("y2", "x0")]


def test_random_ops_stay_whatever_their_rate():
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    program.minimize(ops.sum(ops.dropout(x * w, ratio=0.0)), sgd(0.1))
    assert "dropout" in [op.type for op in program.compile().desc.blocks[0].ops]


def test_a_state_may_become_what_it_was():
    program = Program()
    a, b = program.buffer("a", (3,)), program.buffer("b", (3,))
    program.update(a, a * 1.0)
    program.update(b, ops.identity(a))
    _, block = program.compile().desc.blocks
    assert [(update.state, update.tensor) for update in block.updates][:2] == [("a", "a"), ("b", "a")]


def test_what_takes_the_place_of_a_gradient_is_known_as_one():
    program = Program()
    x = program.input("x", "float32", (3,))
    y = ops.exp(x)
    [dy] = gradients(ops.sum(y * ops.sin(x)), [y])
    assert dy is not None
    program.outputs(dy=dy * 1.0)
    _, block = program.compile().desc.blocks
    [fetch] = block.fetches
    [tensor] = [tensor for tensor in block.tensors if tensor.name == fetch.tensor]
    assert tensor.gradient_of == y.name


def test_the_gradient_of_a_parameter_stays_known_as_such():
    program = Program()
    x, w = program.input("x", "float32", (3,)), program.parameter("w", (3,))
    y = ops.identity(w) * 1.0
    program.minimize(ops.sum(ops.square(y * x)), sgd(0.1))
    block = bound_block(program.compile().desc)
    [update] = [op for op in block.ops if op.type == "sgd"]
    links = {tensor.name: tensor.gradient_of for tensor in block.tensors}
    assert links[update.inputs[1]] == "w"


def test_blocks_with_symbols_stay_as_they_were_built():
    program = Program()
    x = program.input("x", "float32", ("batch", 3))
    program.outputs(y=ops.neg(ops.neg(x)))
    compiled = program.compile(batch=4).desc
    [entry] = compiled.entries
    assert types(compiled.blocks[entry.source_block]) == ["neg", "neg"]
    assert [types(compiled.blocks[binding.block]) for binding in entry.bindings] == [[], []]
