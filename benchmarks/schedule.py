"""Measure the gain of two threads, the part that the plan allows, and the gain of a program built once.

    python benchmarks/schedule.py                the tables
    python benchmarks/schedule.py --markdown     as in docs/scheduling.md

Steps in order, steps on two threads and steps on two threads with a plan made for these take turns, and a ratio is the
median over rounds. Before and after each round two threads multiply matrices that have nothing in common, to see what
the machine gives a second thread at that moment, 2 at best; below 1.7 others use the machine, and the round does not
count.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter, sleep

import numpy as np

from compiler import Program, he_normal, ops, sgd, zeros
from compiler.build.compiled import Compiled
from compiler.planning.touched_bytes import touched_bytes
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of
from runtime.blas import use_one_thread
from runtime.engines.reference.bind import bind
from runtime.engines.reference.target import REFERENCE
from runtime.placement import aligned
from runtime.runs.run import Run
from runtime.step import dependencies, places_of, places_within
from runtime.step.phases import longest_way, phases_of, shared_phases, waits_of

ROUNDS = 25
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
    parser.add_argument("--seconds", type=float, default=20.0, help="at most, for each program; default 20")
    options = parser.parse_args()
    use_one_thread()
    lines = [
        ["program", "ops", "one thread ms", "two threads ms", "times faster", "with room ms", "times faster", "rounds"]
    ]
    lines[0].append("target")
    for name, compiled, entry, repeat, target in programs():
        if options.only not in name:
            continue
        lines.append([name, *compare(compiled, entry, repeat, options.seconds), target])
        print(*lines[-1], file=sys.stderr)
    table(lines, markdown=options.markdown)
    lines = [["program", "arena", "at most", "with room", "at most", "apart", "at most"]]
    for name, compiled, entry, _, _ in programs():
        if entry == "train" and options.only in name:
            lines.append([name, *room(compiled)])
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


def with_room(compiled):
    """The program planned for two threads."""
    desc = copy_of(compiled.desc)
    roomy = Compiled(desc)
    roomy.plan(threads=2)
    return roomy


def executor_of(desc, entry="train", threads=1):
    run = Run(desc, threads=threads, engine="reference")
    executor = run.session.workspaces.executor(run.session.bindings(entry)[0])
    for _ in range(5):
        fill(executor)
        executor.step()
    return executor


def fill(executor):
    """Feeds are overwritten in a step: their memory is the arena's."""
    for array in executor.feeds.values():
        array[...] = 1 if array.dtype.kind == "i" else 0.01


def compare(compiled, entry, repeat, limit):
    """Milliseconds in order and on two threads by the two plans, with the ratios."""
    ways = [(compiled, 1), (compiled, 2), (with_room(compiled), 2)]
    executors = [executor_of(program.desc, entry, threads) for program, threads in ways]
    rounds = []
    end = perf_counter() + limit
    while len(rounds) < ROUNDS and perf_counter() < end:
        if second_thread() < FREE:
            sleep(0.02)
            continue
        times = [timed(executor, repeat) for executor in executors]
        if second_thread() >= FREE:
            rounds.append(times)
    for executor in executors:
        executor.close()
    ops = str(len(executors[0].parts))
    if not rounds:
        return [ops, *"-----", "0"]
    one, *others = zip(*rounds, strict=True)
    columns = [f"{median(one) * 1e3:.3f}"]
    for other in others:
        columns += [f"{median(other) * 1e3:.3f}", f"{median(a / b for a, b in zip(one, other, strict=True)):.2f}"]
    return [ops, *columns, str(len(rounds))]


def room(compiled):
    """Return the gain that memory allows: the time of all ops over that of two threads that wait only for bytes.

    Beside the plan stand the one for two threads, and one in which no two buffers share memory; the plan's arena is 1.
    """
    executor = executor_of(compiled.desc)
    shortest = [float("inf")] * len(executor.parts)
    for _ in range(40):
        fill(executor)
        spells = executor.profile_step()
        shortest = [min(best, spell.stop - spell.start) for best, spell in zip(shortest, spells, strict=True)]
    nanoseconds = {part.ops[0].id: round(best * 1e9) for part, best in zip(executor.parts, shortest, strict=True)}
    found = []
    for program in (compiled, with_room(compiled)):
        block, plan = block_of(program)
        places = places_within(block, REFERENCE, plan, ways=phases_of(block, 2, large=0))
        times = [nanoseconds.get(block.ids[i], 0) for i in places.order]
        gain = gain_of(dependencies(touched_bytes(block, places)), times)
        found += [f"{places.arena_bytes / executor.footprint.arena:.2f}", gain]
    nothing_shared = sum(aligned(buffer.nbytes) for buffer, _ in places_of(block, REFERENCE).in_arena)
    gain = gain_of(waits_of(block), [nanoseconds.get(id, 0) for id in block.ids])
    return [*found, f"{nothing_shared / executor.footprint.arena:.2f}", gain]


def block_of(compiled):
    """The training block and its plan."""
    [binding] = [entry.bindings[0] for entry in compiled.desc.entries if entry.name == "train"]
    return BlockAnalyses(compiled.desc)[binding.block], binding.plan


def gain_of(before, times):
    phases = shared_phases(before, times, 2, large=0)
    return f"{1.0 if phases is None else sum(times) / longest_way(phases, times):.2f}"


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
    """Return the speed-up of two threads on independent work at present."""

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
    bound = run.session.bindings(entry)[0]

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
    plain, again, anew = min(step), min(binding), min(building)
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
