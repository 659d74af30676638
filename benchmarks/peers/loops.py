"""Times training steps of recurrent layers that are written as scans, beside the operators and `jax.lax.scan`.

    python benchmarks/peers/loops.py [SECONDS] [STEPS]

Needs JAX. A tanh cell of 64 and a GRU cell of 256 states, batch 32, over 1,000 steps of as many inputs, with gradients
and an update of all weights, on two threads. The subjects have the same weights, run in turns, and must agree on the
loss after three steps; a number is the median over steps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

THREADS = 2
os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402 - it reads the environment when it is loaded
import jax.numpy as jnp  # noqa: E402 - likewise
import numpy as np  # noqa: E402 - with the others

from prograd import Program, Value, normal, ops, sgd  # noqa: E402 - with the others
from prograd_proto import program_pb2 as pb  # noqa: E402 - with the others
from runtime import Run  # noqa: E402 - with the others

BATCH, RATE, DEVIATION = 32, 0.01, 0.03
CELLS = {"tanh": 64, "gru": 256}
GATES = {"tanh": 1, "gru": 3}

Step = Callable[[], float]
"""A training step, which returns the loss before it."""


def main(seconds: float, steps: int) -> None:
    for cell, size in CELLS.items():
        x = np.random.default_rng(0).normal(size=(BATCH, steps, size)).astype(np.float32)
        as_scan = Run(program(cell, size, steps, by_operator=False), engine="native", threads=THREADS)
        by_operator = Run(program(cell, size, steps, by_operator=True), engine="native", threads=THREADS)
        weights = {name: np.array(as_scan.state[name]) for name in ("w", "r", "b", "c")}
        for name, array in weights.items():
            by_operator.state[name] = array
        subjects: dict[str, Step] = {
            "scan": in_prograd(as_scan, x),
            "operator": in_prograd(by_operator, x),
            "jax.lax.scan": in_jax(cell, weights, x),
        }
        losses = {name: [step() for _ in range(3)] for name, step in subjects.items()}
        print(f"\n{cell} of {size}, losses: {', '.join(f'{name} {found[-1]:.7f}' for name, found in losses.items())}")
        times: dict[str, list[float]] = {name: [] for name in subjects}
        end = perf_counter() + seconds
        while perf_counter() < end:
            for name, step in subjects.items():
                start = perf_counter()
                step()
                times[name].append(perf_counter() - start)
        ours = median(times["scan"])
        print("\n| subject | ms | µs an iteration | times as long as the scan |\n| --- | ---: | ---: | ---: |")
        for name, found in times.items():
            taken = median(found)
            print(f"| {name} | {taken * 1e3:.1f} | {taken / steps * 1e6:.1f} | {taken / ours:.2f} |")


def program(cell: str, size: int, steps: int, *, by_operator: bool) -> pb.ProgramDesc:
    """Return a compiled training step of a recurrent layer whose loss is the mean square of all its states."""
    program = Program(cell, seed=1)
    x = program.input("x", "float32", ("batch", steps, size))
    gates = GATES[cell]
    w, r = (program.parameter(name, (size, gates * size), normal(0.0, DEVIATION)) for name in "wr")
    b, c = (program.parameter(name, (gates * size,)) for name in "bc")
    if by_operator:
        rows, _ = (ops.rnn if cell == "tanh" else ops.gru)(x, w, r, b, c)
    else:

        def step(h: Value, row: Value) -> tuple[Value, Value]:
            if cell == "tanh":
                h = ops.tanh(row @ w + b + h @ r + c)
                return h, h
            given, kept = (
                ops.split(row @ w + b, sizes=(size,) * 3, axis=-1),
                ops.split(h @ r + c, sizes=(size,) * 3, axis=-1),
            )
            reset, update = ops.sigmoid(given[0] + kept[0]), ops.sigmoid(given[1] + kept[1])
            new = ops.tanh(given[2] + reset * kept[2])
            h = new + update * (h - new)
            return h, h

        first = ops.broadcast_to(ops.full.on(program)(shape=(1, size), value=0.0), shape=("batch", size))
        _, rows = ops.scan(step, first, ops.transpose(x, axis=(1, 0, 2)))
    program.minimize(ops.mean(ops.square(rows)), sgd(RATE))
    return program.compile(batch=BATCH).desc


def in_prograd(run: Run, x: np.ndarray) -> Step:
    """Return the training step of a run."""
    return lambda: float(run.step({"x": x})["loss"])


def in_jax(cell: str, weights: dict[str, np.ndarray], given: np.ndarray) -> Step:
    """Return the training step in JAX, compiled as a whole."""
    w, x = {name: jnp.asarray(array) for name, array in weights.items()}, jnp.asarray(given)

    def step(w: dict[str, jax.Array], h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        if cell == "tanh":
            h = jnp.tanh(row @ w["w"] + w["b"] + h @ w["r"] + w["c"])
            return h, h
        given, kept = jnp.split(row @ w["w"] + w["b"], 3, -1), jnp.split(h @ w["r"] + w["c"], 3, -1)
        reset, update = jax.nn.sigmoid(given[0] + kept[0]), jax.nn.sigmoid(given[1] + kept[1])
        new = jnp.tanh(given[2] + reset * kept[2])
        h = new + update * (h - new)
        return h, h

    def loss(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        first = jnp.zeros((x.shape[0], w["r"].shape[0]), jnp.float32)
        _, rows = jax.lax.scan(lambda h, row: step(w, h, row), first, x.transpose(1, 0, 2))
        return jnp.square(rows).mean()

    @jax.jit
    def train(w: dict[str, jax.Array], x: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        value, gradient = jax.value_and_grad(loss)(w, x)
        return value, {name: array - RATE * gradient[name] for name, array in w.items()}

    def once() -> float:
        nonlocal w
        value, w = train(w, x)
        jax.block_until_ready(w)
        return float(value)

    return once


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
