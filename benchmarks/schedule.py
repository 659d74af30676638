"""What two threads gain, and what it gains to run a program step after step instead of building it for each.

    python benchmarks/schedule.py                the tables
    python benchmarks/schedule.py --markdown     as in docs/scheduling.md

Steps in the order of the list and steps on two threads take turns, and the ratio is the median over pairs. Beside each
pair two threads multiply matrices that have nothing in common: that is what the machine gives a second thread at that
moment, 2 at best. Pairs at which it gives less than 1.7, because others use the machine, are left out and counted.
Both tables take about four minutes.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter

import numpy as np

from compiler import Program, he_normal, ops, sgd, zeros
from runtime.bind import bind
from runtime.blas import use_one_thread
from runtime.executor import TRIALS
from runtime.run import Run

PAIRS = 25
SECONDS = 25  # for each program
FREE = 1.7


def digits_cnn():
    """The example."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from digits_cnn import build

    return build()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--markdown", action="store_true", help="print the tables of the page")
    parser.add_argument("--only", default="", metavar="WORD", help="the programs whose names have this word")
    options = parser.parse_args()
    use_one_thread()
    lines = [
        ["program", "ops", "fifo ms", "two threads ms", "times faster", "target", "machine gives", "pairs", "left out"]
    ]
    for name, compiled, entry, repeat, target in programs():
        if options.only not in name:
            continue
        found = compare(compiled, entry, repeat)
        lines.append([name, *found[:4], target, *found[4:]])
        print(*lines[-1], file=sys.stderr)
    table(lines, markdown=options.markdown)
    lines = [["program", "ms a step", "bind and step", "build, compile, bind and step", "times"]]
    for name, build, sizes in builders():
        if options.only not in name:
            continue
        lines.append([name, *rebuilt(build, sizes)])
    table(lines, markdown=options.markdown)


def programs():
    """Name, program, entry, steps in a row, and what two threads should gain."""
    yield "two towers, 3 x 1024, batch 128", without_data(towers(2)).compile(batch=128), "train", 1, "1.4"
    yield "two towers, 4 x 1024, batch 256", without_data(towers(2, 4)).compile(batch=256), "train", 1, "1.4"
    yield "two towers, 3 x 512, batch 256", without_data(towers(2, 3, 512)).compile(batch=256), "train", 2, ""
    yield "chain, 3 x 1024, batch 128", without_data(towers(1)).compile(batch=128), "train", 2, "0.95"
    yield "chain of 200 small ops", small().compile(), "predict", 100, "0.95"
    yield "digits_cnn, batch 32", without_data(digits_cnn()).compile(batch=32), "train", 5, "0.95"


def builders():
    yield "digits_cnn, batch 32", digits_cnn, {"batch": 32}
    yield "two towers, 3 x 512, batch 256", lambda: towers(2, 3, 512), {"batch": 256}
    yield "chain of 200 small ops", small, {}


def towers(count, layers=3, width=1024):
    """Stacks of dense layers with inputs of their own, whose outputs are added in one loss."""
    program = Program("towers", seed=1)
    joined = None
    for tower in range(count):
        x = program.input(f"x{tower}", "float32", ("batch", width))
        for layer in range(layers):
            w = program.parameter(f"w{tower}.{layer}", (width, width), he_normal())
            b = program.parameter(f"b{tower}.{layer}", (width,), zeros())
            x = ops.relu(x @ w + b)
        joined = x if joined is None else joined + x
    program.minimize(ops.squared_error(joined, program.input("y", "float32", ("batch", width))), sgd(rate=1e-4))
    return program


def small():
    program = Program("small")
    x, y = (program.input(name, "float32", (100,)) for name in "xy")
    for _ in range(100):
        y = ops.add(ops.mul(y, x), x)
    program.outputs(y=y)
    return program


def without_data(program):
    """Feeds are filled here."""
    program.data_desc = program.run_desc = None
    return program


def executor_of(desc, entry="train", threads=1):
    run = Run(desc, threads=threads)
    executor = run.engine.executor(run.bindings(entry)[0])
    for _ in range(TRIALS + 2):
        fill(executor)
        executor.step()
    return executor


def fill(executor):
    """Feeds are overwritten in a step: their memory is the arena's."""
    for array in executor.feeds.values():
        array[...] = 1 if array.dtype.kind == "i" else 0.01


def compare(compiled, entry, repeat):
    fifo, parallel = (executor_of(compiled.desc, entry, threads) for threads in (1, 2))
    found, skipped = [], 0
    end = perf_counter() + SECONDS
    while len(found) < PAIRS and perf_counter() < end:
        before = second_thread()
        pair = timed(fifo, repeat), timed(parallel, repeat)
        given = min(before, second_thread())
        if given < FREE:
            skipped += 1
            continue
        found.append((*pair, given))
    parallel.close()
    if not found:
        return [str(len(fifo.ops)), "", "", "machine busy", "", "0", str(skipped)]
    one, two, given = (median(column) for column in zip(*found, strict=True))
    ratio = median(a / b for a, b, _ in found)
    return [
        str(len(fifo.ops)), f"{one * 1e3:.3f}", f"{two * 1e3:.3f}", f"{ratio:.2f}", f"{given:.2f}",
        str(len(found)), str(skipped),
    ]  # fmt: skip


def timed(executor, repeat):
    """Seconds of a step; filling the feeds does not count."""
    total = 0.0
    for _ in range(repeat):
        fill(executor)
        start = perf_counter()
        executor.step()
        total += perf_counter() - start
    return total / repeat


MATRICES = [[np.ones((256, 256), np.float32) for _ in range(3)] for _ in range(2)]


def second_thread():
    """How many times faster two threads are at work that is independent, now."""

    def work(k):
        a, b, out = MATRICES[k]
        for _ in range(8):
            np.matmul(a, b, out)

    start = perf_counter()
    work(0)
    work(1)
    middle = perf_counter()
    other = Thread(target=work, args=(1,))
    other.start()
    work(0)
    other.join()
    return (middle - start) / (perf_counter() - middle)


def rebuilt(build, sizes):
    """Seconds of a step, of one with binding before it, and of one with everything before it; the best of a few."""
    compiled = without_data(build()).compile(**sizes)
    entry = compiled.desc.entries[0].name
    executor = executor_of(compiled.desc, entry)
    run = Run(compiled.desc)
    bound = run.bindings(entry)[0]

    def bound_anew():
        bind(bound.block, run.states.arrays, plan=bound.plan)
        fill(executor)
        executor.step()

    def built_anew():
        without_data(build()).compile(**sizes)
        bound_anew()

    step, binding, building = [], [], []
    for _ in range(5):
        step.append(timed(executor, 3))
        binding.append(seconds(bound_anew))
        building.append(seconds(built_anew))
    plain, again, anew = median(step), median(binding), median(building)
    return [f"{plain * 1e3:.2f}", f"{again * 1e3:.2f}", f"{anew * 1e3:.2f}", f"{anew / plain:.0f}"]


def seconds(function):
    start = perf_counter()
    function()
    return perf_counter() - start


def table(lines, *, markdown):
    if markdown:
        lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
        print(*(f"| {' | '.join(line)} |" for line in lines), "", sep="\n")
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        print(f"{first:<{widths[0]}}  " + "  ".join(f"{o:>{w}}" for o, w in zip(others, widths[1:], strict=True)))
    print()


if __name__ == "__main__":
    main()
