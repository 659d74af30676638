"""Loops and conditions that the native engine compiles with their blocks, beside the reference engine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from fuzz.engines import judged, stepped
from native.bound import lowered

from compiler import Program, ops, sgd
from prograd_proto import program_pb2 as pb
from registry import Value
from runtime import Run
from runtime.codegen.costs import MIN_ITERATION_CYCLES
from runtime.codegen.lowering.control import cycles_of
from runtime.engines.choice import ENGINES
from runtime.engines.engine import EngineOptions
from runtime.engines.native.cpu import this_machine
from runtime.entries import bound_entries
from runtime.errors import ExecutionError

RNG = np.random.default_rng(5)


def explained(desc: pb.ProgramDesc, entry: str, threads: int = 2) -> list[str]:
    engine = ENGINES["native"](desc, EngineOptions(threads=threads))
    return [line.strip() for bound in bound_entries(desc, entry) for line in engine.explain(bound)]


def outputs(desc: pb.ProgramDesc, feeds: dict[str, np.ndarray], threads: int = 1) -> dict[str, np.ndarray]:
    assert not any(line.startswith("by NumPy") for line in explained(desc, "predict"))
    return stepped(desc, "predict", feeds, 1, "native", threads)[0]


def both(program: Program, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs by the native engine, which are those of the reference engine."""
    desc = program.compile().desc
    found = outputs(desc, feeds, 2)
    for name, wanted in stepped(desc, "predict", feeds, 1, "reference")[0].items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rows", "width"), [(32, 64), (32, 256), (3, 5)])
def test_training_through_a_scan_has_equal_bits_on_any_threads(rows: int, width: int):
    program = Program("ordinary", seed=2)
    x = program.input("x", "float32", ("batch", 4, width))
    w, r = (program.parameter(name, (width, width)) for name in "wr")

    def step(h: Value, row: Value) -> tuple[Value, Value]:
        h = ops.tanh(row @ w + h @ r)
        return h, h

    last, stacked = ops.scan(step, x[:, 0], ops.transpose(x, axis=(1, 0, 2)))
    program.minimize(ops.mean(ops.square(stacked)) + ops.mean(last), sgd(0.1))
    desc = program.compile(batch=rows).desc
    assert "compiled with their blocks: scan 2" in explained(desc, "train")
    verdict = judged(desc, {"x": RNG.normal(size=(rows, 4, width)).astype(np.float32)}, (1, 2, 3), "scan")
    assert verdict.word == "agreed", verdict


@pytest.mark.parametrize("width", [4, 64, 256])
def test_a_body_has_the_bits_of_its_ops_outside_of_the_loop(width: int):
    def network(loops: bool) -> pb.ProgramDesc:
        program = Program("bits", seed=2)
        x, r = program.input("x", "float32", (32, width)), program.parameter("r", (width, width))
        h = x

        def step(h: Value, _: object) -> tuple[Value, None]:
            return ops.tanh(h @ r + x), None

        if loops:
            h, _ = ops.scan(step, h, length=5)
        else:
            for _ in range(5):
                h, _ = step(h, None)
        program.outputs(h=h)
        return program.compile().desc

    feeds = {"x": RNG.normal(size=(32, width)).astype(np.float32)}
    np.testing.assert_array_equal(outputs(network(loops=True), feeds)["h"], outputs(network(loops=False), feeds)["h"])


Body = Callable[..., tuple[tuple[Value, ...], tuple[Value, ...]]]

BODIES: dict[str, Body] = {
    "changed": lambda a, b, x: ((a * 0.5 + x, b - x), (a,)),
    "exchanged": lambda a, b, x: ((b, a), (x,)),
    "passed on": lambda a, b, x: ((a, b + x), (a, b)),
    "one tensor twice": lambda a, b, x: ((c := a + x, c), (c, c)),
    "a row as the carry": lambda a, b, x: ((x, a), (b,)),
    "constants": lambda a, b, x: ((a * 0.0 + 2.0, b), (x * 0.0,)),
    "a tensor of another shape": lambda a, b, x: (
        (c := ops.reshape(ops.tanh(a), shape=(3, 2)), ops.reshape(ops.reshape(c, shape=(6,)), shape=(3, 2)) * b),
        (ops.reshape(c, shape=(2, 3)),),
    ),
    "read after it is written": lambda a, b, x: ((c := ops.tanh(a) + x, c @ ops.transpose(c) @ b), (c,)),
    "a reduction": lambda a, b, x: ((a * ops.mean(b), b), (ops.sum(a, axis=0), ops.sum(b))),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("body", BODIES)
def test_carries_and_rows_of_every_origin(body: str, length: int, reverse: bool):
    program = Program()
    first, xs = program.input("first", "float32", (3, 2)), program.input("xs", "float32", (length, 3, 2))
    (a, b), rows = ops.scan(lambda c, x: BODIES[body](*c, x), (first, first * 0.5), xs, reverse=reverse)
    program.outputs(a=a, b=b, **{f"rows{i}": row for i, row in enumerate(rows)})
    feeds = {"first": RNG.normal(size=(3, 2)), "xs": RNG.normal(size=(length, 3, 2))}
    both(program, **{name: array.astype(np.float32) for name, array in feeds.items()})


IN_PLACE: dict[str, Callable[[Value, Value], Value]] = {
    "element by element": lambda c, x: c * 0.5 + x,
    "a product with an epilogue": lambda c, x: c + ops.matmul(x, x, transpose_b=True),
    "read by an earlier group": lambda c, x: c - ops.mean(ops.cumsum(c, axis=0)) + x,
    "rows of itself": lambda c, x: c @ x,
    "transposed": lambda c, x: ops.transpose(c) + x,
    "a broadcast of itself": lambda c, x: c[:1] + c * x,
    "selected rows": lambda c, x: ops.scatter_nd(c, ops.cast(x[:1, :1] > 0, dtype="int64"), x[1:2]),
    "selected rows of itself": lambda c, x: ops.scatter_nd(c, ops.cast(x[:1, :1] > 0, dtype="int64"), c[1:2] + x[:1]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("update", IN_PLACE)
def test_a_carry_is_overwritten_only_where_nothing_reads_it_any_more(update: str, size: int):
    program = Program()
    first, xs = program.input("first", "float32", (size, size)), program.input("xs", "float32", (5, size, size))
    last, _ = ops.scan(lambda c, x: (IN_PLACE[update](c, x) * 0.9, None), first, xs)
    plain, _ = ops.scan(lambda c, x: (IN_PLACE[update](c, x), None), first * 0.5, xs * 0.5)
    program.outputs(last=last, plain=plain, first=first + 1.0)
    both(
        program,
        **{
            "first": RNG.normal(size=(size, size)).astype(np.float32),
            "xs": RNG.normal(size=(5, size, size)).astype(np.float32) / size**0.5,
        },
    )


def test_a_cache_is_updated_in_place():
    program = Program()
    x = program.input("x", "float32", (6, 128))
    cache = ops.full.on(program)(shape=(6, 128), value=0.0)

    def step(c: Value, given: tuple[Value, Value]) -> tuple[Value, None]:
        position, row = given
        return ops.scatter_nd(c, ops.reshape(position, shape=(1, 1)), ops.unsqueeze(row, axis=0)), None

    last, _ = ops.scan(step, cache, (ops.range.on(program)(stop=6), x))
    program.outputs(last=last)
    given = RNG.normal(size=(6, 128)).astype(np.float32)
    np.testing.assert_array_equal(both(program, x=given)["last"], given)
    [bound] = bound_entries(program.compile().desc, "predict")
    assert ENGINES["native"](program.compile().desc, EngineOptions()).needs(bound).arena <= 4 * given.nbytes


@pytest.mark.parametrize(("start", "trips"), [(0.5, 0), (3.0, 2), (5.0, 4), (1e9, 6)])
def test_a_while_loop_counts_its_trips_and_ends_at_its_bound(start: float, trips: int):
    program = Program()
    x = program.input("x", "float32", ())
    (last, powers), count = ops.while_loop(
        lambda c: c[0] > 1.0,
        lambda c: (c[0] - 1.0, c[1] * 2),
        (x, ops.full.on(program)(shape=(), value=1.0)),
        max_trips=6,
    )
    program.outputs(last=last, powers=powers, count=count)
    found = both(program, x=np.float32(start))
    assert (found["count"], found["powers"]) == (trips, 2.0**trips)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("origin", ["a carry", "from outside"])
def test_a_condition_may_return_what_it_was_given(origin: str, goes_on: bool):
    program = Program("p")
    x, go = program.input("x", "float32", (3,)), program.input("go", "bool", ())
    if origin == "a carry":
        (y, _), trips = ops.while_loop(lambda c, g: g, lambda c, g: (c * 0.5, ops.sum(c) > 1.0), x, go)
    else:
        y, trips = ops.while_loop(lambda c: go, lambda c: c * 0.5, x, max_trips=3)
    program.outputs(y=y, trips=trips)
    found = both(program, x=np.array([8, 4, 2], np.float32), go=np.array(goes_on))
    expected = (5 if origin == "a carry" else 3) if goes_on else 0
    assert found["trips"] == expected
    assert found["y"].tolist() == [8 / 2**expected, 4 / 2**expected, 2 / 2**expected]


def test_an_iteration_counts_the_cycles_of_the_loops_inside():
    """Or signals would wait for all inner loops that are each just short enough."""
    program = Program("p")
    x = program.input("x", "float32", (64, 64))

    def outer(c: Value, _: None) -> tuple[Value, None]:
        return ops.scan(lambda d, _: (d @ x * 0.01, None), c, length=50)[0], None

    program.outputs(y=ops.scan(outer, x, length=1_000_000)[0])
    run = Run(program.compile(), engine="reference")
    step = lowered(run.session.bindings("predict")[0].block, (), this_machine(), blocks=run.program.blocks)
    [[body]] = step.bodies.values()
    [[inner]] = body.bodies.values()
    assert cycles_of(body) > 50 * cycles_of(inner) > 50 * MIN_ITERATION_CYCLES


def test_the_gradient_of_a_while_loop_stores_zeros_for_trips_that_are_not_made():
    program = Program(seed=3)
    x, w = program.input("x", "float32", ("batch", 3)), program.parameter("w", (3, 3))
    last, _ = ops.while_loop(lambda c: ops.mean(c * c) > 0.1, lambda c: ops.tanh(c @ w) * 0.8, x, max_trips=9)
    program.minimize(ops.mean(ops.square(last)), sgd(0.1))
    desc = program.compile(batch=4).desc
    assert "compiled with their blocks: scan 1, while_loop 1" in explained(desc, "train")
    verdict = judged(desc, {"x": RNG.normal(size=(4, 3)).astype(np.float32)}, (1, 2), "while")
    assert verdict.word == "agreed", verdict


@pytest.mark.parametrize("choice", [True, False])
def test_one_branch_of_a_condition_runs(choice: bool):
    program = Program()
    x, going = program.input("x", "float32", (4, 5)), program.input("going", "bool", ())
    y, z = ops.cond(going, lambda x: (ops.exp(x), x), lambda x: (x @ ops.transpose(x) @ x, x * 2.0), x)
    program.outputs(y=y, z=z)
    both(program, x=RNG.normal(size=(4, 5)).astype(np.float32), going=np.array(choice))


def test_loops_inside_loops_and_conditions_read_rows_of_the_outer_one():
    program = Program(seed=4)
    xs, w = program.input("xs", "float32", ("batch", 5, 3, 4)), program.parameter("w", (4, 4))

    def outer(total: Value, rows: Value) -> tuple[Value, Value]:
        def inner(h: Value, row: Value) -> tuple[Value, Value]:
            h = ops.cond(ops.sum(h) > 0, lambda: ops.tanh(h @ w + row + rows[0]), lambda: h * 0.5 + ops.sin(row))
            return h, h * total

        last, found = ops.scan(inner, rows[1], rows, reverse=True)
        last, _ = ops.while_loop(lambda c: ops.sum(c * c) > 1.0, lambda c: c * 0.6 + rows[2] * 0.01, last, max_trips=7)
        return total + last * 0.1, found

    last, rows = ops.scan(outer, xs[:, 0, 0], ops.transpose(xs, axis=(1, 2, 0, 3)))
    program.minimize(ops.mean(ops.square(rows)) + ops.mean(last), sgd(0.1))
    program.outputs(last=last, rows=rows)
    desc = program.compile(batch=2).desc
    assert not any(line.startswith("by NumPy") for line in explained(desc, "train"))
    verdict = judged(desc, {"xs": RNG.normal(size=(2, 5, 3, 4)).astype(np.float32)}, (1, 2), "nested")
    assert verdict.word == "agreed", verdict


def test_random_numbers_are_those_of_the_reference_engine():
    program = Program(seed=6)
    x = program.input("x", "float32", (3, 4))

    def outer(c: Value, _: object) -> tuple[Value, Value]:
        c, rows = ops.scan(
            lambda c, _: (c + ops.uniform.on(program)(shape=(3, 4)), ops.dropout(c, ratio=0.5)), c, length=3
        )
        return c * 0.5, rows

    last, rows = ops.scan(outer, x, length=4)
    program.entry("draw", last=last, rows=rows)
    desc = program.compile().desc
    feeds = {"x": RNG.normal(size=(3, 4)).astype(np.float32)}
    wanted = stepped(desc, "draw", feeds, 1, "reference")[0]
    found = stepped(desc, "draw", feeds, 1, "native", 2)[0]
    np.testing.assert_array_equal(found["rows"], wanted["rows"])
    assert len(np.unique(found["rows"])) > 20
    assert "compiled with their blocks: scan 1" in explained(desc, "draw")


def test_a_fault_in_a_loop_inside_a_loop_names_both_iterations():
    program = Program()
    x, i = program.input("x", "float32", (3,)), program.input("i", "int64", (2, 4, 1))
    program.outputs(y=ops.map(lambda rows: ops.map(lambda i: ops.gather(x, i), rows), i))
    desc, feed = program.compile().desc, {"x": np.ones(3, np.float32), "i": np.zeros((2, 4, 1), np.int64)}
    run = Run(desc, engine="native")
    run.step(feed, entry="predict")
    feed["i"][1, 2] = 7
    with pytest.raises(ExecutionError, match=r"iteration 1: .*iteration 2: op \d+ \(gather from .*7"):
        run.step(feed, entry="predict")
    feed["i"][1, 2] = 0
    np.testing.assert_array_equal(run.step(feed, entry="predict")["y"], np.ones((2, 4, 1), np.float32))


def test_a_counted_scan_makes_its_trips_and_refuses_more_than_it_has_rows():
    program = Program(seed=1)
    x, w = program.input("x", "float32", ()), program.parameter("w", ())
    last, _ = ops.while_loop(lambda c: c > 1.0, lambda c: c * w, x, max_trips=5)
    program.minimize(last, sgd(0.0))
    desc = program.compile().desc
    scans = [op for block in desc.blocks for op in block.ops if op.type == "scan" and op.attributes[3].bool_value]
    assert scans
    verdict = judged(desc, {"x": np.float32(3.0)}, (1, 2), "counted")
    assert verdict.word == "agreed", verdict


def test_the_memory_of_a_body_is_counted_once():
    def arena(width: int) -> int:
        program = Program()
        xs = program.input("xs", "float32", (7, 64, width))
        program.outputs(y=ops.scan(lambda c, x: (ops.cumsum(ops.cumsum(c + x, axis=0), axis=1), None), xs[0], xs)[0])
        [bound] = bound_entries(program.compile().desc, "predict")
        return ENGINES["native"](program.compile().desc, EngineOptions()).needs(bound).arena

    tensor = 64 * 1024 * 4
    extra = arena(1024) - 8 * tensor  # besides the rows and the result
    assert extra <= 5 * tensor  # the first carry, the buffer beside the result, and what the body holds


def test_many_steps_in_a_call_are_those_of_single_steps_and_endless_loops_are_not_combined():
    def trained(together: bool) -> np.ndarray:
        program = Program(seed=8)
        x, w = program.input("x", "float32", ("batch", 6)), program.parameter("w", (6, 6))
        last, _ = ops.scan(lambda c, _: (ops.tanh(c @ w), None), x, length=5)
        program.minimize(ops.mean(ops.square(last)), sgd(0.1))
        rows = {"x": np.random.default_rng(1).normal(size=(64, 6)).astype(np.float32)}
        run = Run(program.compile(batch=8).desc, engine="native", threads=2)
        for _ in run.events(data=rows, epochs=3, ahead=1000 if together else 1):
            pass
        return np.array(run.state["w"])

    np.testing.assert_array_equal(trained(together=True), trained(together=False))
