"""Random numbers in loops: another one in each iteration, the same whenever it is computed."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from fuzz.engines import stepped
from oracles.philox import DOCUMENT, scalar_uniform, scalar_words
from subjects.evaluate import evaluate
from subjects.steps import Stepper

from compiler import Program, constant, gradients, ops, sgd
from registry import Value


def step_of(step: int, iteration: int) -> int:
    """The step of an iteration, by Python's own numbers."""
    low, high = scalar_words(2, seed=step, stream=0xFFFFFFFE, step=iteration)
    return (high >> 1 << 32) + low


@pytest.mark.parametrize("step", [0, 7, step_of(7, 1)])
def test_the_steps_of_iterations_are_those_that_the_format_states(step: int):
    found = [int(evaluate(lambda s, i: ops.iteration_step(s, i), np.array(step), np.array(i))) for i in range(4)]
    assert found == [step_of(step, i) for i in range(4)]
    assert " ".join(f"`{number}`" for number in found) in DOCUMENT


def loops(program: Program, x: Value) -> Value:
    """Numbers of three loops, one of them in another one."""

    def outer(c: Value, row: Value) -> tuple[Value, Value]:
        _, inner = ops.scan(lambda c, _: (c, ops.uniform.on(program)(shape=(2,))), c, length=3)
        return c, inner

    return ops.scan(outer, x[0], x)[1]


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_numbers_in_loops_are_those_of_their_steps(engine: str):
    program = Program(seed=42)
    x = program.input("x", "float32", (2, 1))
    program.outputs(y=loops(program, x))
    desc = program.compile().desc
    [stream] = {op.random_stream for block in desc.blocks for op in block.ops if op.random_stream}
    found = stepped(desc, "predict", {"x": np.zeros((2, 1), np.float32)}, 1, engine)[0]["y"]
    wanted = [
        [scalar_uniform(2, "float32", seed=42, stream=stream, step=step_of(step_of(0, i), j)) for j in range(3)]
        for i in range(2)
    ]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


@pytest.mark.parametrize("save", ["all", "carries"])
def test_the_gradient_of_dropout_in_a_loop_uses_the_mask_of_each_iteration(save: str):
    program = Program(seed=1)
    x = program.input("x", "float32", (4, 50))
    w = program.parameter("w", (50,), constant(1.0))

    def step(c: Value, row: Value) -> tuple[Value, Value]:
        y = ops.dropout(row * w, ratio=0.5)
        return c + ops.sum(y), y

    total, rows = ops.scan(step, ops.sum(x) * 0.0, x, save=save)
    program.fetch("rows", rows)
    [dw] = gradients(total, [w])
    program.fetch("dw", dw)
    program.minimize(total, sgd(0.0))
    stepper = Stepper(program.compile())
    feed = np.ones((4, 50), np.float32)
    found = [stepper.step(x=feed) for _ in range(2)]
    for each in found:
        np.testing.assert_array_equal(each["dw"], each["rows"].sum(0))
        assert len({row.tobytes() for row in each["rows"]}) == 4
    assert found[0]["rows"].tobytes() != found[1]["rows"].tobytes()


def test_a_condition_in_a_loop_draws_by_the_iteration_and_one_outside_by_the_step():
    program = Program(seed=42)
    x = program.input("x", "float32", (2, 1))

    def draw() -> Value:
        return ops.uniform.on(program)(shape=(1,))

    _, rows = ops.scan(lambda c, row: (c, ops.cond(ops.sum(row) >= 0, draw, draw)), x[0], x)
    program.outputs(rows=rows, alone=ops.cond(ops.sum(x) >= 0, draw, draw))
    desc = program.compile().desc
    streams = sorted({op.random_stream for block in desc.blocks for op in block.ops if op.random_stream})
    found = stepped(desc, "predict", {"x": np.zeros((2, 1), np.float32)}, 1, "reference")[0]
    wanted = [scalar_uniform(1, "float32", seed=42, stream=streams[0], step=step_of(0, i)) for i in range(2)]
    np.testing.assert_array_equal(found["rows"], np.array(wanted, np.float32))
    assert found["alone"].tolist() == scalar_uniform(1, "float32", seed=42, stream=streams[2], step=0)


def test_random_numbers_in_a_while_loop_and_its_condition():
    program = Program(seed=42)
    start = program.input("start", "float32", ())

    def drawn() -> Value:
        return ops.uniform.on(program)(shape=())

    last, trips = ops.while_loop(lambda c: drawn() < 0.6, lambda c: c + drawn(), start, max_trips=100)
    program.outputs(last=last, trips=trips)
    desc = program.compile().desc
    streams = sorted({op.random_stream for block in desc.blocks for op in block.ops if op.random_stream})
    found = stepped(desc, "predict", {"start": np.float32(0)}, 1, "reference")[0]
    value, count = np.float32(0), 0

    def number(stream: int) -> float:
        return scalar_uniform(1, "float32", seed=42, stream=stream, step=step_of(0, count))[0]

    while number(streams[0]) < 0.6:
        value, count = value + np.float32(number(streams[1])), count + 1
    assert (float(found["last"]), int(found["trips"])) == (float(value), count)


def chosen_by_hand(logits: np.ndarray, seed: int, stream: int, step: int) -> list[int]:
    """The class of each row, by Python's own numbers and sums."""
    found: list[int] = []
    numbers = scalar_uniform(len(logits), "float64", seed=seed, stream=stream, step=step)
    for row, u in zip(logits, numbers, strict=True):
        sums, total = [], 0.0
        for x in row:
            total += exp(float(np.float32(x - row.max())))
            sums.append(total)
        found.append(min(sum(each <= u * total for each in sums), len(row) - 1))
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_categorical_chooses_by_seed_stream_step_iteration_and_row(engine: str, threads: int):
    program = Program(seed=7)
    logits = program.input("logits", "float32", (3, 32, 80))

    def outer(c: Value, rows: Value) -> tuple[Value, Value]:
        _, inner = ops.scan(lambda c, _: (c, ops.categorical(rows)), c, length=2)
        return c, inner

    program.outputs(inside=ops.scan(outer, ops.sum(logits), logits)[1], outside=ops.categorical(logits[0]))
    desc = program.compile().desc
    inside, outside = sorted({op.random_stream for block in desc.blocks for op in block.ops if op.random_stream})
    feed = np.random.default_rng(3).normal(0, 2, (3, 32, 80)).astype(np.float32)
    found = stepped(desc, "predict", {"logits": feed}, 1, engine, threads)[0]
    assert found["outside"].tolist() == chosen_by_hand(feed[0], 7, outside, 0)
    for i in range(3):
        for j in range(2):
            wanted = chosen_by_hand(feed[i], 7, inside, step_of(step_of(0, i), j))
            assert found["inside"][i, j].tolist() == wanted, (i, j)
