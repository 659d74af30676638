"""Measure the runtime's overhead per call of NumPy: a program of 100 additions of 100 elements, against a plain loop.

    python benchmarks/dispatch.py

The loop is as good as Python allows: local names, arrays made beforehand, `out` by position. Steps and loops take
turns, each timed over many repetitions; the medians are compared, so that a busy machine disturbs both alike.
"""

from statistics import median
from time import perf_counter

import numpy as np
from report import report

from compiler import Program, ops
from runtime.runs.run import Run

OPS = 100
ELEMENTS = 100
ROUNDS = 200
REPEAT = 50
TARGET = 0.35e-6  # seconds an op


def main():
    step, loop = step_of_program(), loop_of_numpy()
    steps, loops = [], []
    for _ in range(ROUNDS):
        steps.append(seconds(step))
        loops.append(seconds(loop))
    per_step, per_loop = median(steps) / OPS, median(loops) / OPS
    report(
        "dispatch: 100 additions of 100 float32 elements",
        ("runtime, per op", per_step, None),
        ("NumPy in a loop, per op", per_loop, None),
        ("difference, per op", per_step - per_loop, TARGET),
        unit="us",
    )


def step_of_program():
    """A step of the reference engine on one thread."""
    program = Program("additions")
    x, y = (program.input(name, "float32", (ELEMENTS,)) for name in "xy")
    for _ in range(OPS):
        y = ops.add(y, x)
    program.outputs(y=y)
    run = Run(program.compile().desc)
    [bound] = run.session.bindings("predict")
    assert [op.type for op in bound.block.ops] == ["add"] * OPS
    executor = run.session.workspaces.executor(bound)
    for array in executor.feeds.values():
        array[...] = np.linspace(0, 1, ELEMENTS)
    executor.step()
    assert np.allclose(executor.fetches["y"], np.linspace(0, 1, ELEMENTS) * (OPS + 1))
    return executor.step


def loop_of_numpy():
    """Run the same additions with two alternating arrays for results."""
    x = np.linspace(0, 1, ELEMENTS, dtype=np.float32)
    buffers = [np.empty_like(x), np.empty_like(x)]
    calls = [(buffers[i % 2 - 1] if i else x, x, buffers[i % 2]) for i in range(OPS)]

    def loop(add=np.add, calls=calls):
        for a, b, out in calls:
            add(a, b, out)

    loop()
    assert np.allclose(buffers[(OPS - 1) % 2], x * (OPS + 1))
    return loop


def seconds(function):
    """Return the mean seconds of a call."""
    start = perf_counter()
    for _ in range(REPEAT):
        function()
    return (perf_counter() - start) / REPEAT


if __name__ == "__main__":
    main()
