"""Measure the time from a process's start to its first training step: 64-32-10 perceptron, Adam, batch 64.

    python benchmarks/startup.py              the table
    python benchmarks/startup.py --imports    also the slowest imports of the runtime, by -X importtime

Every number is the median over fresh processes that take turns, from before the process is made until it has ended,
so the interpreter's own start and end are in it. Files are in the page cache and byte code is compiled, as pip does
when it installs.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from report import report
from safetensors.numpy import save_file

from compiler import Program, adam, ops, zeros

ROUNDS = 15
TARGET = 0.25  # seconds

LIBRARY = """
import numpy, runtime
run = runtime.load("mlp.pb")
run.step({"x": numpy.ones((64, 64), "float32"), "label": numpy.ones(64, "int64")})
"""
FLOOR = "import numpy, google.protobuf"
IMPORTS = f"{FLOOR}, safetensors, runtime, runtime.runs.run"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--imports", action="store_true", help="show where the imports' time goes")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_program(Path(folder))
        commands = {
            "runtime execute, one step": ["-m", "runtime", "execute", "mlp.pb", "--steps", "1"],
            "runtime.load and step": ["-c", LIBRARY],
            "import numpy, google.protobuf": ["-c", FLOOR],
            "python alone": ["-c", "pass"],
        }
        found = {what: [] for what in commands}
        for _ in range(1 + ROUNDS):
            for what, command in commands.items():
                found[what].append(seconds(command, folder))
        if options.imports:
            show_imports(folder)
    times = {what: median(processes[1:]) for what, processes in found.items()}  # the first ones compile byte code
    rows = [(what, time, TARGET if "step" in what else None) for what, time in times.items()]
    report("start-up: process start to its end, with one training step", *rows, unit="s")
    ratio = times["runtime execute, one step"] / times["import numpy, google.protobuf"]
    print(f"  runtime execute takes {ratio:.2f} times as long as importing what it cannot do without")


def write_program(folder):
    program = Program("mlp")
    x, label = program.input("x", "float32", ("batch", 64)), program.input("label", "int64", ("batch",))
    hidden = ops.relu(x @ program.parameter("w1", (64, 32)) + program.parameter("b1", (32,), zeros()))
    logits = hidden @ program.parameter("w2", (32, 10)) + program.parameter("b2", (10,), zeros())
    program.minimize(ops.softmax_cross_entropy(logits, label), adam(1e-3))
    program.data("rows.safetensors", shuffle=False)
    program.training(epochs=1)
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(64, 64)).astype(np.float32), "label": rng.integers(0, 10, 64)}
    save_file(rows, folder / "rows.safetensors")
    program.compile(batch=64).save(folder / "mlp.pb", force=True)


def seconds(command, folder):
    """Measure a fresh process."""
    start = perf_counter()
    process(command, folder)
    return perf_counter() - start


def process(command, folder):
    """The result of a fresh process that finds its byte code."""
    environment = os.environ | {"PYTHONPYCACHEPREFIX": os.path.join(folder, "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, *command]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)


def show_imports(folder, most=20):
    """The modules that took the longest themselves, without what they import."""
    lines = process(["-X", "importtime", "-c", IMPORTS], folder).stderr.splitlines()
    fields = [line.removeprefix("import time:").split("|") for line in lines if line.count("|") == 2]
    found = [(int(own), name.strip()) for own, _, name in fields if own.strip().isdecimal()]
    print(f"slowest of {len(found)} imports, by their own time")
    for own, name in sorted(found, reverse=True)[:most]:
        print(f"  {own / 1000:9.1f} ms  {name}")


if __name__ == "__main__":
    main()
