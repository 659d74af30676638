"""Effects: ops with effects run exactly as often as the program says, in order, after any passes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subjects.commands import told
from subjects.steps import Stepper, bound_block

from compiler import CompileError, Program, Value, constant, gradients, momentum, ops, sgd
from compiler.analyses.step_graph import step_graph
from compiler.build import plugins
from compiler.build.compiled import Compiled
from compiler.passes.verify import verify
from prograd_proto import ProgramError, TensorType, upgrades
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from prograd_proto.files import load
from prograd_proto.tensor_types import tensor_desc
from registry.op import OPS, op
from registry.traits import exact
from runtime.check import check_program
from runtime.engines.reference.target import REFERENCE
from runtime.kernel import KERNELS, Array, Effect, kernel
from runtime.operators import CONTRACTS
from runtime.step import Touched, dependencies

DONE: list[tuple[str, int]] = []
"""Actions of the toy ops, each with the number of the op; all ops share this resource."""

RESOURCES = ("counter", "generator", "link")
"""A count, numbers drawn one after the other, what processes tell each other: to a step they are all alike."""


def _rule(x: TensorType, *, which: int, resource: str) -> TensorType:
    return x


def _declare(name: str, *effects: Effect) -> None:
    """An operator with an effect, whose result is its operand's copy."""

    def infer(x: Value, *, which: int = 0, resource: str = "counter") -> TensorType:
        return x.type

    def rule(x: Value, y: Value, dy: Value) -> Value:
        return dy

    def compute(x: Array, *, which: int, resource: str, out: Array) -> None:
        DONE.append((name, which))
        np.copyto(out, x)

    infer.__name__ = compute.__name__ = name
    infer.__doc__ = f"{name}: for tests."
    declared = exact(op(namespace="toy")(infer))
    declared.gradient(rule)
    kernel(_rule, effects=effects, namespace="toy")(compute)


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    """Operators of a plugin: for each resource one that changes it, and one that looks at it."""
    tables = OPS, CONTRACTS, KERNELS, upgrades.OPERATOR_VERSIONS
    before = [set(table) for table in tables]
    for resource in RESOURCES:
        _declare(f"change_{resource}", Effect(resource, "writes"))
        _declare(f"look_at_{resource}", Effect(resource, "reads"))
    plugins.USED.add("toy")
    DONE.clear()
    yield
    plugins.USED.discard("toy")
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            del table[name]


def change(x: Value, which: int, resource: str = "counter") -> Value:
    return OPS[f"toy.change_{resource}"](x, which=which)


def look(x: Value, which: int, resource: str = "counter") -> Value:
    return OPS[f"toy.look_at_{resource}"](x, which=which)


def done() -> list[int]:
    """Return the numbers of the ops that ran since the last call, in order."""
    found = [which for _, which in DONE]
    DONE.clear()
    return found


def layers(depth: int = 6, width: int = 16) -> Program:
    """A chain of layers that each tell the counter, with a budget to be short of."""
    program = Program("layers", seed=3)
    x = h = program.input("x", "float32", ("n", width))
    for i in range(depth):
        w = program.parameter(f"w{i}", (width, width), constant(0.1 + i / 50))
        h = change(ops.tanh(h @ w), i)
        look(ops.exp(h), 100 + i)
    program.minimize(ops.mean(ops.square(h - x)), momentum(0.1))
    return program


def of_toys(compiled: Compiled) -> list[pb.OpDesc]:
    return [op for op in bound_block(compiled.desc).ops if op.type.startswith("toy.")]


def after_steps(compiled: Compiled, **options: object) -> list[int]:
    stepper = Stepper(compiled, **options)
    for _ in range(5):
        stepper.step(x=np.ones((32, 16), "float32"))
    return done()


def test_an_op_that_others_see_runs_although_nothing_reads_it():
    program = Program()
    w = program.parameter("w", (3,), constant(1.0))
    change(ops.exp(w), 7)
    program.minimize(ops.sum(w), sgd(0.1))
    stepper = Stepper(program.compile())
    stepper.step()
    stepper.step()
    assert done() == [7, 7]


def test_an_op_that_only_looks_goes_if_nothing_reads_it():
    compiled = layers().compile(n=32)
    assert [op.type for op in of_toys(compiled)] == ["toy.change_counter"] * 6


def test_ops_with_effects_are_neither_merged_nor_computed_beforehand():
    program = Program()
    w = program.parameter("w", (3,), constant(1.0))
    two = ops.full.on(program.block)(shape=(3,), value=2.0)
    y = change(two, 1) + change(two, 1) + look(two, 2) + look(two, 2)
    program.minimize(ops.sum(w * y), sgd(0.1))
    Stepper(program.compile()).step()
    assert done() == [1, 1, 2, 2]


@pytest.mark.parametrize("options", [{}, {"threads": 4, "large": 0}])
@pytest.mark.parametrize("plan", [None, "budget", "spill", "threads"])
def test_effects_happen_in_the_order_of_the_source(plan: str | None, options: dict[str, object]):
    compiled = layers().compile(n=32)
    arena = compiled.desc.entries[0].bindings[0].plan.arena_bytes
    match plan:
        case "budget":
            assert compiled.plan(budget=arena * 4 // 5).bindings[0].repeated
        case "spill":
            compiled.plan(budget=arena * 3 // 5, spill=True)
            assert any(op.type == "reload" for op in bound_block(compiled.desc).ops)
        case "threads":
            compiled.plan(threads=4)
        case _:
            pass
    assert not any(op.recompute_of for op in of_toys(compiled))
    assert after_steps(compiled, **options) == [*range(6)] * 5


def test_a_block_without_updates_keeps_the_effects_that_its_outputs_need_and_no_others():
    program = Program()
    x = program.input("x", "float32", (2,))
    y = change(x, 1)
    change(y, 2)
    program.outputs(y=y)
    Stepper(program.compile(), "predict").step(x=np.zeros(2, "float32"))
    assert done() == [1]


def test_a_gradient_through_an_op_with_an_effect_does_not_repeat_the_effect():
    program = Program()
    w = program.parameter("w", (3,), constant(1.0))
    loss = ops.sum(ops.square(change(ops.exp(w), 5)))
    [dw] = gradients(loss, [w])
    program.minimize(loss + ops.sum(ops.square(dw)), sgd(0.1))
    Stepper(program.compile()).step()
    assert done() == [5]


@pytest.mark.thorough
@given(st.data())
@settings(max_examples=40, deadline=None, database=None)
def test_of_two_ops_on_one_resource_the_first_stays_first_if_either_changes_it(data):
    program = Program()
    w = program.parameter("w", (8,), constant(1.0))
    values = [w, ops.exp(w)]
    for i in range(data.draw(st.integers(2, 9))):
        x = data.draw(st.sampled_from(values))
        toy, resource = data.draw(st.sampled_from([change, look])), data.draw(st.sampled_from(RESOURCES))
        values.append(toy(ops.tanh(x), i, resource))
    program.minimize(ops.sum(sum(values[3:], values[2])), sgd(0.1))
    compiled = program.compile()
    if data.draw(st.booleans()):
        compiled.plan(threads=data.draw(st.integers(2, 4)))
    Stepper(compiled, threads=2, large=0).step()
    ran = list(DONE)
    DONE.clear()
    assert sorted(which for _, which in ran) == list(range(len(values) - 2))
    for (one, first), (other, second) in combinations(ran, 2):
        same = one.rpartition("_")[2] == other.rpartition("_")[2]
        if same and "change" in one + other:
            assert first < second, f"{other} {second} came after {one} {first}"


def test_only_ops_that_meet_at_a_resource_wait_for_each_other():
    reads, writes = Effect("a", "reads"), Effect("a", "writes")
    other, own = Effect("b", "writes"), Effect("a", "writes", confined=True)
    effects = [[writes], [reads], [reads], [other], [own], [writes], [reads, other], []]
    found = dependencies([Touched([], [], each) for each in effects])
    assert found == [set(), {0}, {0}, set(), set(), {0, 1, 2}, {3, 5}, set()]


def test_the_graph_of_a_step_has_an_edge_from_each_effect_to_the_next():
    block = bound_block(layers().compile(n=32).desc)
    toys = [i for i, op in enumerate(block.ops) if op.type.startswith("toy.")]
    before = step_graph(BlockAnalysis(block)).before
    assert all(first in before[second] for first, second in pairwise(toys))


def test_the_compiler_refuses_an_op_that_repeats_an_effect():
    compiled = layers().compile(n=32)
    block = bound_block(compiled.desc)
    [toy, *_] = of_toys(compiled)
    again = block.ops.add()
    again.CopyFrom(toy)
    again.id, again.recompute_of = 999, toy.id
    again.outputs[:] = ["again"]
    block.tensors.append(tensor_desc("again", TensorType("float32", (32, 16))))
    assert told(CompileError, lambda: verify(BlockAnalyses(compiled.desc))) == (
        f"block 2: op 999 (toy.change_counter) is no repetition of op {toy.id}; this breaks the rule: every op that "
        "recomputes another one follows it, has its type, attributes and random stream, and no effects"
    )


def test_the_runtime_refuses_an_initial_value_with_an_effect():
    program = layers().compile(n=32).desc
    [w, *_] = [state for state in program.states if state.kind == pb.STATE_KIND_PARAMETER]
    w.op.CopyFrom(pb.OpDesc(id=1, type="spill", inputs=["step"], outputs=[w.name], stage=pb.STAGE_FORWARD))
    w.dtype = pb.D_TYPE_INT64
    w.shape.Clear()
    program.operators.add(type="spill", version=1)
    with pytest.raises(ProgramError) as refused:
        check_program(program, REFERENCE)
    assert str(refused.value) == f"state {w.name!r}: its initial op has effects, which only an op of a step has"


def test_a_view_cannot_have_effects():
    def nothing(x: Array, *, out: Array) -> None: ...

    with pytest.raises(ProgramError) as refused:
        kernel(lambda x: x, view=True, effects=(Effect("counter", "writes"),), namespace="toy")(nothing)
    assert str(refused.value) == "kernel 'toy.nothing' is a view, which does nothing, and has effects"
    assert "toy.nothing" not in CONTRACTS


def test_a_program_with_effects_is_saved_and_loaded(tmp_path: Path):
    compiled = layers().compile(n=32)
    compiled.save(tmp_path / "p.pb")
    Stepper(load(tmp_path / "p.pb")).step(x=np.ones((32, 16), "float32"))
    assert done() == [*range(6)]
