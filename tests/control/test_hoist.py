"""Passes across the border of a block inside an op: hoisting, constants, identical operands, known conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import unwrap
from types import CodeType, FunctionType

import numpy as np
import pytest

from compiler import Program, Value, constant, gradients, ops, sgd
from compiler.passes import hoist_invariants
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import run_passes
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.walk import inside
from prograd_proto.files import copy_of
from registry import OPS
from runtime import ExecutionError, Run
from runtime.kernel import KERNELS

XS = np.random.default_rng(3).normal(size=(4, 2, 3)).astype(np.float32)
Build = Callable[[Value], Value | tuple[Value, ...]]


def trained_states(desc: pb.ProgramDesc) -> dict[str, np.ndarray]:
    """Return the states after three training steps on `XS`."""
    run = Run(copy_of(desc), engine="reference")
    for _ in range(3):
        run.step({"x": XS}, entry="train")
    states = {name: array.copy() for name, array in run.states.arrays.items()}
    run.close()
    return states


def compiled(build: Build, *without: str, sizes: int = 4) -> pb.ProgramDesc:
    program = Program(seed=3)
    x = program.input("x", "float32", (sizes, 2, 3))
    made = build(x)
    program.outputs(**{f"y{i}": y for i, y in enumerate(made if isinstance(made, tuple) else (made,))})
    return program.compile(PASSES.without(*without)).desc


def blocks(desc: pb.ProgramDesc) -> list[list[str]]:
    """The op types of the block that runs and of those inside its ops, but for constants."""
    numbers = inside(desc, [desc.entries[0].bindings[0].block])
    return [[op.type for op in desc.blocks[number].ops if op.type != "constant"] for number in numbers]


def results(desc: pb.ProgramDesc, x: np.ndarray, engine: str = "reference") -> dict[str, np.ndarray]:
    run = Run(desc, engine=engine)
    try:
        return run.step({"x": x}, entry="predict")
    finally:
        run.close()


def same_bits(build: Build, *without: str, x: np.ndarray = XS) -> list[list[str]]:
    """Compare the bits with and without passes; return the op types with all of them."""
    desc = compiled(build, sizes=len(x))
    one, other = results(desc, x), results(compiled(build, *without, sizes=len(x)), x)
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name
    return blocks(desc)


def last(step: Callable[[Value, Value], Value], x: Value) -> Value:
    return ops.scan(lambda c, row: (step(c, row), None), x[0], x)[0]


def test_an_op_of_shared_tensors_is_computed_before_the_loop_with_its_bits():
    found = same_bits(lambda x: last(lambda c, row: ops.sin(c) * ops.tanh(x[1]) + row, x), "hoist_invariants")
    assert found[0].count("tanh") == 1
    assert sorted(found[1]) == ["add", "mul", "sin"]


def test_an_op_leaves_several_loops():
    def build(x: Value) -> Value:
        return last(lambda c, row: last(lambda d, line: d * ops.tanh(x[1]) + ops.exp(row), x) + c, x)

    outer, middle, inner = same_bits(build, "hoist_invariants")
    assert "tanh" in outer
    assert "exp" in middle
    assert sorted(inner) == ["add", "mul"]


def test_a_whole_loop_is_invariant_if_its_operands_are():
    found = same_bits(lambda x: last(lambda c, row: c + last(lambda d, line: d * line, x), x), "hoist_invariants")
    assert found[0].count("scan") == 2
    assert found[1:] in ([["add"], ["mul"]], [["mul"], ["add"]])


def test_a_carry_that_stays_as_it_is_is_invariant():
    def build(x: Value) -> Value:
        (c, _), _ = ops.scan(lambda c, row: ((c[0] * ops.tanh(c[1]) + row, c[1]), None), (x[0], x[1]), x)
        return c

    assert "tanh" in same_bits(build, "hoist_invariants")[0]


def test_an_op_of_constants_alone_is_hoisted_and_folded():
    def build(x: Value) -> Value:
        def step(c: Value, row: Value) -> Value:
            two = ops.full.on(row.block.root.active)(shape=(), value=2.0)
            return c + ops.tanh(two) * row

        return last(step, x)

    found = same_bits(build, "hoist_invariants")
    assert "tanh" in found[0]
    assert "tanh" not in found[1]


def test_both_blocks_of_a_while_loop_lose_what_is_invariant():
    def build(x: Value) -> Value:
        limit = ops.sum(ops.square(x))
        found, _ = ops.while_loop(
            lambda c: ops.sum(c) < ops.sqrt(limit) + 9.0, lambda c: c + ops.exp(x[1]), ops.square(x[0])
        )
        return found

    outer, condition, body = same_bits(build, "hoist_invariants")
    assert {"sqrt", "exp"} < {*outer}
    assert condition == ["sum", "less"]
    assert body == ["add"]


def test_views_constants_and_results_that_grow_stay_unless_another_op_needs_them():
    def build(x: Value) -> tuple[Value, ...]:
        def step(c: Value, row: Value) -> tuple[Value, None]:
            wide = ops.broadcast_to(x[1, 0], shape=(2, 3))
            turned = ops.reshape(x[2], shape=(3, 2))
            return c * wide + row + ops.reshape(ops.tanh(turned), shape=(2, 3)) + ops.sum(turned), None

        return ops.scan(step, x[0], x)[0]

    outer, body = same_bits(build, "hoist_invariants")
    assert {"tanh", "sum", "reshape"} < {*outer}
    assert "broadcast_to" not in outer
    assert "broadcast_to" in body


def test_a_view_of_what_is_hoisted_may_stay_and_be_hoisted_too():
    def build(x: Value) -> Value:
        def step(c: Value, row: Value) -> Value:
            turned = ops.reshape(ops.tanh(x[1]), shape=(3, 2))
            return ops.reshape(ops.sin(turned) + turned, shape=(2, 3)) * c + row * ops.sum(c @ turned)

        return last(step, x)

    outer, body = same_bits(build, "hoist_invariants")
    assert {"tanh", "sin"} < {*outer}
    assert {"tanh", "sin"}.isdisjoint(body)


def test_random_ops_are_neither_hoisted_nor_merged_nor_folded():
    def build(x: Value) -> tuple[Value, ...]:
        def step(c: Value, row: Value) -> tuple[Value, Value]:
            noise = ops.uniform.on(x.block.program)(shape=(2, 3))
            return c + ops.sqrt(noise), noise

        found, noise = ops.scan(step, x[0], x)
        return found, noise

    outer, body = same_bits(build, "hoist_invariants", "merge_identical", "fold_constants")
    assert "uniform" not in outer
    assert {"uniform", "sqrt"} < {*body}
    noise = results(compiled(build), XS)["y1"]
    assert len({row.tobytes() for row in noise}) == 4


def test_what_may_stop_a_run_stays_in_a_loop_that_may_make_no_trip():
    def build(x: Value) -> Value:
        index = ops.cast(ops.sum(x[1]) * 0.0 + 7.0, dtype="int64")

        def trip(c: Value) -> Value:
            return c + ops.gather(x, index) * ops.tanh(x[1])

        return ops.while_loop(lambda c: ops.sum(c) < -1e9, trip, x[0])[0]

    desc = compiled(build)
    outer, _, body = blocks(desc)
    assert ("gather" in outer, "gather" in body, "tanh" in outer) == (False, True, True)
    np.testing.assert_array_equal(results(desc, XS)["y0"], XS[0])


def test_what_may_stop_a_run_leaves_a_loop_that_runs():
    def build(x: Value) -> Value:
        index = ops.cast(ops.sum(x[1]) * 0.0 + 7.0, dtype="int64")
        return last(lambda c, row: c + ops.gather(x, index), x)

    desc = compiled(build)
    assert "gather" in blocks(desc)[0]
    with pytest.raises(ExecutionError):
        results(desc, XS)


def test_a_loop_without_a_bound_stays_in_a_loop_that_may_make_no_trip():
    def build(x: Value) -> Value:
        def endless() -> Value:
            return ops.while_loop(lambda c: ops.sum(c * 0.0) < 1.0, lambda c: c * 0.5, x[1])[0]

        return ops.while_loop(lambda c: ops.sum(c) < -1e9, lambda c: c + endless(), x[0])[0]

    np.testing.assert_array_equal(results(compiled(build), XS)["y0"], XS[0])


def test_branches_keep_their_ops():
    def build(x: Value) -> Value:
        return last(lambda c, row: ops.cond(ops.sum(row) > 0, lambda: c + ops.tanh(x[1]), lambda: c * row), x)

    found = same_bits(build, "hoist_invariants")
    assert "tanh" not in found[0]
    assert "tanh" not in found[1]


def test_a_loop_of_no_rows_is_left_alone():
    found = same_bits(lambda x: last(lambda c, row: c * ops.tanh(row), x), "hoist_invariants")
    assert found[1] == ["tanh", "mul"]
    empty = np.zeros((4, 2, 3), np.float32)

    def build(x: Value) -> Value:
        return ops.scan(lambda c, _: (c + ops.tanh(x[1]), None), x[0], length=0)[0]

    assert "tanh" not in same_bits(build, "hoist_invariants", x=empty)[0]


def test_constants_from_outside_are_folded_inside():
    def build(x: Value) -> Value:
        one = ops.full.on(x.block)(shape=(), value=2.0) - 1.0
        return last(lambda c, row: c * one + row, x)

    outer, body = same_bits(build, "fold_constants")
    assert body == ["add"]
    assert "full" not in outer


def test_ops_of_operands_that_turn_out_identical_are_merged_inside():
    def build(x: Value) -> Value:
        a, b = ops.tanh(x[1]), ops.tanh(x[1])
        return last(lambda c, row: (c * row + a) * ops.sin(c * row + b), x)

    outer, body = same_bits(build, "merge_identical")
    assert outer.count("tanh") == 1
    assert body.count("add") == 1


def test_hoisted_ops_are_merged_with_those_outside():
    outer, body = same_bits(
        lambda x: last(lambda c, row: c * ops.tanh(x[1]) + row, x) + ops.tanh(x[1]), "hoist_invariants"
    )
    assert outer.count("tanh") == 1
    assert body == ["mul", "add"]


@pytest.mark.parametrize("value", [True, False])
def test_a_condition_that_is_known_becomes_its_branch(value: bool):
    def build(x: Value) -> tuple[Value, ...]:
        known = ops.full.on(x.block)(shape=(), value=float(value)) > 0.5
        return ops.cond(known, lambda: (ops.tanh(x[0]), x[1], last(lambda c, r: c + r, x)), lambda: (x[0], x[0], x[0]))

    found = same_bits(build, "fold_constants")
    assert len(found) == (2 if value else 1)
    assert "cond" not in found[0]
    assert ("tanh" in found[0]) == value


def test_nothing_of_a_branch_that_is_known_not_to_be_taken_stays_in_the_file():
    def build(x: Value) -> Value:
        known = ops.full.on(x.block)(shape=(), value=1.0) > 0.5

        def other() -> Value:
            return last(lambda c, r: ops.cond(ops.sum(r) > 0.0, lambda: ops.cosh(c), lambda: ops.sinh(c) + r), x)

        return ops.cond(known, lambda: last(lambda c, r: ops.tanh(c) + r, x), other)

    desc = compiled(build)
    assert same_bits(build, "fold_constants") == blocks(desc)
    roots = [n for entry in desc.entries for n in (entry.source_block, *(b.block for b in entry.bindings))]
    used = {*roots, *inside(desc, roots)}
    left = [op.type for number, block in enumerate(desc.blocks) if number not in used for op in block.ops]
    assert left == []


def test_an_op_with_an_effect_stays_in_its_loop(monkeypatch: pytest.MonkeyPatch):
    def build(x: Value) -> Value:
        return last(lambda c, row: c * row + ops.tanh(x[1]), x)

    assert "tanh" in blocks(compiled(build))[0]
    monkeypatch.setattr(hoist_invariants, "effects_of", lambda op_type: ("toy",) if op_type == "tanh" else ())
    assert "tanh" in blocks(compiled(build))[1]


def test_dead_results_carries_and_operands_go_with_what_only_they_need():
    def build(x: Value) -> Value:
        def step(c: tuple[Value, ...], row: Value) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
            return (c[0] + row, c[1] * ops.exp(x[1])), (ops.sin(row), ops.cos(row))

        (a, _), (b, _) = ops.scan(step, (x[0], x[0]), x)
        return ops.sum(b) + a

    outer, body = blocks(compiled(build))
    assert sorted(body) == ["add", "sin"]
    assert "exp" not in outer


def training(*without: str) -> tuple[pb.ProgramDesc, dict[str, bytes]]:
    program = Program(seed=3)
    x = program.input("x", "float32", (4, 2, 3))
    w = program.parameter("w", (3, 3), constant(0.3))

    def step(c: Value, row: Value) -> tuple[Value, Value]:
        scaled = ops.tanh(w) * 2.0
        return ops.tanh(row @ scaled + c @ scaled), ops.sum(c)

    state, sums = ops.scan(step, x[0], x)
    program.minimize(ops.sum(state * state) + ops.sum(sums), sgd(0.1))
    desc = program.compile(PASSES.without(*without)).desc
    return desc, {name: array.tobytes() for name, array in trained_states(desc).items()}


def test_training_has_equal_bits_and_the_body_and_its_gradient_both_lose_their_invariants():
    desc, found = training()
    assert found == training("hoist_invariants")[1]
    train = next(entry for entry in desc.entries if entry.name == "train")
    _, *inner = inside(desc, [train.bindings[0].block])
    computed = [(op.type, *(op.inputs)) for number in inner for op in desc.blocks[number].ops]
    assert len(inner) == 2
    assert sum(op[0] == "tanh" for op in computed) == 1


def test_hoisting_twice_changes_nothing():
    desc = compiled(lambda x: last(lambda c, row: c * ops.tanh(x[1]) + row, x))
    before = [block.SerializeToString() for block in desc.blocks]
    run_passes(desc, PASSES.only("hoist_invariants"))
    assert [block.SerializeToString() for block in desc.blocks] == before


def test_a_gradient_through_hoisted_ops_is_that_of_the_unrolled_loop():
    def loss(x: Value, step: Callable[[Value, Value], Value], unrolled: bool) -> Value:
        c = x[0]
        rows: Sequence[Value] = [x[i] for i in range(4)]
        if unrolled:
            for row in rows:
                c = step(c, row)
        else:
            c = last(step, x)
        return ops.sum(ops.square(c))

    def build(unrolled: bool) -> Build:
        def built(x: Value) -> Value:
            [dx] = gradients(loss(x, lambda c, row: c * ops.sin(ops.exp(x[1])) + row, unrolled), [x])
            assert dx is not None
            return dx

        return built

    one, other = (results(compiled(build(unrolled)), XS)["y0"] for unrolled in (False, True))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_operators_whose_kernels_may_stop_a_run_have_the_trait():
    def may_raise(function: Callable[..., object], seen: set[object]) -> bool:
        code = function.__code__
        if code in seen:
            return False
        seen.add(code)
        names = {*code.co_names, *(n for c in code.co_consts if isinstance(c, CodeType) for n in c.co_names)}
        called = [function.__globals__.get(name) for name in names]
        return bool(names & {"OutOfRange", "ExecutionError"}) or any(
            may_raise(each, seen) for each in called if isinstance(each, FunctionType)
        )

    kernels = {
        name: unwrap(kernel.function) for name, kernel in KERNELS.items() if name in OPS and not kernel.elementwise
    }
    found = {name for name, function in kernels.items() if may_raise(function, set())}
    assert found == {name for name, op in OPS.items() if name in kernels and op.traits.stops}
