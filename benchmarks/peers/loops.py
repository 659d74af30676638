"""Times training steps of recurrent layers that are written as scans, beside the operators and `jax.lax.scan`.

    python benchmarks/peers/loops.py [SECONDS] [STEPS]

Needs JAX. A tanh cell of 64 and a GRU cell of 256 states, batch 32, over 1,000 steps of as many inputs, with gradients
and an update of all weights, on two threads. The subjects have the same weights, each runs in a process of its own, and
must agree on the loss after three steps. They run in turns; a number is the median over steps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from turns import in_turns, print_turns

from prograd import Program, Value, normal, ops, sgd
from prograd_proto import program_pb2 as pb
from runtime import Run

if TYPE_CHECKING:
    import jax

THREADS = 2
BATCH, RATE, DEVIATION = 32, 0.01, 0.03
CELLS = {"tanh": 64, "gru": 256}
GATES = {"tanh": 1, "gru": 3}

Step = Callable[[], float]
"""A training step, which returns the loss before it."""


def main(seconds: float, steps: int) -> None:
    for cell, size in CELLS.items():
        subjects = {
            "the scan": partial(in_prograd, cell, size, steps, by_operator=False),
            "the operator": partial(in_prograd, cell, size, steps, by_operator=True),
            "jax.lax.scan": partial(in_jax, cell, size, steps),
        }
        turns = in_turns(subjects, seconds, first=3)
        losses = (f"{name} {results[-1]:.7f}" for name, (results, _) in turns.items())
        print(f"\n{cell} of {size}, losses: {', '.join(losses)}")
        print_turns(turns, steps, "an iteration")


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


def begun(cell: str, size: int, steps: int, *, by_operator: bool) -> Run:
    """Return a run with the initial weights of the program that scans."""
    run = Run(program(cell, size, steps, by_operator=by_operator), engine="native", threads=THREADS)
    if by_operator:
        weights = begun(cell, size, steps, by_operator=False).state
        for name in "wrbc":
            run.state[name] = np.array(weights[name])
    return run


def rows(size: int, steps: int) -> np.ndarray:
    """Return the rows of every step."""
    return np.random.default_rng(0).normal(size=(BATCH, steps, size)).astype(np.float32)


def in_prograd(cell: str, size: int, steps: int, *, by_operator: bool) -> Step:
    """Return the training step of a run."""
    run, x = begun(cell, size, steps, by_operator=by_operator), rows(size, steps)
    return lambda: float(run.step({"x": x})["loss"])


def in_jax(cell: str, size: int, steps: int) -> Step:
    """Return the training step in JAX, compiled as a whole."""
    os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
    import jax.numpy as jnp

    state = begun(cell, size, steps, by_operator=False).state
    w, x = {name: jnp.asarray(np.array(state[name])) for name in "wrbc"}, jnp.asarray(rows(size, steps))

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
