"""Measure the time that `run.step` adds to a native step: an MLP 784-256-128-10, SGD, 32 rows.

    python benchmarks/steps_by_hand.py [--threads 2] [--other PATH]

`Python` is a call whose step computes nothing. `--other` names the root of another prograd, such as an older commit,
which is measured by turns with this one in processes of their own; medians are printed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

ROUNDS, CALLS = 15, 400
HERE = Path(__file__).parents[1]


def main():
    """Print microseconds of a call, and of what Python does in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--other", type=Path, help="the root of another prograd")
    parser.add_argument("--contender", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        return contend(options.threads)
    roots = [HERE, *([options.other.resolve()] if options.other else [])]
    contenders = [Contender(root, options.threads) for root in roots]
    for _ in range(ROUNDS):
        for contender in contenders:
            contender.turn()
    print(f"{'':40} {'us of run.step':>15} {'of it Python':>13}")
    for contender in contenders:
        whole, python = (median(column) * 1e6 for column in zip(*contender.seconds, strict=True))
        print(f"{contender.root.name:40} {whole:15.1f} {python:13.1f}")


class Contender:
    """A process that makes steps when it is asked."""

    def __init__(self, root, threads):
        """Start it with the packages of a root."""
        command = [sys.executable, "-P", __file__, "--contender", "--threads", str(threads)]
        paths = os.pathsep.join([str(root), str(root / "proto")])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
        )
        self.root, self.seconds = root, []

    def turn(self):
        """Have it make some calls, and note the seconds of one."""
        print(file=self.process.stdin, flush=True)
        self.seconds.append([float(word) for word in self.process.stdout.readline().split()])


def contend(threads):
    """Print the seconds of a call, and of one whose step computes nothing, for every line that is read."""
    run, feeds = mlp(threads)
    executor = run.session.workspaces.executor(run.session.bindings("train")[0])
    steps = {name: getattr(executor, name) for name in ("step", "step_with") if hasattr(executor, name)}
    for _ in sys.stdin:
        whole = seconds(run.step, feeds)
        for name in steps:
            setattr(executor, name, lambda *feeds: None)
        python = seconds(run.step, feeds)
        for name, step in steps.items():
            setattr(executor, name, step)
        print(whole, python, flush=True)


def mlp(threads):
    """A run, and what its steps are fed."""
    import numpy as np

    from compiler import Program, ops, sgd
    from runtime.runs.run import Run

    program = Program("mlp", seed=1)
    x, label = program.input("x", "float32", ("batch", 784)), program.input("label", "int64", ("batch",))
    for i, (deep, wide) in enumerate([(784, 256), (256, 128), (128, 10)]):
        x = x @ program.parameter(f"w{i}", (deep, wide)) + program.parameter(f"b{i}", (wide,))
        x = x if wide == 10 else ops.relu(x)
    program.minimize(ops.softmax_cross_entropy(x, label), sgd(rate=0.01))
    run = Run(program.compile(batch=32).desc, engine="native", threads=threads)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(32, 784)).astype("f4"), "label": rng.integers(0, 10, 32)}
    for _ in range(CALLS):
        run.step(feeds)
    return run, feeds


def seconds(function, *arguments):
    """Return the mean seconds of a call."""
    start = perf_counter()
    for _ in range(CALLS):
        function(*arguments)
    return (perf_counter() - start) / CALLS


if __name__ == "__main__":
    main()
