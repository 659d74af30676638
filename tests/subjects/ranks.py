"""Runs of several processes: programs with shards, and the launchers that start them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from compiler import Program, Value, adam, global_norm, metrics, ops
from prograd import layers

ROWS, WIDTH = 172, 64
SECONDS = 300
ENGINES = ("reference", "native")


class Launcher(NamedTuple):
    """An `mpiexec` and the library that belongs to it."""

    command: list[str]
    environment: dict[str, str]


class Ended(NamedTuple):
    """The end of a job."""

    code: int
    out: str
    err: str

    def field(self, name: str) -> str:
        """Return a field of the result line; there is exactly one such line."""
        [line] = [line for line in self.out.splitlines() if line.startswith("OK ")]
        [value] = re.findall(rf"(?:^| ){re.escape(name)}=(\S*)", line)
        return value


def mpich() -> Launcher | None:
    """Return the launcher of the package mpich, else the `mpiexec` of the system; None if there is none."""
    if os.environ.get("PROGRAD_MPIEXEC"):
        return Launcher(os.environ["PROGRAD_MPIEXEC"].split(), {})
    try:
        found = {Path(path).name: Path(str(path.locate())).resolve() for path in files("mpich") or ()}
    except PackageNotFoundError:
        command = shutil.which("mpiexec")
        return None if command is None else Launcher([command], {})
    return Launcher([str(found["mpiexec.hydra"])], {"MPI4PY_LIBMPI": str(found["libmpi.so.12"])})


LAUNCHER = mpich()

starts_jobs = pytest.mark.skipif(LAUNCHER is None, reason="there is no mpiexec: pip install mpich")


def run_of(engine: str, *more: str) -> list[str]:
    """Return the words of a run of the network that `save_network` saves."""
    return ["execute", "net.pb", "-q", "--threads", "1", "--engine", engine, *more]


def job(
    ranks: int,
    arguments: list[str],
    folder: Path,
    launcher: Launcher,
    *,
    program: list[str] | None = None,
    seconds: float = SECONDS,
    environment: dict[str, str] | None = None,
) -> Ended:
    """Run a job of `runtime` and return its end; raise TimeoutExpired if it has none."""
    words = [*launcher.command, "-n", str(ranks), *(program or [sys.executable, "-m", "runtime"]), *arguments]
    everything = {**os.environ, **launcher.environment, **(environment or {})}
    done = subprocess.run(words, cwd=folder, env=everything, capture_output=True, text=True, timeout=seconds)
    return Ended(done.returncode, done.stdout, done.stderr)


def alone(arguments: list[str], folder: Path) -> Ended:
    """Run `runtime` in one process."""
    words = [sys.executable, "-m", "runtime", *arguments]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    return Ended(done.returncode, done.stdout, done.stderr)


def save_network(
    folder: Path, name: str = "net.pb", *, shards: int = 8, seed: int = 1, width: int = 128, keep_best: bool = False
) -> None:
    """Save a program with its rows: dropout, batch norm, ignored labels, clipping by global norm, partial batches."""
    from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]: it is typed in part

    rng = np.random.default_rng(0)
    label = rng.integers(-1, 10, ROWS)
    rows = folder / "rows.safetensors"
    if not rows.exists():
        save_file({"x": rng.standard_normal((ROWS, WIDTH)).astype("float32"), "label": label}, rows)
    program = Program("net", seed=seed)
    x, label = program.input("x", "float32", ("batch", WIDTH)), program.input("label", "int64", ("batch",))
    h = layers.batch_norm(layers.dense(x, "hidden", width), "norm")
    h = ops.dropout(ops.relu(h), ratio=0.3)
    logits = layers.dense(h, "output", 10)
    program.minimize(ops.cross_entropy(logits, label, ignored=-1), adam(1e-2), clip=global_norm(0.5))
    program.metrics(accuracy=metrics.accuracy(logits, label))
    program.outputs(probabilities=ops.softmax(logits))
    splits = {"train": slice(0, 118), "test": slice(118, ROWS)}
    program.data("rows.safetensors", splits=splits, shuffle=True, remainder="partial")
    program.training(epochs=4, evaluate="test", keep_best="accuracy" if keep_best else None)
    program.compile(batch=(32, 22), shards=shards).save(folder / name)


def combined() -> Program:
    """Return a program with a loop over time steps, wide layers, a frozen layer and averages."""
    program = Program("combined", seed=3)
    x, label = program.input("x", "float32", ("batch", 3, 32)), program.input("label", "int64", ("batch",))
    first = ops.broadcast_to(program.parameter("first", (1, 48)), shape=("batch", 48))

    def step(h: Value, now: Value) -> tuple[Value, Value]:
        h = ops.tanh(layers.dense(now, "in", 48) + layers.dense(h, "state", 48, bias=False))
        return h, h

    last, _ = ops.scan(step, first, ops.transpose(x, axis=(1, 0, 2)))
    h = ops.tanh(layers.dense(last, "frozen", 64))
    for number in range(4):
        h = ops.tanh(layers.dense(h, f"hidden{number}", 64))
    program.minimize(ops.cross_entropy(layers.dense(h, "output", 10), label), adam(1e-2), clip=global_norm(0.5))
    program.average(0.9)
    program.freeze("frozen*")
    return program


def combined_rows(count: int = 64) -> dict[str, np.ndarray]:
    """Return rows for `combined`."""
    rng = np.random.default_rng(2)
    return {"x": rng.standard_normal((count, 3, 32)).astype("float32"), "label": rng.integers(0, 10, count)}
