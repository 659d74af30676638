"""Trainings by every optimizer that works element by element, by the ranks of a job that cut its states.

    mpiexec -n 3 python cut_optimizers.py native adam lion

Rank 0 prints each optimizer, and whether the states are those of one process and smaller on each rank.
"""

from __future__ import annotations

import sys
from contextlib import closing

import numpy as np

import runtime
from compiler import Program, ops
from compiler.train import optimizers, trust_ratios
from prograd import layers
from runtime.ranks.join import join

OPTIMIZERS = {
    "momentum": lambda: optimizers.momentum(1e-2, decay=1e-3),
    "nesterov": lambda: optimizers.nesterov(1e-2),
    "adam": lambda: optimizers.adam(1e-2),
    "amsgrad": lambda: optimizers.adam(1e-2, amsgrad=True),
    "adamw": lambda: optimizers.adamw(1e-2),
    "adamax": lambda: optimizers.adamax(1e-2),
    "nadam": lambda: optimizers.nadam(1e-2),
    "radam": lambda: optimizers.radam(1e-2),
    "adagrad": lambda: optimizers.adagrad(1e-2, initial=0.1),
    "adadelta": lambda: optimizers.adadelta(1.0),
    "rmsprop": lambda: optimizers.rmsprop(1e-2, momentum=0.9, centred=True),
    "lion": lambda: optimizers.lion(1e-3, decay=0.1),
    "look_ahead": lambda: optimizers.look_ahead(optimizers.adam(1e-2), every=2),
    "lars": lambda: trust_ratios.lars(1e-2),
    "mixed": lambda: optimizers.adam(1e-2),
    "average": lambda: optimizers.adam(1e-2),
}
"""The optimizers; `mixed` also computes in bfloat16, `average` also keeps an average of the parameters."""

STEPS = 3
ROWS = 32


def program_with(name: str):
    """Return a compiled program with 96 x 64 and 64 x 5 weights; the update has no norm of them."""
    program = Program("cut", seed=5)
    x, label = program.input("x", "float32", ("batch", 96)), program.input("label", "int64", ("batch",))
    h = ops.relu(layers.dense(x, "hidden", 64))
    program.minimize(ops.cross_entropy(layers.dense(h, "output", 5), label), OPTIMIZERS[name]())
    if name == "average":
        program.average(0.9)
    return program.compile(batch=ROWS, shards=4, mixed="bfloat16" if name == "mixed" else None)


def trained(compiled, engine: str, group=None) -> tuple[str, int]:
    """Return the hash of the states after some steps, and the bytes of the states of this process."""
    rng = np.random.default_rng(3)
    with closing(runtime.Run(compiled.desc, engine=engine, threads=1, group=group)) as run:
        for _ in range(STEPS):
            x = rng.standard_normal((ROWS, 96)).astype("float32")
            run.step({"x": x, "label": rng.integers(0, 5, ROWS)})
        return run.state_sha256, run.states.nbytes


def main(engine: str, *names: str) -> None:
    """Train by these optimizers."""
    group = join(60, cuts_states=True)
    for name in names:
        compiled = program_with(name)
        digest, nbytes = trained(compiled, engine, group)
        if group.rank == 0:
            wanted, whole = trained(compiled, engine)
            print(name, "equal" if digest == wanted else "OTHER", "smaller" if nbytes < whole else "WHOLE", flush=True)
    group.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
