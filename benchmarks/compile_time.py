"""Building and compiling programs of 10,000 ops, gradients and updates included.

    python benchmarks/compile_time.py              the table
    python benchmarks/compile_time.py --profile    also where the time goes, by cProfile

The ops counted are those of the training block as it is saved; with its bound copy and the entries for evaluation a
file has about three times as many. Each shape is built and compiled in turn, the best of three runs counts: the work is
the same every time, and only disturbances differ.
"""

import argparse
import cProfile
import gc
import pstats
from time import perf_counter

from report import report

from compiler import Program, adam, ops, sgd, zeros

OPS = 10_000
RUNS = 3
TARGET = 3.0  # seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    rows = []
    for what, build, units in SHAPES:
        units = units_for(build, units)
        best = min((timed(build, units) for _ in range(RUNS)), key=sum)
        count = len(build(units).compile(batch=32).desc.blocks[0].ops)
        rows += [(f"{what}, {count} ops", sum(best), TARGET), ("  build", best[0], None), ("  compile", best[1], None)]
        if options.profile:
            show_profile(build, units)
    report("building and compiling", *rows, unit="s")


def units_for(build, units):
    """Return the number of units that gives the number of ops, by proportion."""
    one, two = (len(build(n).compile(batch=32).desc.blocks[0].ops) for n in (units, 2 * units))
    return units + (OPS - one) * units // (two - one)


def pointwise_chain(units):
    """A chain of functions of one tensor, whose gradient reaches one parameter at its start."""
    program = Program("chain")
    x = program.input("x", "float32", ("batch", 8))
    y = x + program.parameter("w", (8,), zeros())
    for _ in range(units):
        y = ops.tanh(y * 0.5)
    program.minimize(ops.mean(y), sgd(0.1))
    return program


def deep_perceptron(units):
    """Layers with weights, bias and relu, each with Adam's two slots."""
    program = Program("perceptron")
    x = program.input("x", "float32", ("batch", 8))
    for i in range(units):
        w, b = program.parameter(f"layer{i}.w", (8, 8)), program.parameter(f"layer{i}.b", (8,), zeros())
        x = ops.relu(x @ w + b)
    program.minimize(ops.mean(x * x), adam(1e-3))
    return program


def shared_parameter(units):
    """One weight used by every layer: all its gradients are accumulated."""
    program = Program("shared")
    x = program.input("x", "float32", ("batch", 8))
    w = program.parameter("w", (8, 8))
    for _ in range(units):
        x = x + ops.tanh(x @ w)
    program.minimize(ops.mean(x * x), sgd(0.1))
    return program


SHAPES = (
    ("pointwise chain", pointwise_chain, 50),
    ("deep perceptron, Adam", deep_perceptron, 20),
    ("one weight, all layers", shared_parameter, 20),
)


def timed(build, units):
    """Seconds to build and to compile."""
    gc.collect()
    start = perf_counter()
    program = build(units)
    built = perf_counter()
    program.compile(batch=32)
    return built - start, perf_counter() - built


def show_profile(build, units, most=25):
    profile = cProfile.Profile()
    profile.runcall(lambda: build(units).compile(batch=32))
    pstats.Stats(profile).sort_stats("tottime").print_stats(most)


if __name__ == "__main__":
    main()
