"""Products of square matrices: what a thread reads does not follow from extents, which are all equal."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="the native engine is an extra")

from compiler import Program, ops, sgd
from registry import Value
from runtime import Run

SIZE = 64
X = (np.random.default_rng(8).normal(size=(SIZE, SIZE)) / 2).astype(np.float32)

BEFORE: dict[str, Callable[[Value], Value]] = {
    "feed": lambda t: t,
    "rows": lambda t: ops.softmax(t, axis=1),
    "broadcast": lambda t: ops.broadcast_to(ops.tanh(t[0:1]), shape=(SIZE, SIZE)),
    "product": lambda t: ops.tanh(ops.matmul(t, t)),
}

PRODUCTS: dict[str, Callable[[Value, Value], Value]] = {
    "a b": ops.matmul,
    "a' b": lambda a, b: ops.matmul(a, b, transpose_a=True),
    "a b'": lambda a, b: ops.matmul(a, b, transpose_b=True),
    "a' b'": lambda a, b: ops.matmul(a, b, transpose_a=True, transpose_b=True),
    "a a'": lambda a, b: ops.matmul(a, a, transpose_b=True) + b,
    "a' a": lambda a, b: ops.matmul(a, a, transpose_a=True) + b,
    "a column": lambda a, b: ops.matmul(a, b[:, 0:1]) * a,
    "a' column": lambda a, b: ops.matmul(a, b[:, 0:1], transpose_a=True) * a,
    "a sums": lambda a, b: ops.matmul(a, ops.sum(b, axis=1, keepdims=True)) * b,
    "a' sums": lambda a, b: ops.matmul(a, ops.sum(a, axis=1, keepdims=True), transpose_a=True) * b,
    "batch of one": lambda a, b: ops.reshape(
        ops.matmul(ops.reshape(a, shape=(1, SIZE, SIZE)), ops.reshape(b, shape=(1, SIZE, SIZE)), transpose_a=True),
        shape=(SIZE, SIZE),
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("before", "case"), [*product(BEFORE, PRODUCTS)])
def test_two_threads_compute_the_bits_of_one(before: str, case: str):
    program = Program("squares", seed=3)
    x = program.input("x", "float32", (SIZE, SIZE))
    w, v = program.parameter("w", (SIZE, SIZE)), program.parameter("v", (SIZE, SIZE))
    a, b = BEFORE[before](x * w), BEFORE[before](x + v)
    y = ops.tanh(PRODUCTS[case](a, b) + 0.1 * b)
    for number, (_, gradient) in enumerate(program.minimize(ops.mean(ops.square(y)), sgd(0.0))):
        program.fetch(f"gradient {number}", gradient)
    program.outputs(y=y)
    desc = program.compile().desc
    found = [bits(desc, threads) for threads in (1, 2, 2, 2)]
    assert found[1:] == found[:1] * 3


def bits(desc: object, threads: int) -> list[bytes]:
    run = Run(desc, engine="native", threads=threads)  # type: ignore[arg-type]
    steps = [run.step({"x": X}), run.step({"x": X}), run.step({"x": X}, entry="predict")]
    return [np.asarray(step[name]).tobytes() for step in steps for name in sorted(step)]
