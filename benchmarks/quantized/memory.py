"""Bytes of quantised programs: their files, and the memory of a process that predicts, before and after.

    python benchmarks/quantized/memory.py

Each network is quantised by rows of random numbers, which give ranges as good as any for this purpose. A process of
its own predicts 256 rows in batches of 32 on one thread, for the second time, so that its machine code is cached. Its
memory is the largest resident memory that the system counted, less that of a process that predicts by a network of one
weight. The states and the arena are what `runtime execute` prints.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import prograd
from prograd import Program, Value, layers, ops

ROWS, BATCH = 256, 32


def perceptron(x: Value) -> Value:
    """Return four layers of 2048."""
    for i in range(4):
        x = ops.relu(layers.dense(x, f"dense{i}", 2048))
    return layers.dense(x, "head", 10)


def pictures(x: Value) -> Value:
    """Return depthwise and 1x1 convolutions with batch normalisation."""
    x = ops.relu(layers.batch_norm(layers.conv(x, "first", 64), "first_norm"))
    for i, wide in enumerate((128, 256, 512, 1024)):
        deep = int(x.shape[-1])
        x = layers.conv(x, f"depth{i}", deep, groups=deep)
        x = ops.relu(layers.batch_norm(x, f"depth{i}_norm"))
        x = ops.relu(layers.batch_norm(layers.conv(x, f"point{i}", wide, window=1), f"point{i}_norm"))
        x = ops.max_pool2d(x, window=2, stride=2)
    return layers.dense(ops.mean(x, axis=(1, 2)), "head", 10)


def smallest(x: Value) -> Value:
    """Return a network of one weight."""
    return layers.dense(ops.mean(x, axis=(1,), keepdims=True), "head", 1)


NETWORKS: Final[dict[str, tuple[Callable[[Value], Value], tuple[int, ...]]]] = {
    "smallest": (smallest, (64,)),
    "perceptron of 4 layers of 2048": (perceptron, (2048,)),
    "depthwise and 1x1 convolutions, 32 x 32": (pictures, (32, 32, 3)),
}


def written(folder: Path, number: int, network: Callable[[Value], Value], shape: tuple[int, ...]) -> list[Path]:
    """Write a program with its weights beside it, and the quantised one; return both."""
    rows = np.random.default_rng(0).normal(size=(ROWS, *shape)).astype("f4")
    np.save(folder / "rows.npy", rows)
    program = Program(f"net{number}", seed=1)
    program.outputs(y=network(program.input("x", "float32", ("batch", *shape))))
    if any("norm" in state for state in program.states):
        program.freeze("*", statistics=True)
    whole, small = folder / f"whole{number}.pb", folder / f"small{number}.pb"
    program.compile(batch=BATCH).save(whole)
    run = prograd.load(whole)
    run.save(folder / f"whole{number}.safetensors")
    program.quantize("int8", run=run, rows={"x": rows})
    program.compile(batch=BATCH).save(small)
    return [whole, small]


def predicted(program: Path) -> dict[str, int]:
    """Return what a process that predicts prints about its memory, in bytes."""
    words = [sys.executable, "-m", "runtime", "execute", program.name, "--entry", "predict", "--threads", "1", "-q"]
    words += ["--feed", "x=@rows.npy", "--fetch", "y=@y.npy", "--force"]
    stored = program.with_suffix(".safetensors")
    words += ["--load", stored.name] if stored.exists() else []
    for _ in range(2):
        text = subprocess.run(words, cwd=program.parent, capture_output=True, text=True, check=True).stdout
    fields: dict[str, Any] = dict(word.split("=", 1) for word in text.splitlines()[-1].split() if "=" in word)
    return {name: int(fields[name]) for name in ("rss", "state", "arena")}


def bytes_of(program: Path) -> int:
    """Return the bytes of a program and of the weights beside it."""
    number = program.stem[len("whole") :]
    beside = program.with_suffix(".safetensors")
    weights = beside if beside.exists() else program.with_name(f"net{number}.weights.safetensors")
    return program.stat().st_size + weights.stat().st_size


def main() -> None:
    """Print a line for each network and form, in MB."""
    print(f"{'network':<42} {'form':<8} {'files':>8} {'states':>8} {'arena':>8} {'process':>8}")
    with tempfile.TemporaryDirectory() as name:
        base = 0
        for number, (network, (write, shape)) in enumerate(NETWORKS.items()):
            for form, program in zip(("float32", "int8"), written(Path(name), number, write, shape), strict=True):
                found = predicted(program)
                if network == "smallest":
                    base = base or found["rss"]
                    continue
                sizes = bytes_of(program), found["state"], found["arena"], found["rss"] - base
                print(f"{network:<42} {form:<8}" + "".join(f"{size / 1e6:>9.2f}" for size in sizes), flush=True)


if __name__ == "__main__":
    main()
