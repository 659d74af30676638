"""Programs with conditions and loops from the builder to both engines, files and tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz.engines import judged, stepped
from subjects.commands import told
from subjects.steps import Oracle, Stepper, same_bits

from compiler import Compiled, Program, constant, gradients, ops, sgd
from prograd import layers
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks.walk import inside
from prograd_proto.identity import program_sha256
from prograd_proto.text import from_text, to_text
from registry import Value
from runtime.check import check_program
from runtime.engines.choice import ENGINES
from runtime.errors import ExecutionError, NonFinite
from runtime.target import TARGET

X = np.random.default_rng(3).normal(size=(2, 5, 3)).astype(np.float32)


def recurrent(save: str = "all") -> Program:
    """A network with a loop over time, a condition in it, and a loop until a number is small."""
    program = Program("recurrent", seed=3)
    x = program.input("x", "float32", ("batch", 5, 3))
    h0 = program.parameter("h0", (1, 4))

    def step(h: Value, row: Value) -> tuple[Value, Value]:
        with program.scope("cell", reuse=True):
            new = layers.dense(row, "in", 4)
            h = ops.tanh(new + h @ program.parameter("r", (4, 4)))
        h = ops.cond(ops.sum(h) > 0, lambda: h * 1.5, lambda: ops.sin(h) * program.parameter("w", (4,)))
        return h, h

    first = ops.broadcast_to(h0, shape=("batch", 4))
    last, rows = ops.scan(step, first, ops.transpose(x, axis=(1, 0, 2)), save=save)
    small, trips = ops.while_loop(
        lambda c: ops.mean(ops.square(c)) > 0.05, lambda c: c * 0.7, last, max_trips=9, save=save
    )
    program.minimize(ops.mean(ops.square(rows)) + ops.mean(small), sgd(0.1))
    program.outputs(last=last, trips=trips)
    return program


def unrolled() -> Program:
    """The loop over time, written out."""
    program = Program("recurrent", seed=3)
    x = program.input("x", "float32", ("batch", 5, 3))
    h0 = program.parameter("h0", (1, 4))
    h, rows = ops.broadcast_to(h0, shape=("batch", 4)), list[Value]()
    for i in range(5):
        with program.scope("cell", reuse=True):
            new = layers.dense(x[:, i], "in", 4)
            h = ops.tanh(new + h @ program.parameter("r", (4, 4)))
        h = h * 1.5
        rows.append(h)
    program.minimize(ops.mean(ops.square(ops.stack(*rows))) + ops.mean(h), sgd(0.1))
    return program


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return recurrent().compile(batch=2)


@pytest.mark.parametrize("save", ["all", "carries"])
def test_training_has_the_bits_of_the_oracle_without_arena_and_plan(save: str):
    program = recurrent(save).compile(batch=2)
    stepper = Stepper(program, plan=program.desc.entries[0].bindings[0].plan)
    oracle = Oracle(program.desc, stepper.snapshot())
    for _ in range(3):
        same_bits(stepper.step(x=X), oracle.step(x=X))
    same_bits(stepper.snapshot(), oracle.states)


def test_what_is_saved_changes_no_more_than_rounding():
    one, other = (Stepper(recurrent(save).compile(batch=2)) for save in ("all", "carries"))
    for _ in range(3):
        one.step(x=X)
        other.step(x=X)
    for name, array in one.snapshot().items():
        np.testing.assert_allclose(array, other.snapshot()[name], rtol=1e-6)


def test_a_scan_trains_as_the_loop_written_out():
    program = Program("recurrent", seed=3)
    x = program.input("x", "float32", ("batch", 5, 3))
    h0 = program.parameter("h0", (1, 4))

    def step(h: Value, row: Value) -> tuple[Value, Value]:
        with program.scope("cell", reuse=True):
            new = layers.dense(row, "in", 4)
            h = ops.tanh(new + h @ program.parameter("r", (4, 4))) * 1.5
        return h, h

    first = ops.broadcast_to(h0, shape=("batch", 4))
    last, rows = ops.scan(step, first, ops.transpose(x, axis=(1, 0, 2)))
    program.minimize(ops.mean(ops.square(rows)) + ops.mean(last), sgd(0.1))
    one, other = Stepper(program.compile(batch=2)), Stepper(unrolled().compile(batch=2))
    for _ in range(3):
        np.testing.assert_allclose(one.step(x=X)["loss"], other.step(x=X)["loss"], rtol=1e-6, atol=5e-7)
    for name, array in one.snapshot().items():
        np.testing.assert_allclose(array, other.snapshot()[name], rtol=1e-5, atol=1e-6)


def test_layers_called_in_a_body_declare_their_states_once():
    assert [name for name in recurrent().states if "." in name] == ["cell.in.w", "cell.in.b", "cell.r"]


def test_both_engines_and_threads_agree(compiled: Compiled):
    verdict = judged(compiled.desc, {"x": X}, (1, 2), "control")
    assert verdict.word == "agreed", verdict


def test_the_native_engine_says_which_loops_it_compiles(compiled: Compiled):
    from runtime.engines.engine import EngineOptions
    from runtime.entries import bound_entries

    engine = ENGINES["native"](compiled.desc, EngineOptions())
    lines = list(engine.explain(bound_entries(compiled.desc, "predict")[0]))
    assert "compiled with their blocks: scan 1, while_loop 1" in [line.strip() for line in lines]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint8", "float16", "bfloat16"])
def test_carries_of_every_dtype_that_change_places_on_both_engines(dtype: str):
    program = Program()
    x = program.input("x", "float32", (3, 2))
    given = ops.cast(x, dtype=dtype)  # pyright: ignore[reportArgumentType]: a name of a dtype
    (a, b, c), rows = ops.scan(lambda c, row: ((c[1], c[2], row), c[0]), (given[0], given[1], given[2]), given)
    values = {name: ops.cast(v, dtype="float64") for name, v in (("a", a), ("b", b), ("c", c), ("rows", rows))}
    program.outputs(**values)
    feed = np.array([[0, 1], [1, 0], [1, 1]], np.float32)
    for engine in ("reference", "native"):
        found = stepped(program.compile().desc, "predict", {"x": feed}, 1, engine)[0]
        for name, wanted in (("a", feed[0]), ("b", feed[1]), ("c", feed[2]), ("rows", feed)):
            np.testing.assert_array_equal(found[name], wanted, err_msg=f"{name} {engine}")


def test_a_file_and_its_text_give_the_program_back(compiled: Compiled, tmp_path: Path):
    assert from_text(to_text(compiled.desc)) == compiled.desc
    compiled.save(tmp_path / "p.pb")
    opened = Program.load(tmp_path / "p.pb")
    assert program_sha256(opened.compile().desc) == program_sha256(compiled.desc)
    opened.entry("twice", y=opened.fetched("predict")["last"] * 2.0)
    again = opened.compile().desc
    found = stepped(again, "twice", {"x": X}, 1, "reference")[0]["y"]
    np.testing.assert_array_equal(found, stepped(again, "predict", {"x": X}, 1, "reference")[0]["last"] * 2)


def test_frozen_parameters_leave_the_loops(compiled: Compiled):
    program = recurrent()
    program.freeze("cell.*", "h0")
    [frozen, whole] = [desc.entries[0].bindings[0].block for desc in (program.compile(batch=2).desc, compiled.desc)]
    assert frozen == whole

    def count(desc: pb.ProgramDesc) -> int:
        return sum(len(desc.blocks[n].ops) for n in inside(desc, [frozen]))

    assert count(program.compile(batch=2).desc) < count(compiled.desc) - 10
    stepper = Stepper(program.compile(batch=2))
    before = stepper.snapshot()
    stepper.step(x=X)
    changed = [name for name, array in stepper.snapshot().items() if not np.array_equal(array, before[name])]
    assert changed == ["step", "w"]


def test_gradients_outside_training_go_through_loops():
    program = Program()
    x = program.input("x", "float32", (4, 3))

    def step(c: Value, row: Value) -> tuple[Value, None]:
        return ops.dropout(c * row, ratio=0.5), None

    last, _ = ops.scan(step, x[0], x[1:])
    [dx] = gradients(ops.sum(last), [x])
    program.outputs(y=last, dx=dx)
    feed = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    found = stepped(program.compile().desc, "predict", {"x": feed}, 1, "reference")[0]
    np.testing.assert_array_equal(found["y"], feed.prod(0))
    np.testing.assert_allclose(found["dx"], feed.prod(0) / feed, rtol=1e-6)


def failing() -> Program:
    program = Program()
    x = program.input("x", "float32", (4, 3))
    program.outputs(y=ops.scan(lambda c, row: (c, ops.log(row)), x[0], x)[1])
    return program


def test_checking_for_nan_names_the_iteration_and_the_op():
    stepper = Stepper(failing().compile(), "predict", check_nan=True)
    feed = np.ones((4, 3), np.float32)
    stepper.step(x=feed)
    feed[2] = -1.0
    with pytest.raises(NonFinite) as error:
        stepper.step(x=feed)
    assert "(scan from tests/control/test_runs.py:" in str(error.value)
    assert "iteration 2: op 1 (log from tests/control/test_runs.py:" in str(error.value)
    assert "has 3 of 3 elements that are NaN or Inf" in str(error.value)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_fault_names_the_iteration_on_both_engines(engine: str):
    program = Program()
    x, i = program.input("x", "float32", (3,)), program.input("i", "int64", (4, 1))
    program.outputs(y=ops.map(lambda i: ops.gather(x, i), i))
    feed = {"x": np.ones(3, np.float32), "i": np.array([[0], [1], [7], [2]])}
    with pytest.raises(ExecutionError, match=r"op \d+ \(scan from .*\): iteration 2: op \d+ \(gather from .*7"):
        stepped(program.compile().desc, "predict", feed, 1, engine)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_loop_that_never_ends_is_ended_by_the_limit_of_time(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from runtime.__main__ import main

    program = Program()
    x = program.input("x", "float32", ())
    program.outputs(y=ops.while_loop(lambda c: c > -1.0, lambda c: c * 0.5, x)[0])
    program.compile().save(tmp_path / "p.pb")
    np.save(tmp_path / "x.npy", np.float32(1.0))
    monkeypatch.chdir(tmp_path)
    arguments = ["execute", "p.pb", "--entry", "predict", "--feed=x=@x.npy", "-q", "--max-time", "0.7"]
    assert main([*arguments, "--engine", engine]) == 6


Spoil = Callable[[pb.ProgramDesc, pb.OpDesc, pb.BlockDesc], object]

SPOILT: dict[str, tuple[Spoil, str]] = {
    "no such block": (lambda p, op, b: op.blocks.__setitem__(0, 999), "its block 999 does not exist"),
    "a block of an entry": (
        lambda p, op, b: op.blocks.__setitem__(0, p.entries[0].source_block),
        "belongs to another op or entry",
    ),
    "itself": (lambda p, op, b: b.ops[0].blocks.append(op.blocks[0]), "has sub-blocks, which its kernel does not run"),
    "too many": (lambda p, op, b: op.blocks.append(0), "belongs to another op or entry"),
    "no result": (lambda p, op, b: b.results.pop(0), "its outputs are"),
    "a result of nothing": (lambda p, op, b: b.results.append("nothing"), "the result %nothing is not described"),
    "an argument twice": (lambda p, op, b: b.parameters.append(b.parameters[0]), "two parameters are the argument 0"),
    "an argument too many": (
        lambda p, op, b: setattr(b.parameters[0], "argument", 999),
        "reads the argument 999, and there are",
    ),
    "a state": (lambda p, op, b: setattr(b.parameters[0], "state", "w"), "is no argument"),
    "an update": (lambda p, op, b: b.updates.add(state="w", tensor=b.results[0]), "updates a state or has a fetch"),
    "many carries": (lambda p, op, b: setattr(op.attributes[0], "int_value", 99), "fewer than the"),
    "negative carries": (lambda p, op, b: setattr(op.attributes[0], "int_value", -1), "is negative"),
    "many rows": (
        lambda p, op, b: setattr(op.attributes[2].shape_value.dims[0], "size", 1 << 50),
        "rows, not 0 to 1099511627776",
    ),
    "other rows": (lambda p, op, b: setattr(op.attributes[2].shape_value.dims[0], "size", 6), "it reads 6 rows of"),
    "counted": (lambda p, op, b: setattr(op.attributes[3], "bool_value", True), "its number of trips is"),
    "saves": (lambda p, op, b: setattr(op.attributes[5], "string_value", "some"), "is neither 'all' nor 'carries'"),
    "an output less": (lambda p, op, b: op.outputs.pop(), "its outputs are"),
    "a stream": (lambda p, op, b: setattr(op, "random_stream", 5), "only the ops in its blocks draw"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_loop_is_refused_before_anything_is_allocated(how: str, compiled: Compiled):
    spoil, sentence = SPOILT[how]
    desc = pb.ProgramDesc()
    desc.CopyFrom(compiled.desc)
    check_program(desc, TARGET)
    block = desc.blocks[desc.entries[0].bindings[0].block]
    op = next(op for op in block.ops if op.type == "scan")
    spoil(desc, op, desc.blocks[op.blocks[0]])
    assert sentence in told(ProgramError, lambda: check_program(desc, TARGET))


def test_the_depth_of_blocks_is_bounded():
    program = Program()
    x = program.input("x", "float32", (1,) * 18)

    def deep(x: Value) -> Value:
        return ops.map(deep, x) if x.rank else x * 2.0

    y = ops.map(deep, x)
    program.outputs(y=y)
    with pytest.raises(ProgramError, match="lies in 16 blocks, one in another; there are at most as many"):
        program.compile()


def test_constants_in_bodies_are_folded_and_parameters_initialised_outside(compiled: Compiled):
    program = Program()
    w = program.parameter("w", (3,), constant(2.0))
    program.minimize(ops.sum(ops.scan(lambda c, _: (c * (w + (2.0 * w) * 0.5), None), w, length=3)[0]), sgd(0.1))
    assert "constant" in {op.type for block in program.compile().desc.blocks for op in block.ops}
