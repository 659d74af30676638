"""Carries that a loop of the native engine updates in place: rows of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from fuzz.engines import stepped
from subjects.steps import bound_block

from compiler import Program, ops
from prograd_proto import program_pb2 as pb
from registry import Value
from runtime.codegen.lower import lowered
from runtime.codegen.lowering.control import carries_in_place, spare_carries
from runtime.engines.native.cpu import this_machine

N, SIZE, TRIPS = 2, 8, 5
FEEDS = {
    "cache": np.random.default_rng(3).normal(size=(N, SIZE, 64)).astype(np.float32),
    "rows": np.random.default_rng(4).normal(size=(TRIPS, N, 1, 64)).astype(np.float32),
    "at": np.array([[3], [0], [7], [3], [1]]),
}

Step = Callable[[Value, tuple[Value, Value]], tuple[Value, Any]]


def put(cache: Value, now: tuple[Value, Value]) -> Value:
    return ops.scatter(cache, now[1], now[0], axis=1)


def changed(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    cache = put(cache, now)
    return cache, ops.sum(cache, axis=1)


def read_before(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    row = ops.gather(cache, now[1], axis=1)
    return put(cache, (now[0] + row, now[1])), row


def added(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    return ops.scatter_add(cache, now[1], now[0], axis=1), None


def read_after(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    after = put(cache, now)
    return after, ops.sum(ops.tanh(ops.sum(after, axis=1, keepdims=True)) * cache, axis=1)


def kept(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    return put(cache, now), cache


def stacked(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    cache = put(cache, now)
    return cache, cache


def of_a_copy(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    return ops.scatter(cache, now[1], cache[:, 2:3], axis=1), None


def of_itself(cache: Value, now: tuple[Value, Value]) -> tuple[Value, Any]:
    numbers = ops.remainder(ops.range.on(cache.block)(stop=SIZE) + now[1], SIZE)
    return ops.scatter(cache, numbers, cache, axis=1), None


def program(step: Step) -> pb.ProgramDesc:
    program = Program("cache")
    cache = program.input("cache", "float32", (N, SIZE, 64))
    rows, at = program.input("rows", "float32", (TRIPS, N, 1, 64)), program.input("at", "int64", (TRIPS, 1))
    last, ys = ops.scan(step, cache, (rows, at))
    program.outputs(last=last, first=cache * 1.0, **({} if ys is None else {"ys": ys}))
    return program.compile().desc


@pytest.mark.parametrize(
    ("step", "is_in_place"),
    [
        (changed, True),
        (read_before, True),
        (added, True),
        (read_after, False),
        (kept, False),
        (stacked, False),
        (of_a_copy, True),
        (of_itself, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_carry_is_updated_in_place_if_nothing_reads_it_later(step: Step, is_in_place: bool):
    desc = program(step)
    block = lowered(bound_block(desc, "predict"), (), this_machine(), 2, blocks=desc.blocks)
    [[body]] = block.bodies.values()
    assert carries_in_place(body) == ({0} if is_in_place else set())
    assert (0 in spare_carries(body)) == (not is_in_place and step is not stacked)
    wanted = stepped(desc, "predict", FEEDS, 1, "reference")[0]
    for threads in (1, 2):
        found = stepped(desc, "predict", FEEDS, 1, "native", threads)[0]
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(found["first"], FEEDS["cache"])


def test_a_loop_without_trips_gives_the_carry_as_it_is():
    program = Program("cache")
    cache, at = program.input("cache", "float32", (N, SIZE, 64)), program.input("at", "int64", (1,))
    last, trips = ops.while_loop(
        lambda c: ops.sum(c[0, 0]) > 1e9, lambda c: ops.scatter(c, at, c[:, :1] * 0.0 + 1.0, axis=1), cache
    )
    program.outputs(last=last, trips=trips)
    feeds = {"cache": FEEDS["cache"], "at": np.array([2])}
    found = stepped(program.compile().desc, "predict", feeds, 1, "native")[0]
    np.testing.assert_array_equal(found["last"], feeds["cache"])
    assert found["trips"] == 0
