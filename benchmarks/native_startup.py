"""Measure a process with the native engine from start to end, with and without cached code.

    python benchmarks/native_startup.py

One training step of an MLP 784-256-128-10 with momentum, batch 32, beside the same with the reference engine; then one
step of each program of `compile_time.py`, of 10,000 ops, without kept code. Times are medians over fresh processes that
take turns, processor time that of user and system together, memory the peak of the process.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from compile_time import SHAPES, units_for
from safetensors.numpy import save_file

from prograd import Program, layers, momentum, ops

ROUNDS = 9
ROUNDS_OF_MANY_OPS = 3


def main():
    with TemporaryDirectory() as folder:
        write_mlp(Path(folder))
        mlp = ["-m", "runtime", "execute", "mlp.pb", "-q", "--engine"]
        rows = [
            ("native, code kept", [*mlp, "native"], "kept", (0.3, 70)),
            ("native, nothing kept", [*mlp, "native"], "", (1.2, None)),
            ("reference", [*mlp, "reference"], "", (None, None)),
        ]
        show(folder, rows, ROUNDS)
        np.save(Path(folder) / "x.npy", np.ones((32, 8), np.float32))
        many = ["-m", "runtime", "execute", "many.pb", "-q", "--feed", "x=@x.npy", "--steps", "1", "--engine"]
        for what, build, units in SHAPES:
            build(units_for(build, units)).compile(batch=32).save(Path(folder) / "many.pb", force=True)
            rows = [
                (f"{what}, nothing kept", [*many, "native"], "", (5, None)),
                (f"{what}, reference", [*many, "reference"], "", (None, None)),
            ]
            show(folder, rows, ROUNDS_OF_MANY_OPS)


def write_mlp(folder):
    program = Program("mlp", seed=1)
    image, label = program.input("image", "float32", ("batch", 784)), program.input("label", "int64", ("batch",))
    x = image
    for i, size in enumerate((256, 128)):
        x = ops.relu(layers.dense(x, f"layer{i}", size))
    program.minimize(ops.softmax_cross_entropy(layers.dense(x, "out", 10), label), momentum(0.01))
    program.data("rows.safetensors", shuffle=False)
    program.training(epochs=1)
    rng = np.random.default_rng(0)
    rows = {"image": rng.random((32, 784), np.float32), "label": rng.integers(0, 10, 32)}
    save_file(rows, folder / "rows.safetensors")
    program.compile(batch=32).save(folder / "mlp.pb", force=True)


def show(folder, rows, rounds):
    """A line for each row: seconds, processor time, peak memory, and whether time and memory are as wanted."""
    measured = [[process(folder, command, cache) for _, command, cache, _ in rows] for _ in range(1 + rounds)]
    for (what, _, _, targets), *values in zip(rows, *measured[1:], strict=True):  # the first ones compile byte code
        wall, cpu, mebibytes = (median(numbers) for numbers in zip(*values, strict=True))
        found = zip((wall, mebibytes), targets, ("s", "MiB"), strict=True)
        verdicts = [f"{'met' if value <= most else 'MISSED'} {most} {unit}" for value, most, unit in found if most]
        print(f"  {what:42}{wall:7.3f} s {cpu:8.3f} s cpu{mebibytes:8.1f} MiB  {', '.join(verdicts)}")


def process(folder, command, cache):
    """Seconds, seconds of processor, and peak memory in MiB of a fresh process that finds its byte code."""
    environment = os.environ | {
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PROGRAD_CACHE": cache and os.path.join(folder, cache),
    }
    start, before = perf_counter(), getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    wall, after = perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = re.search(r"rss=(\d+)", done.stdout)
    return wall, cpu, int(peak[1]) / 2**20


if __name__ == "__main__":
    main()
